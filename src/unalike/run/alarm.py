"""Losses that no sensible training produces, reported when they occur and again in the summary.

So are clients whose own state is not finite, though what they sent could be used.
"""

from collections.abc import Iterable
from typing import Any

TIMES = 1000  # as high as the loss of a model that knows nothing
SAID = "training has diverged: "


def alarm(judged: dict[str, Any], ignorance: float) -> str:
    """What to say of an evaluation whose loss has exploded; empty if it has not.

    ``ignorance`` is the loss of a model that knows nothing, near which a run starts.
    """
    bound = TIMES * ignorance
    for section, metrics in judged.items():
        loss = metrics.get("loss", {}).get("mean")
        if loss is not None and loss > bound:
            return (
                f"{SAID}a loss of {loss:.3g} ({section}) is more than {TIMES:,} times that of an "
                "untrained guess; lower the learning rate"
            )
    return ""


def kept_back(unsound: Iterable[int]) -> str:
    """What to say of clients whose new states were not taken; empty if there are none."""
    if not (clients := sorted(unsound)):
        return ""
    more = f" (and of {len(clients) - 1} more)" if clients[1:] else ""
    return (
        f"the own state of client {clients[0]}{more} is no longer finite, so the one before stays "
        "in use; lower the learning rate"
    )


def first_said(records: list[dict[str, Any]]) -> int | None:
    """The first round of which it was said."""
    said = (r["round"] for r in records if any(n.startswith(SAID) for n in r["notes"]))
    return next(said, None)
