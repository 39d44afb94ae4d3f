"""Losses that no sensible training produces, reported when they occur and again in the summary."""

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


def first_said(records: list[dict[str, Any]]) -> int | None:
    """The first round of which it was said."""
    said = (r["round"] for r in records if any(n.startswith(SAID) for n in r["notes"]))
    return next(said, None)
