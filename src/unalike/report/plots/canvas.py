"""What all figures share: one look, told apart by colour-blind eyes and in grey, and the writer."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unalike.errors import ConfigError
from unalike.metrics.catalogue import metric as looked_up

if TYPE_CHECKING:
    from altair.typing import ChartType

# Okabe & Ito (2008) without its yellow, which is too pale on white, then five of Tol's muted
# scheme (2021): twelve that also colour-blind eyes tell apart.
PALETTE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#882255", "#999933", "#332288", "#44AA99", "#AA4499"),
)
BLUE, VERMILLION = PALETTE[:2]
PALE_BLUE = "#7FB8D8"
GREY = "#555555"
INK = "#222222"

DIGITS = 6  # significant ones of a drawn number
SUFFIXES = (".svg", ".png", ".pdf", ".html")


def save(chart: "ChartType", path: str | Path) -> Path:
    """Write the chart in the format of the suffix; an HTML file holds all the scripts it needs."""
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ConfigError(
            f"cannot write a figure as '{path.name}': the suffix must be one of "
            f"{', '.join(SUFFIXES)}."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    options: dict[str, dict[str, Any]] = {".html": {"inline": True}, ".png": {"scale_factor": 2}}
    chart.save(str(path), **options.get(path.suffix, {}))
    return path


def finish(
    chart: "ChartType", title: str, subtitle: str = "", description: str = ""
) -> "ChartType":
    """The chart with its title, the common look, and in words what there is to see."""
    if description:
        chart = chart.properties(description=description)
    if title:
        chart = chart.properties(title={"text": title, "subtitle": subtitle})
    axis = {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"}
    styled: ChartType = chart.configure(
        background="white",
        font="Helvetica, Arial, Liberation Sans, sans-serif",
        view={"stroke": None},
        axis={
            **axis,
            "domainColor": GREY,
            "tickColor": GREY,
            "gridColor": "#E6E6E6",
            "labelColor": INK,
            "titleColor": INK,
            "labelLimit": 200,
            "labelFlush": False,
        },
        legend={**axis, "labelLimit": 260},
        title={"anchor": "start", "fontSize": 14, "subtitleFontSize": 12, "subtitleColor": GREY},
    )
    return styled


FEW = 10  # rounds with a mark each


class Format(NamedTuple):
    """How values of a metric are written by the chart library: on an axis, under the pointer."""

    axis: str
    tooltip: str


def number_format(metric: str) -> Format:
    """As tables have them; the library writes per cent without a space."""
    found = looked_up(metric)
    if found.share:
        return Format(".1~%", f".{found.decimals}%")
    if found.figures:
        return Format("~s", f",.{found.figures}r")
    return Format("~g", f".{found.decimals}f")


def round_axis(rounds: Sequence[int]) -> Any:
    """The axis of these rounds; where they are few, with no marks between them."""
    import altair as alt

    times = sorted(set(rounds))
    few: dict[str, Any] = {"values": times} if len(times) <= FEW else {}
    return alt.X("round:Q", title="round").axis(tickMinStep=1, grid=False, format="d", **few)


def inline(**columns: ArrayLike) -> dict[str, Any]:
    """Columns embedded in the chart as rows, with as many digits as can be seen.

    They are a plain dict, since Altair would check every row of data of its own kind.
    """
    plain = {name: np.asarray(column).tolist() for name, column in columns.items()}
    rows = [
        dict(zip(plain, map(_rounded, row), strict=True))
        for row in zip(*plain.values(), strict=True)
    ]
    return {"values": rows}


def _rounded(value: Any) -> Any:
    if not isinstance(value, float) or value == 0:
        return value
    if not math.isfinite(value):
        return None
    return round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))
