"""A metric over the rounds of several methods."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.errors import DataError
from unalike.report.plots.canvas import GREY, colours, dashes, finish, inline

if TYPE_CHECKING:
    from altair.typing import ChartType


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
    import altair as alt

    columns = _over_repetitions(records, metric)
    methods = list(dict.fromkeys(columns["method"]))
    legend = alt.Legend(
        title=None, symbolType="stroke", symbolSize=500, symbolStrokeWidth=2.5, symbolOpacity=1
    )
    colour = alt.Color("method:N", legend=legend)
    colour = colour.scale(domain=methods, range=colours(len(methods)))
    dash = alt.StrokeDash("method:N", legend=legend)
    dash = dash.scale(domain=methods, range=dashes(len(methods)))
    scale = alt.Scale(domain=_range([*columns["low"], *columns["high"], target]), nice=True)

    base = alt.Chart(inline(**columns)).encode(
        x=alt.X("round:Q", title="round").axis(tickMinStep=1, grid=False, format="d"), color=colour
    )
    layers: list[Any] = []
    if columns["low"] != columns["high"]:
        bounds = {"y": alt.Y("low:Q", scale=scale), "y2": "high:Q"}
        layers.append(base.mark_area(opacity=0.18).encode(**bounds))
    if target is not None:
        rule = alt.Chart(inline(target=[target])).mark_rule(color=GREY, strokeDash=[2, 3])
        layers.append(rule.encode(y=alt.Y("target:Q", scale=scale)))
    tooltip = ["method:N", "round:Q", alt.Tooltip("mean:Q", title=metric, format=".4f")]
    mean = alt.Y("mean:Q", scale=scale, title=metric)
    layers.append(base.mark_line(strokeWidth=2).encode(y=mean, strokeDash=dash, tooltip=tooltip))
    if len(set(columns["round"])) <= 15:
        layers.append(base.mark_point(filled=True, size=35, opacity=1).encode(y=mean))
    return finish(alt.layer(*layers).properties(width=460, height=280), title)


def _range(values: list[float | None]) -> list[float]:
    shown = [v for v in values if v is not None]
    low, high = min(shown), max(shown)
    margin = 0.05 * max(1.0, abs(low)) if low == high else 0.0  # an axis needs some length
    return [low - margin, high + margin]


def _over_repetitions(records: Sequence[Mapping[str, Any]], metric: str) -> dict[str, list[Any]]:
    groups: dict[tuple[str, int], list[float]] = {}
    for i, record in enumerate(records):
        if "round" not in record or "method" not in record:
            raise DataError(f"record {i} must have 'round' and 'method', it has {list(record)}.")
        value = record.get(metric)
        if value is not None and np.isfinite(value):
            groups.setdefault((str(record["method"]), int(record["round"])), []).append(value)
    if not groups:
        known = sorted({name for r in records for name in r} - {"round", "method"})
        raise DataError(
            f"no record has a finite '{metric}'; the metrics recorded are "
            f"{', '.join(known) or 'none'}."
        )
    return {
        "method": [method for method, _ in groups],
        "round": [r for _, r in groups],
        "mean": [np.mean(v) for v in groups.values()],
        "low": [min(v) for v in groups.values()],
        "high": [max(v) for v in groups.values()],
    }
