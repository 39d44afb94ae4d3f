"""Federations without a server: how far nodes are apart, how each one does, whom each heeds."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from unalike.errors import DataError
from unalike.metrics.catalogue import metric as looked_up
from unalike.report.plots.canvas import (
    GREY,
    PALE_BLUE,
    VERMILLION,
    finish,
    inline,
    number_format,
    round_axis,
)
from unalike.report.plots.curves import over_repetitions
from unalike.report.plots.methods import look, switchable
from unalike.report.plots.weights import SHADES

if TYPE_CHECKING:
    from altair.typing import ChartType

CELLS = 60  # nodes of a matrix; more could not be told apart
LINES = 100  # nodes with a line of their own


def consensus_plot(
    records: Sequence[Mapping[str, Any]], title: str = "", among: Sequence[str] = ()
) -> "ChartType":
    """The distance of models from their mean over rounds, a line per method.

    Args:
        records: Dicts with ``round``, ``method`` and ``consensus``; those that agree in round and
            method are repetitions.
        title: Title of the figure.
        among: All methods of the study, if they are more.
    """
    import altair as alt

    some = {r["method"] for r in records if r.get("consensus")}  # others always agree
    apart = [r for r in records if r.get("method") in some]
    columns = over_repetitions(apart, "consensus")
    methods = list(dict.fromkeys(columns["method"]))
    encodings = look(methods, among=among)
    agreed = not all(columns["low"])  # and 0 has no place on an axis of powers
    scale = alt.Scale(type="linear" if agreed else "log", nice=False)
    base = alt.Chart(inline(**columns)).encode(x=round_axis(columns["round"]))
    y = alt.Y("mean:Q", title="distance from the mean model", scale=scale).axis(format="~g")
    tooltip = [
        alt.Tooltip("method:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("mean:Q", title="distance", format=".4g"),
    ]
    layers = [
        base.mark_area(opacity=0.14).encode(
            y=alt.Y("low:Q", scale=scale), y2=alt.Y2("high:Q"), color=encodings["color"]
        ),
        base.mark_line(strokeWidth=2).encode(y=y, **encodings),
        base.mark_point(opacity=0, size=100).encode(y=y, tooltip=tooltip),
    ]
    chart = switchable(alt.layer(*layers).properties(width=460, height=260), methods)
    rows = zip(columns["method"], columns["round"], columns["mean"], strict=True)
    last = {m: f"{m} {value:.3g} in round {t}" for m, t, value in rows}
    told = (
        f"Lines of the models' distance from their mean. They end at: {'; '.join(last.values())}."
    )
    return finish(chart, title, description=told)


def node_curves(
    rounds: Sequence[int], values: ArrayLike, metric: str = "accuracy", title: str = ""
) -> "ChartType":
    """A metric of every node on common test rows: a faint line each, and their mean.

    Args:
        rounds: The evaluated rounds.
        values: [rounds, nodes].
        metric: What it is.
        title: Title of the figure.
    """
    import altair as alt

    table = np.asarray(values, float)
    if table.ndim != 2 or table.shape[0] != len(rounds) or not table.size:
        raise DataError("values must have a row for each round and a column for each node.")
    n, written = table.shape[1], number_format(metric)
    shown = np.unique(np.linspace(0, n - 1, min(n, LINES)).round().astype(int))
    t = np.repeat(np.asarray(rounds), len(shown))
    each = inline(round=t, value=table[:, shown].ravel(), node=np.tile(shown, len(rounds)))
    x = round_axis(list(rounds))
    y = alt.Y("value:Q", title=looked_up(metric).title).scale(zero=False).axis(format=written.axis)
    tooltip = [
        alt.Tooltip("node:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("value:Q", title=metric, format=written.tooltip),
    ]
    lines = alt.Chart(each).encode(x=x, y=y)
    mean = alt.Chart(inline(round=rounds, value=np.nanmean(table, 1))).encode(x=x, y=y)
    chart = alt.layer(
        lines.mark_line(strokeWidth=1, color=PALE_BLUE, opacity=0.7).encode(detail="node:N"),
        lines.mark_point(opacity=0, size=40).encode(tooltip=tooltip),
        mean.mark_line(strokeWidth=2.5, color=VERMILLION),
    ).properties(width=460, height=260)
    low, high, middle = (float(f(table[-1])) for f in (np.nanmin, np.nanmax, np.nanmean))
    told = (
        f"Lines of {metric} of {n} nodes on the same test rows. In round {rounds[-1]} they lie "
        f"between {low:.4g} and {high:.4g}, with a mean of {middle:.4g}."
    )
    return finish(chart, title, description=told)


def mixing_plot(
    mixing: Mapping[str, Mapping[str, float]], nodes: int, title: str = ""
) -> "ChartType":
    """The matrix of a combination: how much each node (a row) made of each one it heard.

    Args:
        mixing: Node -> neighbour -> weight.
        nodes: How many there are.
        title: Title of the figure.
    """
    import altair as alt

    if not mixing or nodes > CELLS:
        raise DataError(f"a combination of 1 to {CELLS} nodes can be drawn, got {nodes}.")
    cells = [(int(j), int(i), w) for j, row in mixing.items() for i, w in row.items()]
    j, i, weight = (np.array(column) for column in zip(*cells, strict=True))
    side = max(160, min(340, 12 * nodes))
    place: dict[str, Any] = {"nice": False}

    def axis(words: str) -> dict[str, Any]:
        ticks = list(range(0, nodes, max(1, round(nodes / 10))))
        return {"title": words, "grid": False, "values": ticks, "format": "d", "titleColor": GREY}

    chart = (
        alt.Chart(inline(j=j - 0.5, j2=j + 0.5, i=i - 0.5, i2=i + 0.5, hears=j, heard=i, w=weight))
        .mark_rect()
        .encode(
            x=alt.X("i:Q", axis=alt.Axis(**axis("heard"))).scale(
                domain=[-0.5, nodes - 0.5], **place
            ),
            x2=alt.X2("i2:Q"),
            y=alt.Y("j:Q", axis=alt.Axis(**axis("hears"))).scale(
                domain=[nodes - 0.5, -0.5], **place
            ),
            y2=alt.Y2("j2:Q"),
            color=alt.Color("w:Q")
            .scale(range=list(SHADES), domain=[0, float(weight.max())])
            .legend(title="weight (white: not heard)", orient="bottom", gradientLength=180),
            tooltip=[
                alt.Tooltip("hears:N"),
                alt.Tooltip("heard:N"),
                alt.Tooltip("w:Q", title="weight", format=".4f"),
            ],
        )
        .properties(width=side, height=side)
    )
    own = np.mean([mixing.get(str(k), {}).get(str(k), 0.0) for k in range(nodes)])
    told = (
        f"Matrix of weights of {nodes} nodes with {len(cells)} entries. On average a node keeps "
        f"{own:.2f} of its own model; the largest weight is {weight.max():.3g}."
    )
    return finish(chart, title, description=told)
