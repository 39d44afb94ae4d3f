"""How a method looks: one colour, dash and shape in every picture, and a reader's switches."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unalike.report.plots.canvas import PALETTE

if TYPE_CHECKING:
    from altair.typing import ChartType

DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
NARROW = 300  # pixels in which a legend must fit
SHOWN = "shown"  # the parameter that holds the names of the methods to draw


def colours(n: int) -> list[str]:
    """A colour for each of n methods; from the thirteenth on they repeat, with other dashes."""
    return [PALETTE[i % len(PALETTE)] for i in range(n)]


def dashes(n: int) -> list[list[int]]:
    """A dash pattern for each of n methods, another one where colours begin to repeat."""
    return [DASHES[(i + i // len(PALETTE)) % len(DASHES)] for i in range(n)]


def shapes(n: int) -> list[str]:
    """A symbol for each of n methods."""
    return [SHAPES[i % len(SHAPES)] for i in range(n)]


def look(names: list[str], *, points: bool = False, among: Sequence[str] = ()) -> dict[str, Any]:
    """The encodings of lines by method, or of points, under one legend below the picture.

    Methods look as they do where all those ``among`` which they are get drawn.
    """
    import altair as alt

    place = [list(among).index(n) if n in among else i for i, n in enumerate(names)]
    most = max(place) + 1
    symbol = {"symbolSize": 110} if points else {"symbolType": "stroke", "symbolSize": 500}
    legend = alt.Legend(
        title=None,
        orient="bottom",
        columns=max(1, NARROW // (7 * max(map(len, names)) + 40)),  # about what a name takes
        symbolStrokeWidth=2.5,
        symbolOpacity=1,
        **symbol,
    )
    colour = alt.Color("method:N", legend=legend, sort=names)
    colour = colour.scale(domain=names, range=[colours(most)[i] for i in place])
    if points:
        shape = alt.Shape("method:N", legend=legend, sort=names)
        kinds = [shapes(most)[i] for i in place]
        return {"color": colour, "shape": shape.scale(domain=names, range=kinds)}
    dash = alt.StrokeDash("method:N", legend=legend, sort=names)
    patterns = [dashes(most)[i] for i in place]
    return {"color": colour, "strokeDash": dash.scale(domain=names, range=patterns)}


def switchable(chart: "ChartType", names: list[str]) -> "ChartType":
    """The chart with a parameter that names the methods to draw, at first all of them."""
    import altair as alt

    shown = alt.param(name=SHOWN, value=names)
    switched: ChartType = chart.add_params(shown).transform_filter(
        f"indexof({SHOWN}, datum.method) >= 0"
    )
    return switched
