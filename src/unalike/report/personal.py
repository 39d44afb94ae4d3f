"""From records to the numbers of the pictures of personal models: one function for each."""

from typing import Any, NamedTuple

from unalike.report.records import Record, Study
from unalike.report.series import judged


class Square(NamedTuple):
    """A square of numbers of one run."""

    method: str
    found: Record


def line(study: Study, partition: str) -> list[Record]:
    """The metric at every point from shared to own models, on clients' own test rows."""
    return [
        {"method": method, "at": at, "value": value}
        for method, found in _found(study, partition, "line")
        for at, value in zip(found["at"], found["local"].get(study.metric, []), strict=False)
    ]


def steps(study: Study, partition: str) -> list[Record]:
    """The metric of new clients after every number of local steps."""
    return [
        {"method": method, "at": at, "value": value}
        for method, found in _found(study, partition, "steps")
        for at, value in zip(found["steps"], found.get(study.metric, []), strict=False)
    ]


def squares(study: Study, partition: str, name: str) -> list[Square]:
    """``cross`` or ``landscape`` of every method's first seed."""
    firsts: dict[str, Any] = {}
    for method, found in _found(study, partition, name, last=True):
        firsts.setdefault(method, found)
    return [Square(method, found) for method, found in firsts.items()]


def _found(study: Study, partition: str, name: str, last: bool = False) -> list[tuple[str, Record]]:
    """A field of clients.jsonl in the round that represents a run, or in its last."""
    out = []
    for place, run in study.begun:
        record = (run.evaluated[-1] if run.evaluated else None) if last else judged(study, run)
        if place.partition == partition and record is not None:
            found = (run.clients(record["round"]) or {}).get(name)
            out += [(place.method, found)] if found else []
    return out
