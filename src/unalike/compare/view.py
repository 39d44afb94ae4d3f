"""One live view of a whole comparison: a table on a terminal, lines in a log."""

import os
import time
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as Layout
from rich.text import Text

from unalike.compare.results import score
from unalike.compare.spec import Cell, Comparison
from unalike.compare.worker import Event
from unalike.metrics.catalogue import head
from unalike.tables import cells
from unalike.tables.format import number
from unalike.tables.model import Table
from unalike.tables.terminal import terminal

EVERY = 10.0  # seconds between two lines about rounds in a log


class View(Protocol):
    """An observer of a comparison."""

    def begin(self, made: Comparison, done: dict[str, float | None], processes: int) -> None:
        """Before anything runs; ``done`` holds the values of finished cells."""
        ...

    def hear(self, event: Event, cell: Cell, value: float | None) -> None:
        """Something happened to a cell; ``value`` is its compared number, once it is done."""
        ...

    def stopping(self) -> None:
        """A request to stop was heard; called within a signal handler."""
        ...

    def end(self) -> None:
        """After the last event."""
        ...


class Silent:
    """No observer."""

    def begin(self, made: Comparison, done: dict[str, float | None], processes: int) -> None:
        """Nothing."""

    def hear(self, event: Event, cell: Cell, value: float | None) -> None:
        """Nothing."""

    def stopping(self) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


class Progress:
    """How far a comparison is, and how long it will take."""

    def __init__(self, made: Comparison, done: dict[str, float | None]) -> None:
        self.made, self.begun = made, 0.0  # when the first cell began: imports take seconds
        self.values = {c.id: done[c.id] for c in made.cells if c.id in done}
        self.at: dict[str, float] = {}  # the share of a running cell that is done
        self.now: dict[str, float | None] = {}  # the newest score of a running cell
        self.failed: set[str] = set()
        self.first = len(self.values)

    def hear(self, event: Event, cell: Cell, value: float | None) -> None:
        """Take note of an event."""
        self.begun = self.begun or time.monotonic()
        if event.kind in ("begin", "round"):
            self.at[cell.id] = event.round / max(event.rounds, 1)
            found = score(event.metrics, self.made)
            if found is not None:
                self.now[cell.id] = found
            return
        self.at.pop(cell.id, None)
        self.now.pop(cell.id, None)
        if event.kind == "done":
            self.values[cell.id] = value
        elif event.kind == "failed":
            self.failed.add(cell.id)

    @property
    def remaining(self) -> str:
        """The time left, from the share of cells done so far in this session."""
        work = len(self.values) - self.first + sum(self.at.values())
        left = len(self.made.cells) - len(self.values) - len(self.failed) - sum(self.at.values())
        if work < 0.2 or left <= 0:
            return ""
        return duration((time.monotonic() - self.begun) * left / work)

    def mean(self, label: str) -> tuple[int, int, float | None, float | None]:
        """(cells done, cells in all, mean of the done, mean of the running) of one method."""
        cells = [c.id for c in self.made.cells if c.label == label]
        done = [v for i in cells if (v := self.values.get(i)) is not None]
        running = [v for i in cells if (v := self.now.get(i)) is not None]
        return (
            sum(i in self.values for i in cells),
            len(cells),
            sum(done) / len(done) if done else None,
            sum(running) / len(running) if running else None,
        )


class LiveView:
    """A table that is redrawn on a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = Live(console=console, refresh_per_second=4, transient=True)

    def begin(self, made: Comparison, done: dict[str, float | None], processes: int) -> None:
        """Start drawing."""
        self.progress, self.processes = Progress(made, done), processes
        self.live.start()

    def hear(self, event: Event, cell: Cell, value: float | None) -> None:
        """Redraw; say what failed."""
        self.progress.hear(event, cell, value)
        if event.kind == "failed":
            self.console.print(Text(f"cell {cell.id} failed: {event.text}", "red"))
        self.live.update(self._drawn())

    def stopping(self) -> None:
        """Straight to the file: a console may be in the middle of printing."""
        os.write(2, b"\nstopping after the running rounds; Ctrl-C again stops at once\n")

    def end(self) -> None:
        """Leave the terminal as it was."""
        self.live.stop()

    def _drawn(self) -> RenderableType:
        p, made = self.progress, self.progress.made
        metric = made.judging.metric
        rows = []
        for label in made.labels:
            done, total, mean, running = p.mean(label)
            scores = [cells.score(value, metric) for value in (mean, running)]
            rows.append([cells.words(label), cells.of(done, total), *scores])
        columns = ["method", "cells", f"done: {head(metric)}", f"running: {head(metric)}"]
        table = terminal([Table("", columns, rows)], self.console.width)
        total = len(made.cells)
        left = f", about {p.remaining} left" if p.remaining else ""
        failed = f", {len(p.failed)} failed" if p.failed else ""
        bar = ProgressBar(total=total, completed=len(p.values) + sum(p.at.values()), width=20)
        line = Layout.grid(padding=(0, 1))
        line.add_row(bar, Text(f"{len(p.values)} of {total} cells done{failed}{left}"))
        return Group(line, table)


class LogView:
    """One line for each finished cell, and a sign of life in between."""

    def __init__(self, console: Console) -> None:
        self.console, self.told = console, time.monotonic()

    def begin(self, made: Comparison, done: dict[str, float | None], processes: int) -> None:
        """Say what is about to run."""
        self.progress = Progress(made, done)
        left = len(made.cells) - len(done)
        self._print(
            f"{len(made.cells)} cells, {len(done)} done before, {left} to run on "
            f"{processes} processes"
        )

    def hear(self, event: Event, cell: Cell, value: float | None) -> None:
        """A line if there is news."""
        p, metric = self.progress, self.progress.made.judging.metric
        p.hear(event, cell, value)
        left = f", about {p.remaining} left" if p.remaining else ""
        count = f"{len(p.values)}/{len(p.made.cells)}"
        if event.kind == "done":
            shown = f"{head(metric)} {number(value, metric)}"
            self._print(f"{count} {cell.id}: {shown}{left}")
        elif event.kind == "failed":
            self._print(f"cell {cell.id} failed: {event.text}")
        elif time.monotonic() - self.told > EVERY:
            now = p.now.get(cell.id)
            shown = "" if now is None else f", {head(metric)} {number(now, metric)}"
            self._print(f"{count} {cell.id}: round {event.round}/{event.rounds}{shown}{left}")

    def stopping(self) -> None:
        """Straight to the file: a console may be in the middle of printing."""
        os.write(2, b"stopping after the running rounds\n")

    def end(self) -> None:
        """Nothing to clean up."""

    def _print(self, text: str) -> None:
        self.told = time.monotonic()
        self.console.print(Text(text), soft_wrap=True)


def duration(seconds: float) -> str:
    """A time for a person.

    >>> duration(42), duration(600), duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def for_console(console: Console) -> View:
    """The view that fits: redrawn on a terminal, lines elsewhere."""
    return LiveView(console) if console.is_terminal else LogView(console)
