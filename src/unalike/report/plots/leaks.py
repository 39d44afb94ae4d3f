"""What an outsider gets out of the servers' models, round by round."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unalike.report.plots.canvas import GREY, finish, inline, round_axis
from unalike.report.plots.curves import over_repetitions
from unalike.report.plots.methods import look, switchable

if TYPE_CHECKING:
    from altair.typing import ChartType


def leak_plot(
    records: Sequence[Mapping[str, Any]], axis: str, title: str = "", among: Sequence[str] = ()
) -> "ChartType":
    """The success of an attack, a line per method, and in grey what is there without one.

    Args:
        records: Dicts with ``round``, ``method``, ``leak`` and ``without``, shares of one; those
            that agree in round and method are repetitions.
        axis: What the share is of.
        title: Title of the figure.
        among: All methods of the study, if they are more.
    """
    import altair as alt

    columns = over_repetitions(records, "leak", "without")
    methods = list(dict.fromkeys(columns["method"]))
    encodings = look(methods, among=among)
    scale = alt.Scale(domain=[0, 1])
    base = alt.Chart(inline(**columns)).encode(x=round_axis(columns["round"]))
    y = alt.Y("mean:Q", title=axis, scale=scale).axis(format=".1~%")
    tooltip = [
        alt.Tooltip("method:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("mean:Q", title=axis, format=".1%"),
        alt.Tooltip("without:Q", title="without the attack", format=".1%"),
    ]
    layers = [
        base.mark_area(opacity=0.14).encode(
            y=alt.Y("low:Q", scale=scale), y2=alt.Y2("high:Q"), color=encodings["color"]
        ),
        base.mark_line(strokeWidth=1, color=GREY).encode(
            y=alt.Y("without:Q", scale=scale), detail="method:N"
        ),
        base.mark_line(strokeWidth=2).encode(y=y, **encodings),
        base.mark_point(opacity=0, size=100).encode(y=y, tooltip=tooltip),  # the pointer finds it
    ]
    chart = switchable(alt.layer(*layers).properties(width=460, height=260), methods)
    rows = zip(*(columns[k] for k in ("method", "round", "mean", "without")), strict=True)
    last = {m: f"{m} {v:.1%} beside {w:.1%} in round {t}" for m, t, v, w in rows}
    told = f"Lines of {axis} over rounds. They end at: {'; '.join(last.values())}."
    return finish(chart, title, description=told)
