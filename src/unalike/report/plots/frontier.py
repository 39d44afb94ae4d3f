"""What a method gives the average client against what it gives the worst."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unalike.errors import DataError
from unalike.metrics.catalogue import metric as looked_up
from unalike.report.plots.canvas import GREY, finish, inline, number_format
from unalike.report.plots.methods import look, switchable
from unalike.tables.format import with_unit

if TYPE_CHECKING:
    from altair.typing import ChartType


def fairness_frontier(
    records: Sequence[Mapping[str, Any]],
    metric: str = "accuracy",
    title: str = "",
) -> "ChartType":
    """A point per method, its repetitions faintly around it, and a line through the undominated.

    Args:
        records: Dicts with ``method``, ``mean`` (over clients) and ``worst`` (of the worst tenth);
            those of one method are repetitions.
        metric: What they are means of.
        title: Title of the figure.
    """
    import altair as alt

    rows = [(str(r["method"]), r["mean"], r["worst"]) for r in records]
    if not rows or not all(np.isfinite([m, w]).all() for _, m, w in rows):
        raise DataError("fairness_frontier needs a finite 'mean' and 'worst' of every record.")
    names = list(dict.fromkeys(name for name, _, _ in rows))
    row = np.array([names.index(name) for name, _, _ in rows])
    each = np.array([[m, w] for _, m, w in rows], float)
    centre = np.stack([each[row == i].mean(0) for i in range(len(names))])
    found = looked_up(metric)
    front = undominated(centre if found.higher else -centre)

    encodings, form = look(names, points=True), number_format(metric)
    low, high = each.min(0), each.max(0)
    margin = 0.08 * np.maximum(high - low, 0.02)
    axes = {
        axis: channel(f"{axis}:Q", title=text)
        .scale(domain=[low[i] - margin[i], high[i] + margin[i]], nice=False)
        .axis(format=form.axis)
        for i, (axis, channel, text) in enumerate(
            [
                ("x", alt.X, f"mean {found.title} of all clients"),
                ("y", alt.Y, f"mean {found.title} of the worst tenth"),
            ]
        )
    }
    told = [
        alt.Tooltip("method:N"),
        alt.Tooltip("x:Q", title="mean", format=form.tooltip),
        alt.Tooltip("y:Q", title="worst tenth", format=form.tooltip),
    ]
    means = alt.Chart(inline(method=names, x=centre[:, 0], y=centre[:, 1]))
    order = front[np.argsort(centre[front, 0])]
    edge = inline(method=np.array(names)[order], x=centre[order, 0], y=centre[order, 1])
    layers = [
        alt.Chart(edge)
        .mark_line(color=GREY, strokeDash=[4, 3], strokeWidth=1.2)
        .encode(**axes, order=alt.Order("x:Q")),
        means.mark_point(filled=True, size=150, opacity=1, stroke="white", strokeWidth=1).encode(
            **axes, **encodings, tooltip=told
        ),
    ]
    if len(rows) > len(names):
        repeats = inline(method=np.array(names)[row], x=each[:, 0], y=each[:, 1])
        faint = alt.Chart(repeats).mark_point(filled=True, size=40, opacity=0.45)
        layers.insert(1, faint.encode(**axes, **encodings, tooltip=told))
    chart = switchable(alt.layer(*layers).properties(width=460, height=300), names)
    best = ", ".join(names[i] for i in order)
    where = "; ".join(
        f"{n} {with_unit(m, metric)} and {with_unit(w, metric)}"
        for n, (m, w) in zip(names, centre, strict=True)
    )
    words = f"Mean {found.title} and that of the worst tenth: {where}. Not dominated: {best}."
    return finish(chart, title, description=words)


def undominated(points: NDArray[np.float64]) -> NDArray[np.intp]:
    """The rows that no other row equals or exceeds in all columns and exceeds in one."""
    at_least = (points[:, None] >= points[None]).all(2)
    more = (points[:, None] > points[None]).any(2)
    return np.flatnonzero(~(at_least & more).any(0))
