"""Examples that a method has made, as the run folder's picture of them."""

import base64
from pathlib import Path
from typing import NamedTuple

from unalike.report.outcome import like_real
from unalike.report.records import Study

PICTURES = 4  # methods of a partition whose examples are shown
LARGEST = 1_500_000  # bytes of a picture inside the page


class Picture(NamedTuple):
    """One image inside the page."""

    id: str
    title: str
    caption: str
    source: str  # a data: address
    alt: str


def pictures(study: Study, partition: str, number: int) -> list[Picture]:
    """The made examples of every method's first seed, if they are images, still and moving."""
    found: dict[str, list[Picture]] = {}
    for place, run in study.begun:
        file, last = run.folder / "synthetic.png", run.rounds[-1] if run.rounds else {}
        if place.partition != partition or place.method in found or not file.is_file():
            continue
        words = f"{partition}, first seed, after the last round. A row is a class."
        if last.get("fid") is not None:
            said = like_real(last)
            words += f" {said[0].upper()}{said[1:]}."
        moves = f"{partition}, first seed, after every evaluated round; the bar is the time."
        kinds = ((file, "Made examples", words), (_moving(file), "How they came about", moves))
        if len(found) < PICTURES:
            shown = [_picture(place.method, *kind) for kind in kinds if _fits(kind[0])]
            found[place.method] = shown
    every = [p for some in found.values() for p in some]
    return [p._replace(id=f"made-{number}-{i}") for i, p in enumerate(every)]


def _moving(still: Path) -> Path:
    return still.with_name(f"{still.stem}-moving.png")


def _fits(file: Path) -> bool:
    return file.is_file() and file.stat().st_size <= LARGEST


def _picture(method: str, file: Path, title: str, words: str) -> Picture:
    source = f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"
    alt = f"Examples that {method} has made, a row for each class."
    return Picture("", f"{title}: {method}", words, source, alt)
