"""Examples that a method has made, as the run folder's picture of them."""

import base64
from typing import NamedTuple

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
    """The made examples of every method's first seed, if they are images."""
    found: dict[str, Picture] = {}
    for place, run in study.begun:
        file = run.folder / "synthetic.png"
        if place.partition != partition or place.method in found or not file.is_file():
            continue
        raw = file.read_bytes()
        if len(raw) <= LARGEST and len(found) < PICTURES:
            last = run.rounds[-1] if run.rounds else {}
            words = f"{partition}, first seed, after the last round. A row is a class."
            if last.get("fid") is not None:
                words += f" Distance from real examples (FID) {last['fid']:.3g}."
            found[place.method] = Picture(
                f"made-{number}-{len(found)}",
                f"Made examples: {place.method}",
                words,
                f"data:image/png;base64,{base64.b64encode(raw).decode()}",
                f"Examples that {place.method} has made, a row for each class.",
            )
    return list(found.values())
