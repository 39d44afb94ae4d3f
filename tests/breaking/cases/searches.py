"""Comparisons and searches: specifications that make no sense, and journals that were damaged."""

import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from breaking.corpus import EITHER, FAILS, REFUSED, WORKS, Case
from breaking.server import Limits, Outcome, call

KIND = "comparison"
SMALL = 'rounds = 1\nmodel = "logistic"\npartition = {name = "iid", clients = 3}\n'
SOON = Limits(seconds=60)
ONE = 'methods = ["fedavg"]\n'
MANY = ", ".join(f"0.{i:04d}1" for i in range(1000))
SPECS: list[tuple[str, str, str] | tuple[str, str, str, str]] = [
    ("no methods", REFUSED, "seeds = 1"),
    ("an empty list of methods", REFUSED, "methods = []\nseeds = 1"),
    ("no seeds", REFUSED, ONE + "seeds = 0"),
    ("minus one seed", REFUSED, ONE + "seeds = -1"),
    ("a seed twice", REFUSED, ONE + "seeds = [1, 1]"),
    ("seeds of text", REFUSED, ONE + 'seeds = "x"'),
    ("a billion seeds", REFUSED, ONE + "seeds = 1000000000", "absurd sizes"),
    ("a method twice", REFUSED, 'methods = ["fedavg", "fedavg"]\nseeds = 1'),
    ("an unknown baseline", REFUSED, ONE + 'baseline = "nope"\nseeds = 1'),
    ("an unknown metric", REFUSED, ONE + 'metric = "nope"\nseeds = 1'),
    ("an unknown section", REFUSED, ONE + 'section = "nope"\nseeds = 1'),
    ("a negative budget", REFUSED, ONE + 'seeds = 1\nbudget = {kind = "bytes", amount = -1}'),
    ("a budget of a byte", REFUSED, ONE + 'seeds = 1\nbudget = {kind = "bytes", amount = 1}'),
    ("a budget not a number", REFUSED, ONE + 'seeds = 1\nbudget = {kind = "bytes", amount = nan}'),
    (
        "a method with its own seed",
        REFUSED,
        'methods = [{name = "fedavg", set = {seed = 3}}]\nseeds = 1',
    ),
    (
        "a method with its own data",
        REFUSED,
        'methods = [{name = "fedavg", set = {"data.name" = "mnist"}}]\nseeds = 1',
    ),
    ("a sweep of a number", REFUSED, ONE + 'seeds = 1\nsweep = {"local.lr" = 1}'),
    ("a sweep of nothing", REFUSED, ONE + 'seeds = 1\nsweep = {"local.lr" = []}'),
    ("a sweep not a number", REFUSED, ONE + 'seeds = 1\nsweep = {"local.lr" = [nan, nan]}'),
    ("a sweep of nothing known", REFUSED, ONE + 'seeds = 1\nsweep = {"foo.bar" = [1]}'),
    (
        "a million cells",
        REFUSED,
        ONE + f'seeds = 1000\nsweep = {{"local.lr" = [{MANY}]}}',
        "absurd sizes",
    ),
    (
        "a label of two dots",
        EITHER,
        'methods = [{name = "fedavg", label = ".."}]\nseeds = 1\nbaseline = ".."',
    ),
    ("an empty label", REFUSED, 'methods = [{name = "fedavg", label = " "}]\nseeds = 1'),
    (
        "a label of 100,000 letters",
        EITHER,
        f'methods = [{{name = "fedavg", label = "{"x" * 100000}"}}]\nseeds = 1',
    ),
    ("plus a number", REFUSED, 'methods = [{name = "fedavg", plus = [3]}]\nseeds = 1'),
    (
        "a ring with a server's method",
        EITHER,
        'methods = [{name = "fedmgda", topology = "ring"}]\nseeds = 1',
    ),
]
DIES = """import os
from torch import nn
N = []
class Model(nn.Module):
    def __init__(self, s, c):
        super().__init__()
        self.layer = nn.Linear(64, c)
    def forward(self, x):
        N.append(1)
        if len(N) > 60: {}
        return self.layer(x.flatten(1))
"""
DYING = """rounds = 5
model = {name = "module", file = "k.py"}
partition = {name = "iid", clients = 3}
engine = {kind = "sequential", traced = false}
compare = {seeds = 1, methods = ["fedavg", "fedprox"]}
"""
COMPARE = ["compare", "c.toml", "--folder", "out", "--processes", "1"]
CASES = [
    *(
        Case(
            KIND,
            name,
            want,
            COMPARE,
            {"c.toml": f"{SMALL}[compare]\n{text}\n"},
            *cause,
            limits=SOON,
        )
        for name, want, text, *cause in SPECS
    ),
    *(
        Case(
            KIND,
            f"a worker that dies: {end}",
            FAILS,
            [*COMPARE[:-1], "2"],
            {"c.toml": DYING, "k.py": DIES.format(end)},
            "sys.exit",
        )
        for end in ("os._exit(7)", "os.kill(os.getpid(), 9)")
    ),
]

TUNED = """rounds = 2
model = "logistic"
partition = {name = "iid", clients = 3}
[tune]
trials = 3
search = {"local.lr" = [0.001, 1.0, "log"]}
"""
PLACE = TemporaryDirectory(prefix="breaking-")
Change = Callable[[Path], object]


@cache
def tuned() -> Path:
    """A search of three trials."""
    place = Path(PLACE.name) / "tuned"
    place.mkdir()
    (place / "c.toml").write_text(TUNED)
    outcome = call(["tune", "c.toml", "--folder", "out"], place)
    assert outcome.code == 0, outcome.err
    return place / "out"


def journal(change: Callable[[bytes], bytes]) -> Change:
    def prepare(folder: Path) -> None:
        path = folder / "study.jsonl"
        path.write_bytes(change(path.read_bytes()))

    return prepare


def _instead(folder: Path) -> None:
    (folder / "study.jsonl").unlink()
    (folder / "study.jsonl").mkdir()


def _locked(folder: Path) -> None:
    (folder / "study.jsonl.lock").symlink_to("study.jsonl")


def continued(place: Path, outcome: Outcome) -> None:
    """The trials that were done are still there."""
    if outcome.code == 0:
        assert (place / "out" / "best.toml").exists()


def tune(name: str, want: str, change: Change, cause: str = "") -> Case:
    def prepare(place: Path) -> None:
        shutil.copytree(tuned(), place / "out")
        change(place / "out")

    more = ["tune", "c.toml", "--folder", "out", "--set", "tune.trials=4"]
    return Case("search", name, want, more, {"c.toml": TUNED}, cause, prepare, continued)


JOURNAL = "damaged journal"
CASES += [
    tune("a trial more", WORKS, lambda folder: None),
    tune("cut within a line", EITHER, journal(lambda raw: raw[:-15]), JOURNAL),
    tune("a line of noise", EITHER, journal(lambda raw: raw + b"garbage\n"), JOURNAL),
    tune("noise", EITHER, journal(lambda raw: random.Random(4).randbytes(300)), JOURNAL),
    tune(
        "the middle damaged", EITHER, journal(lambda raw: raw[:300] + b"###" + raw[303:]), JOURNAL
    ),
    tune("a line of a number", EITHER, journal(lambda raw: b"5\n" + raw), JOURNAL),
    tune("no journal", EITHER, lambda folder: (folder / "study.jsonl").unlink()),
    tune("a folder as a journal", EITHER, _instead),
    tune("settings damaged", REFUSED, lambda folder: (folder / "tune.json").write_text("{")),
    tune("a lock that was left", EITHER, _locked),
    Case(
        "search",
        "a full disk",
        REFUSED,
        ["tune", "c.toml", "--folder", "out"],
        {"c.toml": TUNED},
        limits=Limits(written=2000),
    ),
    Case(
        "search",
        "a disk that was full",
        WORKS,
        ["tune", "c.toml", "--folder", "out"],
        {"c.toml": TUNED},
        prepare=lambda place: call(
            ["tune", "c.toml", "--folder", "out"], place, None, Limits(written=2000)
        ),
    ),
]
