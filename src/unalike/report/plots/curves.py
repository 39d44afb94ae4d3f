"""A metric of several methods over the rounds, or over what was sent or waited until then."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.errors import DataError
from unalike.metrics.catalogue import metric as looked_up
from unalike.report.plots.canvas import GREY, finish, inline, number_format, round_axis
from unalike.report.plots.methods import SHOWN, look, switchable
from unalike.tables.format import with_unit

if TYPE_CHECKING:
    from altair.typing import ChartType

CROWD = 5  # methods, whose bands would hide one another
MARKED_UP_TO = 15  # evaluated rounds
BYTES = "replace(format(datum.value, '~s'), regexp('([a-zA-Z]?)$'), ' $1B')"  # 4M: 4 MB
POINTS = 150  # of a line; of more rounds evenly spaced ones are kept, with the last


def learning_curves(
    records: Sequence[Mapping[str, Any]],
    metric: str = "accuracy",
    title: str = "",
    target: float | None = None,
) -> "ChartType":
    """The metric over rounds, a line per method; of repetitions the mean, in a band of their range.

    Args:
        records: Dicts with ``round``, ``method`` and the metric. Those that agree in round and
            method are repetitions; a record whose metric is missing, None or not finite is skipped.
        metric: Which entry to draw.
        title: Title of the figure.
        target: A value marked by a dotted line.
    """
    columns = over_repetitions(records, metric)
    return _lines(columns, round_axis(columns["round"]), metric, title, target, "over rounds")


def cost_curves(
    records: Sequence[Mapping[str, Any]],
    metric: str = "accuracy",
    title: str = "",
    target: float | None = None,
) -> "ChartType":
    """The metric over the bytes sent by then; the records of ``learning_curves`` with ``bytes``."""
    import altair as alt

    columns = over_repetitions(records, metric, "bytes")
    axis = (
        alt.X("bytes:Q", title="sent so far, up, down and between servers")
        .axis(grid=False, labelExpr=BYTES, tickCount=6)
        .scale(zero=True)
    )
    return _lines(columns, axis, metric, title, target, "against bytes sent")


def time_curves(
    records: Sequence[Mapping[str, Any]],
    metric: str = "accuracy",
    title: str = "",
    target: float | None = None,
) -> "ChartType":
    """The metric over simulated seconds; the records of ``learning_curves`` with ``clock``."""
    import altair as alt

    columns = over_repetitions(records, metric, "clock")
    axis = alt.X("clock:Q", title="seconds of the simulated clock")
    axis = axis.axis(grid=False, tickCount=6).scale(zero=True)
    return _lines(columns, axis, metric, title, target, "against simulated time")


def _lines(
    columns: dict[str, list[Any]],
    x: Any,
    metric: str,
    title: str,
    target: float | None,
    against: str,
) -> "ChartType":
    import altair as alt

    methods = list(dict.fromkeys(columns["method"]))
    faint = alt.ExprRef(f"length({SHOWN}) > {CROWD} ? 0.05 : 0.14")
    encodings = look(methods)
    scale = alt.Scale(domain=_range([*columns["low"], *columns["high"], target]), nice=True)
    base = alt.Chart(inline(**columns)).encode(x=x, color=encodings["color"])
    form, named = number_format(metric), looked_up(metric).title
    mean = alt.Y("mean:Q", scale=scale, title=named).axis(format=form.axis)
    layers: list[Any] = []
    if columns["low"] != columns["high"]:
        bounds = {"y": alt.Y("low:Q", scale=scale), "y2": alt.Y2("high:Q")}
        layers.append(base.mark_area(opacity=faint).encode(**bounds))
    if target is not None:
        rule = alt.Chart(inline(method=methods, target=[target] * len(methods)))
        rule = rule.mark_rule(color=GREY, strokeDash=[2, 3])
        layers.append(rule.encode(y=alt.Y("target:Q", scale=scale)))
    layers.append(base.mark_line(strokeWidth=2).encode(y=mean, **encodings))
    layers.append(_hover(base, mean, named, columns, form.tooltip))
    chart = switchable(alt.layer(*layers).properties(width=460, height=280), methods)
    return finish(chart, title, description=_in_words(columns, metric, against))


def _hover(base: Any, mean: Any, named: str, columns: dict[str, list[Any]], form: str) -> Any:
    """A point at every mean, visible if they are few, else when the pointer is near.

    The transparent margin is what the pointer finds; ``nearest`` loses the names of methods.
    """
    import altair as alt

    near = alt.selection_point(name="near", on="pointerover", clear="pointerout", empty=False)
    tooltip = [
        alt.Tooltip("method:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("mean:Q", title=named, format=form),
    ]
    if columns["low"] != columns["high"]:
        ends = {"low:Q": "lowest", "high:Q": "highest"}
        tooltip += [alt.Tooltip(field, title=t, format=form) for field, t in ends.items()]
    if "bytes" in columns:
        tooltip.append(alt.Tooltip("bytes:Q", title="bytes sent", format=",.0f"))
    if "clock" in columns:
        tooltip.append(alt.Tooltip("clock:Q", title="seconds", format=",.1f"))
    rest = 1 if len(set(columns["round"])) <= MARKED_UP_TO else 0
    points = base.mark_point(filled=True, size=35, stroke="transparent", strokeWidth=14).encode(
        y=mean,
        tooltip=tooltip,
        opacity=alt.when(near).then(alt.value(1)).otherwise(alt.value(rest)),
    )
    return points.add_params(near)


def _in_words(columns: dict[str, list[Any]], metric: str, against: str) -> str:
    """Where every line ends."""
    rows = zip(columns["method"], columns["round"], columns["mean"], strict=True)
    last = {m: f"{m} {with_unit(mean, metric)} in round {t}" for m, t, mean in rows}
    ends = "; ".join(last.values())
    return f"Lines of {looked_up(metric).title} {against}. They end at: {ends}."


def _range(values: list[float | None]) -> list[float]:
    shown = [v for v in values if v is not None]
    low, high = min(shown), max(shown)
    margin = 0.05 * max(1.0, abs(low)) if low == high else 0.0  # an axis needs some length
    return [low - margin, high + margin]


def over_repetitions(
    records: Sequence[Mapping[str, Any]], metric: str, *means: str
) -> dict[str, list[Any]]:
    """Columns of the metric's mean and range, and the mean of others, by method and round."""
    groups: dict[str, dict[int, list[tuple[float, ...]]]] = {}
    for i, record in enumerate(records):
        if not {"round", "method", *means} <= record.keys():
            needed = " and ".join(f"'{name}'" for name in ("round", "method", *means))
            raise DataError(f"record {i} must have {needed}, it has {list(record)}.")
        value = record.get(metric)
        if value is not None and np.isfinite(value):
            rounds = groups.setdefault(str(record["method"]), {})
            values = (value, *(float(record[m]) for m in means))
            rounds.setdefault(int(record["round"]), []).append(values)
    if not groups:
        known = sorted({name for r in records for name in r} - {"round", "method", *means})
        raise DataError(
            f"no record has a finite '{metric}'; the metrics recorded are "
            f"{', '.join(known) or 'none'}."
        )
    out: dict[str, list[Any]] = {
        name: [] for name in ("method", "round", "mean", "low", "high", *means)
    }
    for method, rounds in groups.items():
        times = sorted(rounds)
        kept = np.unique(np.linspace(0, len(times) - 1, min(len(times), POINTS)).round())
        for t in (times[int(k)] for k in kept):
            found = np.array(rounds[t])
            row = (method, t, found[:, 0].mean(), found[:, 0].min(), found[:, 0].max())
            for name, v in zip(out, (*row, *found[:, 1:].mean(0)), strict=True):
                out[name].append(v)
    return out
