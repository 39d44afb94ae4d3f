"""The skew of a partition in sentences.

Studies of samplers at equal EMD found nearly no effect on the accuracy of FedAvg below an EMD of
1.0, and a fall on every dataset from 1.2 on. They used ten classes, whose EMD ends at 1.8; where
fewer classes leave less room, the share of that room is said beside it.
"""

from unalike.federation.skew import Skew

WEAK = 1.0
STRONG = 1.2
UNEVEN = 0.2  # Gini coefficients of sizes from which on they are called
LOPSIDED = 0.5  # uneven and very uneven


def in_words(skew: Skew) -> list[str]:
    """Label skew, quantity skew, and what neither of them shows."""
    return [_labels(skew), _sizes(skew), "Differences in features are not measured."]


def _labels(skew: Skew) -> str:
    value, most = skew.emd, 2 - 2 / skew.classes  # the most that equal classes allow
    found = f"EMD {value:.2f}; with {skew.classes} equal classes it ends at {most:.2f}"
    if value < WEAK:
        meaning = f"below {WEAK:.1f}, where studies found little effect on FedAvg"
        kind = "Weak label skew"
    elif value < STRONG:
        meaning = f"between {WEAK:.1f} and {STRONG:.1f}, where some datasets begin to suffer"
        kind = "Moderate label skew"
    else:
        meaning = f"from {STRONG:.1f} on FedAvg suffered on every dataset studied"
        kind = "Strong label skew"
    caveat = ""
    if value < STRONG and most < STRONG:
        caveat = f" These bounds come from ten classes; {value / most:.0%} of the room is used."
    return f"{kind} ({found}): {meaning}.{caveat}"


def _sizes(skew: Skew) -> str:
    found = f"Gini {skew.gini:.2f}, {skew.smallest:.0f} to {skew.largest:.0f} training examples"
    if skew.gini < UNEVEN:
        return f"Little quantity skew ({found})."
    if skew.gini < LOPSIDED:
        return f"Quantity skew ({found}): weights by examples favour the large clients."
    return f"Strong quantity skew ({found}): few clients hold most of the examples."
