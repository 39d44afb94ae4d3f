"""What all figures share: one look, told apart by colour-blind eyes and in grey, and the writer."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unalike.errors import ConfigError

if TYPE_CHECKING:
    import altair as alt
    from altair.typing import ChartType

# Okabe & Ito (2008) without its yellow, which is too pale on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
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


class Format(NamedTuple):
    """How numbers are written: on an axis, under the pointer, and in a sentence."""

    axis: str
    tooltip: str
    words: str


def number_format(percent: bool) -> Format:
    """Of a share, per cent if wished; of anything else, decimals."""
    return Format(".1~%", ".2%", ".1%") if percent else Format("~g", ".4f", ".3f")


def inline(**columns: ArrayLike) -> "alt.InlineData":
    """Columns embedded in the chart as CSV: a third of the size of records, and quick to handle."""
    import altair as alt

    plain = {name: np.asarray(column).tolist() for name, column in columns.items()}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(plain)
    writer.writerows(map(_short, zip(*plain.values(), strict=True)))
    kinds = {
        name: "string" if any(isinstance(v, str) for v in column) else "number"
        for name, column in plain.items()
    }
    return alt.InlineData(values=text.getvalue(), format={"type": "csv", "parse": kinds})


def _short(row: tuple[Any, ...]) -> list[Any]:
    return [f"{v:.{DIGITS}g}" if isinstance(v, float) else v for v in row]
