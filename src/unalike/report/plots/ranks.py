"""Mean ranks of methods over conditions, and which of them are not distinguishable."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unalike.errors import DataError
from unalike.report.plots.canvas import INK, VERMILLION, finish, inline
from unalike.report.plots.methods import colours

if TYPE_CHECKING:
    from altair.typing import ChartType

STEP = 22  # pixels for a method, and for a bar


def rank_plot(
    means: Mapping[str, float], groups: Sequence[Sequence[str]], apart: float, title: str = ""
) -> "ChartType":
    """A point per method, the best on top, and a bar over each group that is not distinguishable.

    Args:
        means: Mean rank by method, 1 the best.
        groups: Methods of which none differs from another.
        apart: The critical difference, drawn as a bar of its own.
        title: Title of the figure.
    """
    import altair as alt

    names = list(means)
    if len(names) < 2 or not np.isfinite(list(means.values())).all():
        raise DataError("rank_plot needs the finite mean ranks of at least two methods.")
    order = sorted(names, key=lambda n: means[n])
    bars = [("critical difference", 1.0, 1.0 + apart)]
    bars += [
        ("not distinguishable", min(means[n] for n in group), max(means[n] for n in group))
        for group in groups
    ]
    last = max(float(len(names)), 1.0 + apart)
    x = alt.X("rank:Q", title="mean rank, 1 is best").scale(domain=[1, last], nice=False)
    points = (
        alt.Chart(inline(method=order, rank=[means[n] for n in order]))
        .mark_point(filled=True, size=130, opacity=1)
        .encode(
            x=x,
            y=alt.Y("method:N", sort=order, title=None),
            color=alt.Color("method:N", legend=None).scale(domain=names, range=colours(len(names))),
            tooltip=[alt.Tooltip("method:N"), alt.Tooltip("rank:Q", format=".2f")],
        )
        .properties(width=460, height=STEP * len(names))
    )
    drawn = inline(
        row=list(range(len(bars))),
        what=[what for what, _, _ in bars],
        low=[low for _, low, _ in bars],
        high=[high for _, _, high in bars],
    )
    lines = (
        alt.Chart(drawn)
        .mark_rule(strokeWidth=4, strokeCap="round")
        .encode(
            x=alt.X("low:Q", title=None, axis=None).scale(domain=[1, last], nice=False),
            x2="high:Q",
            y=alt.Y("row:O", axis=None),
            color=alt.Color("what:N", legend=alt.Legend(title=None, orient="bottom")).scale(
                domain=["critical difference", "not distinguishable"], range=[VERMILLION, INK]
            ),
            tooltip=[
                alt.Tooltip("what:N"),
                *(alt.Tooltip(f"{k}:Q", format=".2f") for k in ("low", "high")),
            ],
        )
        .properties(width=460, height=STEP * len(bars) * 0.6)
    )
    chart = alt.vconcat(lines, points, spacing=6).resolve_scale(color="independent")
    told = ", ".join(f"{n} {means[n]:.2f}" for n in order)
    same = "; ".join(", ".join(group) for group in groups) or "none"
    words = (
        f"Mean ranks, 1 is best: {told}. Ranks {apart:.2f} apart differ. Not distinguishable: "
        f"{same}."
    )
    return finish(chart, title, description=words)
