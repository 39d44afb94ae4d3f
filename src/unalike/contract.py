"""Whether a method of the user's own keeps the contract that all methods keep.

loads      the file runs and defines a method
trains     three rounds on a small federation end with finite numbers
repeats    the same seed gives the same bytes, and no global generator is drawn from
engines    one client after the other gives what many in one call give
shapes     uploads have the structure, shapes and types that ``upload_like`` announces
resumes    a run that was stopped after its second round ends like one that was not
few        it works if only some of the clients take part
"""

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from unalike import own_code, tree
from unalike.algorithms.method import Method
from unalike.errors import ConfigError, UnalikeError
from unalike.run.configuration.config import Config, parse
from unalike.run.execute import Silent, resume, start
from unalike.run.experiment.build import experiment
from unalike.run.folder.records import read_json

TOLERANCE = 1e-4  # between the losses of two engines, relative
FILES = ("rounds.jsonl", "clients.jsonl", "summary.json")
SMALL: dict[str, Any] = {
    "rounds": 3,
    "data": "digits",
    "partition": {"name": "dirichlet", "clients": 4, "alpha": 1.0, "min_size": 20},
    "model": {"name": "mlp", "hidden": [8]},
    "local": {"epochs": 0.2, "lr": 0.05},
}


class Check(NamedTuple):
    """One part of the contract, and why it is broken; empty if it is kept."""

    name: str
    about: str
    wrong: str


class _Stop(Exception):
    """A run is left on purpose."""


class _Leaving(Silent):
    """Stops a run after its second round."""

    def round(self, record: dict[str, Any]) -> None:
        """Leave."""
        if record["round"] == 2:
            raise _Stop


def methods_in(file: str) -> list[str]:
    """The classes of a file that are methods and made there."""
    code = own_code.run("method.file", file)
    found = [
        name
        for name, value in vars(code).items()
        if isinstance(value, type)
        and issubclass(value, Method)
        and value.__module__ == code.__name__
    ]
    if not found:
        raise ConfigError(f"'{file}' defines no method: make a class from unalike.extend.Method.")
    return found


def checks(file: str, attribute: str, settings: Mapping[str, Any]) -> Iterator[Check]:
    """Every part of the contract in turn; what depends on a broken one is left out."""
    method = {"name": "own", "file": file, "attribute": attribute, "settings": dict(settings)}
    raw = {**SMALL, "method": method}
    with tempfile.TemporaryDirectory() as place:
        trial = _Trial(raw, Path(place))
        for name, about, test in trial.tests():
            wrong = _reason(test)
            yield Check(name, about, wrong)
            if wrong and name == "trains":
                return


class _Trial:
    """Runs of one method in folders of their own."""

    def __init__(self, raw: dict[str, Any], place: Path) -> None:
        self.raw, self.place = raw, place

    def tests(self) -> list[tuple[str, str, Callable[[], str]]]:
        return [
            ("trains", "three rounds end with finite numbers", self.trains),
            ("repeats", "the same seed gives the same bytes", self.repeats),
            ("engines", "clients computed alone and many at once agree", self.engines),
            ("shapes", "uploads have the shapes that upload_like announces", self.shapes),
            ("resumes", "a stopped and resumed run ends like an uninterrupted one", self.resumes),
            ("few", "some of the clients may drop out", self.few),
        ]

    def config(self, name: str, **changes: Any) -> Config:
        run = {"folder": str(self.place / name), "checkpoint_every": 1}
        return parse({**self.raw, **changes, "run": run})

    def trains(self) -> str:
        before = torch.random.get_rng_state()
        start(self.config("first"))
        if not torch.equal(before, torch.random.get_rng_state()):
            return "it draws from PyTorch's global generator; draw with unalike.rng from ctx.key"
        loss = self._loss("first")
        return "" if math.isfinite(loss) else f"the loss after three rounds is {loss}"

    def repeats(self) -> str:
        start(self.config("second"))
        return self._differ("first", "second", "two runs with one seed differ")

    def engines(self) -> str:
        for kind in ("sequential", "vectorized"):
            start(self.config(kind, engine={"kind": kind}))
        one, many = self._loss("sequential"), self._loss("vectorized")
        if math.isclose(one, many, rel_tol=TOLERANCE):
            return ""
        return (
            f"the loss is {one:.6g} one client at a time and {many:.6g} many at once; "
            "client must be pure and may not branch on a tensor's value"
        )

    def shapes(self) -> str:
        made = experiment(self.config("shapes"))
        progress, loop = made.course.begin(), made.course.loop
        plan = loop.recipe.schedule.plan(0, loop.span, loop.n, loop.cohorts)
        downs = loop.downs(progress.state)
        sent = next(iter(made.simulation.train(0, plan, downs, loop.home)))
        found = tree.named(tree.row(sent.wire, 0))
        told = tree.named(loop.messages(made.w).wire)
        if found.keys() != told.keys():
            odd = sorted(found.keys() ^ told.keys())[0]
            return f"'{odd}' is in the upload or in upload_like, but not in both"
        for name, leaf in told.items():
            if (leaf.shape, leaf.dtype) != (found[name].shape, found[name].dtype):
                return (
                    f"'{name}' is {tuple(found[name].shape)} {found[name].dtype} in the upload and "
                    f"{tuple(leaf.shape)} {leaf.dtype} in upload_like"
                )
        return ""

    def resumes(self) -> str:
        try:
            start(self.config("stopped"), _Leaving())
        except _Stop:
            resume(self.place / "stopped", trust=True)
        return self._differ("first", "stopped", "a resumed run ends differently")

    def few(self) -> str:
        start(self.config("few", participation={"number": 2}))
        return ""

    def _loss(self, name: str) -> float:
        last = read_json(self.place / name / "summary.json")["last"]
        section = "global" if "global" in last else "local"
        value = last[section]["loss"]["mean"]
        return math.nan if value is None else float(value)

    def _differ(self, one: str, other: str, said: str) -> str:
        for file in FILES:
            if (self.place / one / file).read_bytes() != (self.place / other / file).read_bytes():
                return (
                    f"{said} ({file}); state must go in and come out, and nothing may stay in self"
                )
        return ""


def _reason(test: Callable[[], str]) -> str:
    try:
        return test()
    except UnalikeError as error:
        return str(error).rstrip(".")
    except Exception as error:  # the method is the user's, and so are its exceptions
        return own_code.reason(error)
