"""Runs whose data or code changed before they were resumed, and disks that were full."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from breaking.cases.folders import DIES, KIND, SETTINGS, Change, results
from breaking.corpus import EITHER, REFUSED, WORKS, Case
from breaking.server import Limits, Outcome, call

ROWS = "a,b,y,c\n{}"


def rows(factor: float, first: str = "ab", names: str = "012") -> str:
    lines = (f"{i % 7},{i * factor},{first[i % 2]},{names[i % 3]}" for i in range(90))
    return ROWS.format("\n".join(lines))


TABLE = """rounds = 6
data = {name = "files", path = "d.csv", label = "y", client = "c"}
partition = "natural"
model = "logistic"
run = {folder = "out", checkpoint_every = 2}
"""
NETWORK = """from torch import nn
def Model(s, c):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.%s(), nn.Linear(16, c))
"""
OWN_MODEL = SETTINGS.replace('"logistic"', '{name = "module", file = "m.py"}')


def after(
    name: str,
    want: str,
    files: dict[str, str],
    change: Callable[[Path], object],
    cause: str = "",
    finished: bool = False,
    check: Callable[[Path, Outcome], None] | None = None,
    arguments: list[str] | None = None,
) -> Case:
    """A run that is killed or finishes, then a change of what it was made from, then a resume."""

    def prepare(place: Path) -> None:
        outcome = call(["run", "c.toml"], place, None if finished else DIES)
        assert outcome.code == (0 if finished else -9), outcome.err
        kept = {name: raw for name, raw in results(place / "out").items() if finished}
        change(place)
        (place / "kept.json").write_text(json.dumps({k: v.hex() for k, v in kept.items()}))

    return Case(KIND, name, want, arguments or ["resume", "out"], files, cause, prepare, check)


def kept(place: Path, outcome: Outcome) -> None:
    """What was finished is what it was."""
    before = json.loads((place / "kept.json").read_text())
    assert {k: v.hex() for k, v in results(place / "out").items()} == before


def _no_checkpoint(place: Path) -> None:
    shutil.rmtree(place / "out" / "checkpoint")
    (place / "d.csv").write_text(rows(9.5))


def table(text: str) -> Change:
    return lambda place: (place / "d.csv").write_text(text)


def network(kind: str) -> Change:
    return lambda place: (place / "m.py").write_text(NETWORK % kind)


DATA = {"c.toml": TABLE, "d.csv": rows(1.5)}
CODE = {"c.toml": OWN_MODEL, "m.py": NETWORK % "ReLU"}
CHANGED = [
    after("data changed", REFUSED, DATA, table(rows(2.5))),
    after("a column renamed", EITHER, DATA, table(rows(1.5).replace("a,b", "q,b", 1))),
    after("labels renamed", EITHER, DATA, table(rows(1.5, first="za"))),
    after("clients renamed", EITHER, DATA, table(rows(1.5, names="xyz"))),
    after("data gone", REFUSED, DATA, lambda place: (place / "d.csv").unlink()),
    after("data changed, finished", WORKS, DATA, table(rows(9.5)), "finished run", True, kept),
    after(
        "no checkpoint, data changed, finished",
        WORKS,
        DATA,
        _no_checkpoint,
        "finished run",
        True,
        kept,
    ),
    after("own code as it was", WORKS, CODE, lambda place: None),
    after("own code changed", REFUSED, CODE, network("Tanh"), "changed code"),
    after("own code gone", REFUSED, CODE, lambda place: (place / "m.py").unlink(), "changed code"),
    after(
        "own code changed and asked for",
        WORKS,
        CODE,
        network("Tanh"),
        "changed code",
        arguments=["resume", "out", "--changed-code"],
    ),
    after(
        "a stranger's code",
        REFUSED,
        CODE,
        lambda place: (place / "out" / "manifest.json").unlink(),
        "stranger",
    ),
]

FULL = SETTINGS.replace('"logistic"', '"mlp"')
DISKS = [
    Case(
        KIND,
        "a full disk",
        REFUSED,
        ["run", "c.toml"],
        {"c.toml": FULL},
        limits=Limits(written=20_000),
    ),
    Case(
        KIND,
        "a disk that was full",
        WORKS,
        ["resume", "out"],
        {"c.toml": FULL},
        prepare=lambda place: call(["run", "c.toml"], place, None, Limits(written=20_000)),
    ),
    Case(
        KIND,
        "few files at a time, new",
        EITHER,
        ["run", "c.toml"],
        {"c.toml": SETTINGS},
        limits=Limits(descriptors=12),
    ),
]
CASES = CHANGED + DISKS
