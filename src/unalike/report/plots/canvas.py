"""What all figures share: one look, told apart by colour-blind eyes and in grey, and the writer."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from unalike.errors import ConfigError

if TYPE_CHECKING:
    import altair as alt
    from altair.typing import ChartType

# Okabe & Ito (2008) without its yellow, which is too pale on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
BLUE, VERMILLION = PALETTE[:2]
PALE_BLUE = "#7FB8D8"
GREY = "#555555"
INK = "#222222"

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


def finish(chart: "ChartType", title: str, subtitle: str = "") -> "ChartType":
    """The chart with its title and the common look."""
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


def inline(**columns: ArrayLike) -> "alt.InlineData":
    """Columns as rows embedded in the chart, without the row limit that data frames are under."""
    import altair as alt

    plain = (np.asarray(column).tolist() for column in columns.values())
    return alt.InlineData(
        values=[dict(zip(columns, r, strict=True)) for r in zip(*plain, strict=True)]
    )


def colours(n: int) -> list[str]:
    """A colour for each of n methods; from the eighth on they repeat, with other dashes."""
    return [PALETTE[i % len(PALETTE)] for i in range(n)]


def dashes(n: int) -> list[list[int]]:
    """A dash pattern for each of n methods."""
    return [DASHES[i % len(DASHES)] for i in range(n)]
