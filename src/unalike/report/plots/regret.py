"""How much less the best fixed weights would have paid, round by round."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unalike.report.plots.canvas import GREY, finish, inline, round_axis
from unalike.report.plots.curves import over_repetitions
from unalike.report.plots.methods import look, switchable

if TYPE_CHECKING:
    from altair.typing import ChartType

LEAST = 0.01  # where the axis turns from logarithmic to linear, so that it can show 0 and less


def regret_plot(
    records: Sequence[Mapping[str, Any]], title: str = "", among: Sequence[str] = ()
) -> "ChartType":
    """Cumulative regret, a line per method in a band of its repetitions, and its bound in grey.

    Args:
        records: Dicts with ``round``, ``method``, ``regret`` and ``regret_bound``; those that agree
            in round and method are repetitions.
        title: Title of the figure.
        among: All methods of the study, if they are more.
    """
    import altair as alt

    columns = over_repetitions(records, "regret", "regret_bound")
    methods = list(dict.fromkeys(columns["method"]))
    encodings = look(methods, among=among)
    scale = alt.Scale(type="symlog", constant=LEAST)
    x = round_axis(columns["round"])
    y = alt.Y("mean:Q", title="regret", scale=scale).axis(
        labelExpr="format(datum.value, '~r')",
        values=_ticks([*columns["low"], *columns["regret_bound"]]),
    )
    most = alt.Y("regret_bound:Q", scale=scale)
    base = alt.Chart(inline(**columns)).encode(x=x)
    tooltip = [
        alt.Tooltip("method:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("mean:Q", title="regret", format=".4f"),
        alt.Tooltip("regret_bound:Q", title="bound", format=".4f"),
    ]
    words = base.transform_filter(f"datum.round == {max(columns['round'])}")
    words = words.mark_text(align="right", dy=-8, color=GREY, text="bound")
    layers = [
        base.mark_area(opacity=0.14).encode(
            y=alt.Y("low:Q", scale=scale), y2=alt.Y2("high:Q"), color=encodings["color"]
        ),
        base.mark_line(strokeWidth=1, color=GREY).encode(y=most, detail="method:N"),
        words.encode(y=most),
        base.mark_line(strokeWidth=2).encode(y=y, **encodings),
        base.mark_point(opacity=0, size=100).encode(y=y, tooltip=tooltip),  # the pointer finds it
    ]
    chart = switchable(alt.layer(*layers).properties(width=460, height=280), methods)
    return finish(chart, title, description=_in_words(columns))


def _ticks(values: list[float]) -> list[float]:
    """Zero and the powers of ten that the values reach, on either side."""
    top, bottom = max(LEAST, *values), min(values)
    powers = [LEAST * 10**k for k in range(math.ceil(math.log10(top / LEAST)) + 1)]
    return [*(-p for p in powers if p <= -bottom), 0, *powers]


def _in_words(columns: dict[str, list[Any]]) -> str:
    """Where every line ends."""
    rows = zip(*(columns[k] for k in ("method", "round", "mean", "regret_bound")), strict=True)
    last = {m: f"{m} {value:.3f} of at most {most:.3f} in round {t}" for m, t, value, most in rows}
    return f"Lines of regret over rounds. They end at: {'; '.join(last.values())}."
