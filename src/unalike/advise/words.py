"""The skew of a partition in sentences, and numbers of things.

Studies of samplers at equal EMD found nearly no effect on the accuracy of FedAvg below an EMD of
1.0, and a fall on every dataset from 1.2 on. They used ten classes, whose EMD ends at 1.8; two
classes end at 1.0, so there only the share of that maximum is reported.
"""

from unalike.federation.feature_skew import FeatureSkew
from unalike.federation.skew import Skew
from unalike.report.skew import cell
from unalike.run.configuration.config import Named
from unalike.tables.format import whole

WEAK = 1.0
STRONG = 1.2
UNEVEN = 0.2  # Gini coefficients of sizes from which on they are called
LOPSIDED = 0.5  # uneven and very uneven


def in_words(skew: Skew, features: FeatureSkew) -> list[str]:
    """Label skew, quantity skew and feature skew."""
    return [_labels(skew), _sizes(skew), _features(features)]


def _features(found: FeatureSkew) -> str:
    many = int(found.measured.sum())
    if not many:
        return "Feature skew is not measured on these data."
    mmd = f"MMD {cell('mmd', found.mean).text} at equal labels"
    if not found.apart:
        return f"No feature skew beyond chance ({mmd})."
    which = "all" if found.apart == many else f"{found.apart} of {many}"
    differ = "differs" if found.apart == 1 else "differ"
    return f"Feature skew ({mmd}): {which} clients {differ} from the others beyond chance."


def _labels(skew: Skew) -> str:
    value, most = skew.emd, 2 - 2 / skew.classes  # the most that equal classes allow
    emd, end = cell("emd", value).text, cell("emd", most).text
    found = f"EMD {emd}; the maximum with {skew.classes} equal classes is {end}"
    if most < STRONG:
        return (
            f"Label skew of {value / most:.0%} of the maximum ({found}); the bounds that studies "
            "found are for ten classes and do not apply."
        )
    if value < WEAK:
        meaning = f"below {WEAK:.1f}, where studies found little effect on FedAvg"
        return f"Weak label skew ({found}): {meaning}."
    if value < STRONG:
        meaning = (
            f"between {WEAK:.1f} and {STRONG:.1f}, where accuracy starts to fall on some datasets"
        )
        return f"Moderate label skew ({found}): {meaning}."
    meaning = f"from {STRONG:.1f} on, FedAvg's accuracy fell on every dataset studied"
    return f"Strong label skew ({found}): {meaning}."


def _sizes(skew: Skew) -> str:
    gini, least, most = (
        cell(name, value).text
        for name, value in (
            ("gini", skew.gini),
            ("smallest", skew.smallest),
            ("largest", skew.largest),
        )
    )
    found = f"Gini {gini}, {least} to {most} training examples"
    if skew.gini < UNEVEN:
        return f"Little quantity skew ({found})."
    if skew.gini < LOPSIDED:
        return f"Quantity skew ({found}): weights by examples favour the large clients."
    return f"Strong quantity skew ({found}): few clients hold most of the examples."


def model_in_words(model: Named, parameters: int) -> str:
    """What all methods train.

    >>> model_in_words(Named(name="mlp", settings={"hidden": [32]}), 2410)
    'mlp of 2,410 parameters (hidden = [32])'
    """
    settings = ", ".join(f"{k} = {v}" for k, v in model.settings.items() if v is not None)
    size = f"{model.name} of {whole(parameters)} parameters"
    return f"{size} ({settings})" if settings else size
