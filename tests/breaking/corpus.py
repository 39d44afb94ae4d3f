"""A case of the corpus: what is fed, what may come of it, and which cause of an error it is for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from breaking.causes import CAUSES
from breaking.property import COUNTS, judge
from breaking.server import Limits, Outcome, call

WORKS, REFUSED, OWN = "survived", "refused", "own code"
EITHER = f"{WORKS} or {REFUSED}"  # it may be right or wrong, but not a surprise
FAILS = f"{REFUSED} or {OWN}"


Content = str | bytes | Callable[[], bytes]  # what is long in the making is made when needed


class Case(NamedTuple):
    """One attempt to break it."""

    kind: str
    name: str
    want: str
    arguments: list[str]
    files: Mapping[str, Content] = {}
    cause: str = ""  # what was wrong once, of CAUSES
    prepare: Callable[[Path], None] | None = None  # in the folder, after the files are there
    check: Callable[[Path, Outcome], None] | None = None  # whatever came of it
    limits: Limits = Limits()
    hook: tuple[str, list[Any]] | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


def attempt(case: Case, place: Path) -> None:
    """Feed it, and see that nothing but what may come of it has."""
    assert not case.cause or case.cause in CAUSES
    for name, content in case.files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        held = content() if callable(content) else content
        path.write_bytes(held.encode() if isinstance(held, str) else held)
    if case.prepare is not None:
        case.prepare(place)
    outcome = call(case.arguments, place, case.hook, case.limits)
    what = judge(case.kind, outcome, case.name, case.want)
    if case.check is not None:
        try:
            case.check(place, outcome)
        except BaseException:
            COUNTS[case.kind, what] -= 1
            COUNTS[case.kind, "failed"] += 1
            raise
