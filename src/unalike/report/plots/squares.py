"""Numbers on a square: clients' models on others' data, and the loss around a model."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unalike.errors import DataError
from unalike.metrics.catalogue import metric as looked_up
from unalike.report.plots.canvas import finish, inline, number_format
from unalike.report.plots.weights import SHADES
from unalike.tables.format import with_unit

if TYPE_CHECKING:
    from altair.typing import ChartType


def cross_plot(
    values: ArrayLike, clients: Sequence[object], metric: str = "accuracy"
) -> "ChartType":
    """Model of one client (rows) on the data of another (columns): who profits from whom."""
    import altair as alt

    table = _square(values, len(clients))
    i, j = np.indices(table.shape).reshape(2, -1)
    names = np.array([str(c) for c in clients])
    form = number_format(metric)
    cells = inline(model=names[i], data=names[j], value=table[i, j])
    order = names.tolist()
    chart = alt.Chart(cells).mark_rect()
    chart = chart.encode(
        x=alt.X("data:N", sort=order, title="test data of client").axis(labelOverlap=True),
        y=alt.Y("model:N", sort=order, title="model of client").axis(labelOverlap=True),
        color=_colour(looked_up(metric).title, form.axis, reverse=not looked_up(metric).higher),
        tooltip=[
            alt.Tooltip("model:N", title="model of"),
            alt.Tooltip("data:N", title="data of"),
            alt.Tooltip("value:Q", title=looked_up(metric).title, format=form.tooltip),
        ],
    )
    side = max(120, min(360, 22 * len(clients)))
    own = float(np.nanmean(np.diag(table)))
    apart = table[~np.eye(len(table), dtype=bool)]
    others = float(np.nanmean(apart)) if len(table) > 1 else math.nan
    words = (
        f"{looked_up(metric).title[0].upper()}{looked_up(metric).title[1:]} of the models of "
        f"{len(table)} clients on the test data of each: {with_unit(own, metric)} on their own, "
        f"{with_unit(others, metric)} on the others' on average."
    )
    return finish(chart.properties(width=side, height=side), "", description=words)


def landscape_plot(loss: ArrayLike, at: Sequence[float]) -> "ChartType":
    """The loss on a plane around a model, which is in the middle."""
    import altair as alt

    table = _square(loss, len(at))
    half = (at[1] - at[0]) / 2
    i, j = np.indices(table.shape).reshape(2, -1)
    place = np.array(at)
    cells = inline(
        a=place[i] - half,
        a2=place[i] + half,
        b=place[j] - half,
        b2=place[j] + half,
        value=table[i, j],
    )
    chart = alt.Chart(cells).mark_rect()
    axis: dict[str, Any] = {"grid": False, "tickCount": 5}
    chart = chart.encode(
        x=alt.X("b:Q", title="along one random direction").axis(**axis),
        x2=alt.X2("b2:Q"),
        y=alt.Y("a:Q", title="along another").axis(**axis),
        y2=alt.Y2("a2:Q"),
        color=_colour("loss", ".3f", log=True),
        tooltip=[alt.Tooltip("value:Q", title="loss", format=".4f")],
    )
    middle = table[len(at) // 2, len(at) // 2]
    words = (
        f"Loss around the shared model: {middle:.3f} at the model, from {np.nanmin(table):.3f} to "
        f"{np.nanmax(table):.3f} on the square."
    )
    return finish(chart.properties(width=320, height=320), "", description=words)


def _square(values: ArrayLike, side: int) -> NDArray[np.float64]:
    table = np.array(values, float)
    if not side or table.shape != (side, side):
        raise DataError(f"a square of {side} times {side} numbers is needed, got {table.shape}.")
    return table


def _colour(title: str, form: str, *, reverse: bool = False, log: bool = False) -> Any:
    """Darker is better for a metric, and more for a loss."""
    import altair as alt

    shades = list(reversed(SHADES)) if reverse else list(SHADES)
    scale = alt.Scale(range=shades, type="log") if log else alt.Scale(range=shades)
    legend = alt.Legend(title=title, orient="bottom", gradientLength=180, format=form)
    return alt.Color("value:Q", scale=scale, legend=legend)
