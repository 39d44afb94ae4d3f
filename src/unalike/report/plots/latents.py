"""Latent variables of clients against the normal distribution that a VAE wants them to have."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from unalike.errors import DataError
from unalike.report.plots.canvas import BLUE, GREY, VERMILLION, finish, inline

if TYPE_CHECKING:
    from altair.typing import ChartType


def latent_plot(
    edges: Sequence[float], shares: ArrayLike, d: Sequence[float], clients: Sequence[object]
) -> "ChartType":
    """The nearest and the farthest client, the others in grey, and N(0, 1) dotted.

    Args:
        edges: Of the bins, one more than bins.
        shares: [clients, bins] of a client's latent variables.
        d: How far each client is from normal.
        clients: What they are called.
    """
    import altair as alt

    table, at = np.array(shares, float), np.array(edges, float)
    if table.ndim != 2 or table.shape != (len(d), len(at) - 1) or not len(d):
        raise DataError("latent_plot needs a share of every bin for every client.")
    middle, width = (at[1:] + at[:-1]) / 2, np.diff(at)
    near, far = int(np.argmin(d)), int(np.argmax(d))
    told = {near: f"nearest: client {clients[near]}", far: f"farthest: client {clients[far]}"}
    kinds = [told.get(i, "other clients") for i in range(len(d))]
    i, j = np.indices(table.shape).reshape(2, -1)
    rows = inline(
        z=middle[j],
        density=table[i, j] / width[j],
        kind=np.array(kinds)[i],
        client=np.array([str(c) for c in clients])[i],
    )
    curve = np.linspace(at[0], at[-1], 81)
    normal = inline(z=curve, density=np.exp(-(curve**2) / 2) / math.sqrt(2 * math.pi))
    names = list(dict.fromkeys([told[far], told[near], *kinds]))
    looks = {told[far]: VERMILLION, told[near]: BLUE, "other clients": "#C8C8C8"}
    colour = alt.Color("kind:N", sort=names, legend=alt.Legend(title=None, orient="bottom"))
    colour = colour.scale(domain=names, range=[looks[n] for n in names])
    axes: dict[str, Any] = {
        "x": alt.X("z:Q", title="latent variable").axis(grid=False),
        "y": alt.Y("density:Q", title="density"),
    }
    base = alt.Chart(rows).encode(**axes, detail="client:N", color=colour)
    own = "datum.kind != 'other clients'"
    dotted = alt.Chart(normal).mark_line(color=GREY, strokeDash=[2, 3], strokeWidth=1.2)
    chart = alt.layer(
        base.transform_filter(f"!({own})").mark_line(interpolate="step", strokeWidth=1),
        base.transform_filter(own).mark_line(interpolate="step", strokeWidth=2),
        dotted.encode(**axes),
    ).properties(width=460, height=280)
    words = (
        f"Latent variables of {len(d)} clients against the standard normal distribution: client "
        f"{clients[near]} is nearest to it ({d[near]:.3f}), client {clients[far]} farthest "
        f"({d[far]:.3f})."
    )
    return finish(chart, "", description=words)
