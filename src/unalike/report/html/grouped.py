"""Groups and augmented rows of every partition and method of a study."""

from unalike.report.grouping import grouping
from unalike.report.records import Study


def grouped(study: Study) -> list[tuple[str, str]]:
    """By partition: what came of it under the first seed; by method where they differ."""
    found: dict[str, dict[str, str]] = {}
    for place, run in study.begun:
        words = "; ".join(grouping(run.data))
        found.setdefault(place.partition, {}).setdefault(place.method, words)
    rows = []
    for partition, methods in found.items():
        same = len(set(methods.values())) == 1
        rows += [
            (partition if same else f"{partition}, {method}", words)
            for method, words in methods.items()
            if words
        ][: 1 if same else None]
    return rows
