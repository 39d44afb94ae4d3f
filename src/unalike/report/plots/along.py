"""A metric of several methods along something other than rounds: a line of models, local steps."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.errors import DataError
from unalike.metrics.catalogue import metric as looked_up
from unalike.report.plots.canvas import finish, inline, number_format
from unalike.report.plots.methods import look, switchable
from unalike.tables.format import with_unit

if TYPE_CHECKING:
    from altair.typing import ChartType

LINE = "from the shared model (0) to the client's own (1)"
STEPS = "local steps of a new client"


def line_plot(
    records: Sequence[Mapping[str, Any]], metric: str = "accuracy", among: Sequence[str] = ()
) -> "ChartType":
    """The metric at points between the shared model and clients' own, a line per method."""
    return _along(records, metric, LINE, among)


def steps_plot(
    records: Sequence[Mapping[str, Any]], metric: str = "accuracy", among: Sequence[str] = ()
) -> "ChartType":
    """The metric of new clients after some local steps, a line per method."""
    return _along(records, metric, STEPS, among)


def _along(
    records: Sequence[Mapping[str, Any]], metric: str, where: str, among: Sequence[str]
) -> "ChartType":
    """Records with ``method``, ``at`` and ``value``; those that agree in both are repetitions."""
    import altair as alt

    groups: dict[tuple[str, float], list[float]] = {}
    for record in records:
        if record["value"] is not None and np.isfinite(record["value"]):
            place = str(record["method"]), float(record["at"])
            groups.setdefault(place, []).append(float(record["value"]))
    if not groups:
        raise DataError(f"no record has a finite '{metric}'.")
    columns: dict[str, list[Any]] = {
        "method": [m for m, _ in groups],
        "at": [at for _, at in groups],
        "mean": [float(np.mean(v)) for v in groups.values()],
        "low": [min(v) for v in groups.values()],
        "high": [max(v) for v in groups.values()],
    }
    methods = list(dict.fromkeys(columns["method"]))
    encodings, form = look(methods, among=among), number_format(metric)
    scale, named = alt.Scale(zero=False), looked_up(metric).title
    base = alt.Chart(inline(**columns)).encode(x=alt.X("at:Q", title=where).axis(grid=False))
    mean = alt.Y("mean:Q", scale=scale, title=named).axis(format=form.axis)
    tooltip = [
        alt.Tooltip("method:N"),
        alt.Tooltip("at:Q", title="at"),
        alt.Tooltip("mean:Q", title=named, format=form.tooltip),
    ]
    band = {"y": alt.Y("low:Q", scale=scale), "y2": alt.Y2("high:Q")}
    layers = [
        base.mark_area(opacity=0.14).encode(color=encodings["color"], **band),
        base.mark_line(strokeWidth=2).encode(y=mean, **encodings),
        base.mark_point(filled=True, size=35).encode(
            y=mean, color=encodings["color"], tooltip=tooltip
        ),
    ]
    chart = switchable(alt.layer(*layers).properties(width=460, height=280), methods)
    return finish(chart, "", description=_in_words(groups, metric, where))


def _in_words(groups: Mapping[tuple[str, float], list[float]], metric: str, where: str) -> str:
    """Where every line begins and ends, and its best place."""
    best = max if looked_up(metric).higher else min
    told = []
    for method in dict.fromkeys(m for m, _ in groups):
        mean = {at: float(np.mean(v)) for (m, at), v in groups.items() if m == method}
        top = best(mean, key=lambda at: mean[at])
        ends = f"{with_unit(mean[min(mean)], metric)} to {with_unit(mean[max(mean)], metric)}"
        told.append(f"{method} from {ends}, best {with_unit(mean[top], metric)} at {top:g}")
    return f"Lines of {looked_up(metric).title} {where}: {'; '.join(told)}."
