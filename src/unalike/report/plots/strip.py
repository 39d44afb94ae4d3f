"""Every client's result under several methods: who is left behind."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unalike.errors import DataError
from unalike.metrics.catalogue import metric as looked_up
from unalike.metrics.fairness import summarise
from unalike.report.plots.canvas import PALE_BLUE, VERMILLION, Format, finish, inline, number_format
from unalike.report.plots.methods import switchable
from unalike.tables.format import with_unit

if TYPE_CHECKING:
    import altair as alt
    from altair.typing import ChartType

DOTS_UP_TO = 400  # clients of a method; beyond, bars as wide as the clients in a bin are many
BINS = 60
REACH = 0.24  # of the distance between two methods, to either side
BELOW = 0.36  # where the summaries stand, clear of the clients they summarise


def client_strip(
    per_client: Mapping[str, ArrayLike],
    metric: str = "accuracy",
    title: str = "",
    sizes: Mapping[str, ArrayLike] | None = None,
    means: Mapping[str, tuple[float, float]] | None = None,
) -> "ChartType":
    """Every client's value in a row per method, with the mean and that of the worst tenth.

    Args:
        per_client: Values over clients by method, NaN where a client has none.
        metric: What the values are.
        title: Title of the figure.
        sizes: Test examples of the clients by method, the weights within the worst tenth; equal if
            None.
        means: (of all clients, of the worst tenth) by method, if clients are those of several
            runs, whose worst tenths are apart; else both are computed.
    """
    import altair as alt

    values = {name: np.asarray(v, float) for name, v in per_client.items()}
    for name, v in values.items():
        if v.ndim != 1 or np.isnan(v).all():
            raise DataError(f"'{name}' must give a vector with a value for at least one client.")
    if not values:
        raise DataError("client_strip needs the clients' values of at least one method.")
    found = looked_up(metric)
    marks = [
        means[name]
        if means is not None
        else _means(v, np.ones(len(v)) if sizes is None else sizes[name], found.higher)
        for name, v in values.items()
    ]
    row = np.repeat(np.arange(len(values)), [len(v) for v in values.values()])
    value = np.concatenate(list(values.values()))
    known = ~np.isnan(value)
    names, form, clients = list(values), number_format(metric), (row[known], value[known])
    if np.bincount(row[known]).max() <= DOTS_UP_TO:
        rows = None
        if sizes is not None:
            rows = np.concatenate([np.asarray(sizes[name], float) for name in names])[known]
        drawn_clients = _dots(*clients, names, form, rows)
    else:
        drawn_clients = _bars(*clients, names, form)
    chart = alt.layer(drawn_clients, _summaries(names, marks, found.title, form))
    drawn = switchable(chart.properties(width=460, height=64 * len(names)), names)
    told = "; ".join(
        f"{name}: mean {with_unit(mean, metric)}, worst tenth {with_unit(worst, metric)}"
        for name, (mean, worst) in zip(names, marks, strict=True)
    )
    words = f"Every client's {found.title} in a row per method. {told}."
    return finish(drawn, title, description=words)


def _dots(
    row: NDArray[np.intp],
    value: NDArray[np.float64],
    names: list[str],
    form: Format,
    rows: NDArray[np.float64] | None,
) -> "alt.Chart":
    """A dot for each client; those of one bin stand in a column at their mean."""
    import altair as alt

    order = np.lexsort((value, row))
    row, value = row[order], value[order]
    counted = {} if rows is None else {"rows": rows[order]}
    edges = np.histogram_bin_edges(value, bins=BINS)
    column = row * BINS + np.searchsorted(edges[1:-1], value, "right")
    crowd = np.bincount(column)
    mean = np.bincount(column, weights=value) / np.maximum(crowd, 1)
    place = np.arange(len(value)) - (np.cumsum(crowd) - crowd)[column] - (crowd[column] - 1) / 2
    dots = inline(
        method=np.array(names)[row],
        value=value,
        x=mean[column],
        y=row + min(0.1, 2 * REACH / crowd.max()) * place,
        **counted,
    )
    tooltip = [alt.Tooltip("method:N"), alt.Tooltip("value:Q", format=form.tooltip)]
    tooltip += [alt.Tooltip("rows:Q", title="test rows")] if counted else []
    chart = alt.Chart(dots).mark_circle(color=PALE_BLUE, opacity=0.9, size=26)
    drawn: alt.Chart = chart.encode(x=alt.X("x:Q"), y=_methods(names), tooltip=tooltip)
    return drawn


def _bars(
    row: NDArray[np.intp], value: NDArray[np.float64], names: list[str], form: Format
) -> "alt.Chart":
    """A histogram of each method, mirrored at its row and as wide as the others."""
    import altair as alt

    edges = np.histogram_bin_edges(value, bins=BINS)
    column = row * BINS + np.searchsorted(edges[1:-1], value, "right")
    clients = np.bincount(column, minlength=len(names) * BINS).reshape(len(names), BINS)
    reach = REACH * clients / clients.max(1, keepdims=True)
    i, b = np.nonzero(clients)
    bars = inline(
        method=np.array(names)[i],
        clients=clients[i, b],
        low=edges[b],
        high=edges[b + 1],
        y=i - reach[i, b],
        y2=i + reach[i, b],
    )
    chart = alt.Chart(bars).mark_rect(color=PALE_BLUE, stroke=PALE_BLUE, strokeWidth=0.6)
    ends = (alt.Tooltip(f"{end}:Q", format=form.tooltip) for end in ("low", "high"))
    tooltip = [alt.Tooltip("method:N"), *ends, alt.Tooltip("clients:Q")]
    x = {"x": alt.X("low:Q"), "x2": alt.X2("high:Q")}
    drawn: alt.Chart = chart.encode(**x, y=_methods(names), y2=alt.Y2("y2:Q"), tooltip=tooltip)
    return drawn


def _means(v: NDArray[np.float64], sizes: ArrayLike, higher: bool) -> tuple[float, float]:
    found = summarise(v, sizes, higher)
    return found.mean, found.worst10


def _summaries(
    names: list[str], means: list[tuple[float, float]], named: str, form: Format
) -> "alt.Chart":
    import altair as alt

    y = np.arange(len(means)) + BELOW
    marks = inline(
        method=[*names, *names],
        of=["mean of clients"] * len(y) + ["mean of the worst tenth"] * len(y),
        value=[mean for mean, _ in means] + [worst for _, worst in means],
        y=np.tile(y, 2),
    )
    legend = alt.Legend(title=None, orient="bottom", symbolSize=110)
    drawn: alt.Chart = (
        alt.Chart(marks)
        .mark_point(filled=True, size=130, stroke="white", strokeWidth=1.2, opacity=1)
        .encode(
            x=alt.X("value:Q", title=named).scale(zero=False).axis(format=form.axis),
            y=alt.Y("y:Q"),
            shape=alt.Shape("of:N", legend=legend).scale(range=["diamond", "triangle-up"]),
            color=alt.Color("of:N", legend=legend).scale(range=["black", VERMILLION]),
            tooltip=[
                alt.Tooltip("method:N"),
                alt.Tooltip("of:N"),
                alt.Tooltip("value:Q", format=form.tooltip),
            ],
        )
    )
    return drawn


def _methods(names: list[str]) -> Any:
    import altair as alt

    return (
        alt.Y("y:Q", title=None)
        .scale(domain=[len(names) - 0.5, -0.5], nice=False, zero=False)
        .axis(
            values=list(range(len(names))),
            labelExpr=f"{json.dumps(names)}[datum.value]",
            grid=False,
            ticks=False,
            domain=False,
            labelPadding=12,
        )
    )
