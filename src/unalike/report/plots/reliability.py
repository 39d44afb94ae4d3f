"""Whether a confidence of 80 % is right in 80 % of the cases: the reliability diagram.

Niculescu-Mizil & Caruana (2005); Guo et al., "On Calibration of Modern Neural Networks" (2017).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from unalike.errors import DataError
from unalike.report.plots.canvas import GREY, finish, inline
from unalike.report.plots.methods import look, switchable

if TYPE_CHECKING:
    from altair.typing import ChartType

LEAST = 10  # predictions of a bin worth drawing, if there are such bins
KEYS = ("counts", "accuracy", "confidence")


def reliability_diagram(
    bins: Mapping[str, Mapping[str, ArrayLike]], title: str = ""
) -> "ChartType":
    """Accuracy over confidence, a line per method whose points are as large as its bins are full.

    Args:
        bins: By method, vectors over bins ``counts``, ``accuracy`` and ``confidence``; the last two
            are NaN or None where a bin is empty.
        title: Title of the figure.
    """
    import altair as alt

    if not bins:
        raise DataError("reliability_diagram needs the bins of at least one method.")
    names, rows, errors = list(bins), [], []
    for name, found in bins.items():
        if missing := [key for key in KEYS if key not in found]:
            raise DataError(f"the bins of '{name}' must have '{missing[0]}'.")
        n, accuracy, confidence = (np.array(found[key], float) for key in KEYS)
        if not n.ndim == 1 or not n.shape == accuracy.shape == confidence.shape or not n.sum() > 0:
            raise DataError(f"the bins of '{name}' must be three vectors of one length, not empty.")
        full = n >= (LEAST if n.max() >= LEAST else 1)
        share = n[full] / n.sum()
        rows.append((name, confidence[full], accuracy[full], share))
        gap = np.abs(accuracy - confidence)[n > 0]
        errors.append(float(gap @ n[n > 0] / n.sum()))
    columns = {
        "method": np.repeat(names, [len(r[1]) for r in rows]),
        **{
            key: np.concatenate([r[i] for r in rows])
            for i, key in ((1, "confidence"), (2, "accuracy"), (3, "share"))
        },
    }
    unit = alt.Scale(domain=[0, 1], nice=False)
    axes: dict[str, Any] = {
        "x": alt.X("confidence:Q", scale=unit, title="confidence").axis(format=".0%", tickCount=5),
        "y": alt.Y("accuracy:Q", scale=unit, title="accuracy").axis(format=".0%", tickCount=5),
    }
    encodings = look(names)
    ideal = alt.Chart(inline(confidence=[0, 1], accuracy=[0, 1]))
    base = alt.Chart(inline(**columns)).encode(**axes, color=encodings["color"])
    tooltip = [
        alt.Tooltip("method:N"),
        *(alt.Tooltip(f"{key}:Q", format=".1%") for key in list(columns)[1:]),
    ]
    size = alt.Size("share:Q").scale(domain=[0, 1], range=[12, 900]).legend(None)
    marks = alt.layer(
        base.mark_line(strokeWidth=1.8).encode(strokeDash=encodings["strokeDash"]),
        base.mark_circle(opacity=0.75).encode(size=size, tooltip=tooltip),
    )
    chart = alt.layer(
        ideal.mark_line(color=GREY, strokeDash=[2, 3], strokeWidth=1.2).encode(**axes),
        switchable(marks, names),
    ).properties(width=380, height=340)
    told = "; ".join(f"{name} {e:.3f}" for name, e in zip(names, errors, strict=True))
    words = (
        f"Accuracy against confidence, the diagonal being perfect. Mean distance from it: {told}."
    )
    return finish(chart, title, description=words)
