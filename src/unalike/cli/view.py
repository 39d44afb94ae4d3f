"""A run while it runs: a bar on a terminal, a line now and then in a log."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from unalike.compare.labels import combined
from unalike.errors import counted
from unalike.federation.data import TEST, Examples, Federation
from unalike.report.grouping import grouping
from unalike.report.outcome import scores
from unalike.report.skew import cell
from unalike.run.experiment.cadence import AUTO
from unalike.run.experiment.live import Experiment
from unalike.run.folder.location import data_name
from unalike.run.folder.records import read_json
from unalike.tables.format import whole

EVERY = 5.0  # seconds between two lines of a log


class View:
    """Watches a run for a person."""

    def __init__(self, console: Console, introduce: bool = True) -> None:
        """``introduce`` says what the run is about before it begins."""
        self.console, self.introduce, self.told, self.done = console, introduce, 0.0, 0
        self.begun = False
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[score]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def begin(self, made: Experiment, skew: dict[str, Any], folder: Path, done: int) -> None:
        """Say what is about to run and start the bar."""
        config, self.done, self.told = made.config, done, time.monotonic()
        self.begun = True
        self.rounds = made.course.rounds
        self.name = combined([config.method.name, *(m.name for m in config.plus)])
        if self.introduce:
            self._introduce(made, skew, folder)
        if done == self.rounds:
            self._say("all rounds were already done")
        elif done:
            self._say(f"resuming after round {done} of {self.rounds}")
        self.progress.start()
        self.bar = self.progress.add_task(self.name, total=self.rounds, score="")

    def _introduce(self, made: Experiment, skew: dict[str, Any], folder: Path) -> None:
        sim, config = made.simulation, made.config
        data = data_name(config.data.resolved())
        self._say(
            f"{self.name} on {data}: {counted(made.federation.n_clients, 'client')}, "
            f"{counted(self.rounds, 'round')}, {config.model.name}, {sim.engine} on {sim.device} "
            f"({made.engine})"
        )
        self._say(_read(made.federation.examples))
        emd, js, least, most = (
            cell(name, skew[name]).text for name in ("emd", "js", "smallest", "largest")
        )
        self._say(
            f"skew of {config.partition.name}: EMD {emd}, Jensen-Shannon {js}, "
            f"clients of {least} to {most} examples"
        )
        if skew.get("apart"):
            mmd, apart = (cell(name, skew[name]).text for name in ("mmd", "apart"))
            which = f"{apart} client{'s' * (apart != '1')} beyond chance"
            self._say(f"features differ too: MMD {mmd} at equal labels, {which}")
        for outcome in made.federation.outcomes:
            self._say(str(outcome))
        for words in grouping(read_json(folder / "skew.json")):
            self._say(words)
        if made.federation.unused:
            self._say(f"{made.federation.unused:,} examples are held by no client")
        if untested := _untested(made.federation):
            self._say(untested)
        for question in sim.recipe.survey:
            self._say(f"clients reveal once: {question.reveals}")
        if made.attackers:
            who = ", ".join(map(str, made.attackers))
            self._say(f"attack {config.attack.name} by clients {who}")
        if made.accountant is not None:
            self._say(made.accountant.promise.meaning)
        if made.cadence.every > 1 and config.evaluation.every == AUTO:
            self._say(
                f"evaluated every {made.cadence.every} rounds and after the last: "
                f"{made.cadence.why} (evaluation.every = 1 evaluates every round)"
            )
        self._say(f"folder: {folder}", wrap=False)

    def round(self, record: dict[str, Any]) -> None:
        """Advance the bar; name clients whose updates were refused."""
        t, score = record["round"], scores(record)
        self.progress.update(self.bar, completed=t, score=score)
        if t <= self.done:  # told before the run was interrupted
            return
        for client, why in record["rejected"].items():
            self._say(f"round {t}: refused client {client}: {why}")
        if record["skipped"]:
            self._say(f"round {t} changed nothing: {record['skipped']}")
        for note in record["notes"]:
            self._say(f"round {t}: {note}")
        now, last = time.monotonic(), t == self.rounds
        if not self.console.is_terminal and score and (last or now - self.told > EVERY):
            self.told = now
            self._say(f"{self.name} round {t}/{self.rounds}  {score}")

    def stopping(self) -> None:
        """Straight to the file: a console may be in the middle of printing."""
        os.write(2, b"\nstopping after this round; press Ctrl-C again to stop at once\n")

    def end(self) -> None:
        """Leave the terminal as it was."""
        self.progress.stop()

    def _say(self, text: str, wrap: bool = True) -> None:
        """As it is: brackets in an error or a path are not markup."""
        self.console.print(Text(text), soft_wrap=not wrap)


def _untested(federation: Federation) -> str:
    """Which clients have no test rows although others have."""
    bare = np.flatnonzero(federation.sizes(TEST)[: federation.n_clients] == 0)
    if not len(bare) or len(bare) == federation.n_clients:
        return ""
    first = federation.names[bare[0]] if federation.names else f"client {bare[0]}"
    more = f" and {len(bare) - 1} more" if len(bare) > 1 else ""
    have, are = ("have", "are") if more else ("has", "is")
    return f"{first}{more} {have} no test row and {are} left out of means over clients"


def _read(examples: Examples) -> str:
    """How many examples of what there are, to be compared with what was meant."""
    shape = examples.x.shape[1:]
    each = " x ".join(map(str, shape))
    if len(shape) == 1:
        what = "feature" if examples.x.is_floating_point() else "symbol"
        each = f"with {counted(shape[0], what)}"
    test = "" if examples.test_y is None else f" and {whole(len(examples.test_y))} for testing"
    many = whole(len(examples))
    if examples.ranges is None:
        return f"read {many} examples{test}, each {each}, of {examples.classes} classes"
    low, high = (
        float(v) * examples.unit.spread + examples.unit.centre for v in examples.y.aminmax()
    )
    return (
        f"read {many} examples{test}, each {each}, with a number to predict ({low:.4g} to "
        f"{high:.4g}); rows are split and counted by {examples.classes} ranges of it"
    )
