"""How the clients differ: the distribution of their skew and of their sizes."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unalike.errors import DataError
from unalike.report.plots.canvas import BLUE, finish, inline

if TYPE_CHECKING:
    from altair.typing import ChartType

TICKS = 600
WIDTH = 300


def spread_plot(
    emd: ArrayLike, sizes: ArrayLike, title: str = "How the clients differ"
) -> "ChartType":
    """Histograms of the clients' EMD and size, with a tick for each client below."""
    import altair as alt

    e, m = np.asarray(emd, float), np.asarray(sizes, float)
    if e.ndim != 1 or e.shape != m.shape or not len(e):
        raise DataError(
            f"emd and sizes must be vectors over the same clients, got shapes {e.shape} "
            f"and {m.shape}."
        )
    if not (np.isfinite(e).all() and np.isfinite(m).all() and (m >= 0).all() and m.any()):
        raise DataError("emd and sizes must be finite, sizes must be >= 0 and not all zero.")
    facts = (
        f"{len(e):,} clients",
        f"size-weighted mean EMD {np.average(e, weights=m):.3f}",
        f"{m.mean():,.0f} examples on average",
    )
    panels = alt.hconcat(
        _histogram(e, "EMD of a client"), _histogram(m, "examples of a client", 1), spacing=40
    )
    told = f"Histograms of the clients' EMD and size: {', '.join(facts)}."
    return finish(panels, title, " · ".join(facts), told)


def _histogram(values: NDArray[np.float64], name: str, step: float = 0) -> "ChartType":
    """With a mark on the axis every ``step`` at the closest."""
    import altair as alt

    edges = np.histogram_bin_edges(values, bins=int(np.clip(2 * len(values) ** 0.4, 6, 40)))
    heights, _ = np.histogram(values, edges)
    scale = alt.Scale(domain=[float(edges[0]), float(edges[-1])], nice=True, zero=False)
    histogram = (
        alt.Chart(inline(low=edges[:-1], high=edges[1:], clients=heights))
        .mark_bar(color=BLUE, stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("low:Q", scale=scale).axis(None),
            x2=alt.X2("high:Q"),
            y=alt.Y("clients:Q", title="clients").axis(tickCount=min(5, heights.max().item())),
            y2=alt.datum(0),
            tooltip=[alt.Tooltip("low:Q"), alt.Tooltip("high:Q"), alt.Tooltip("clients:Q")],
        )
        .properties(width=WIDTH, height=150)
    )
    # Of very many clients, evenly spaced order statistics show the same strip.
    kept = np.unique(np.linspace(0, len(values) - 1, TICKS).round().astype(int))
    axis = alt.Axis(grid=False, tickCount=6, tickMinStep=step)
    strip = (
        alt.Chart(inline(value=np.sort(values)[kept]))
        .mark_tick(color=BLUE, thickness=1, opacity=0.8 if len(kept) < 100 else 0.3)
        .encode(x=alt.X("value:Q", title=name, scale=scale, axis=axis))
        .properties(width=WIDTH, height=18)
    )
    return alt.vconcat(histogram, strip, spacing=4)
