"""The result of training in memory: records, models that predict, a folder, a notebook's cell."""

import copy
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from unalike import tree
from unalike.errors import RunError
from unalike.federation.data import Federation
from unalike.files import write
from unalike.metrics.catalogue import TESTS, main_metric
from unalike.predict.trained import Trained, trained
from unalike.predict.weights import Which, of_models
from unalike.report import outcome
from unalike.report.plots import client_strip, learning_curves
from unalike.run.experiment.build import Experiment
from unalike.run.folder.artefacts import Models, described, model_files, partition_record, row_file
from unalike.run.folder.environment import environment
from unalike.run.folder.location import numbered
from unalike.run.folder.records import LOGS, dumps
from unalike.tables.cells import words
from unalike.tables.html import html
from unalike.tables.model import Table
from unalike.tables.terminal import plain_text
from unalike.tree import Params


@dataclass(frozen=True, repr=False)
class Result:
    """A finished training; in a notebook it shows its tests and its progress over rounds."""

    summary: dict[str, Any]  # as summary.json: last and selected round, totals
    rounds: list[dict[str, Any]]  # as rounds.jsonl
    clients: list[dict[str, Any]]  # as clients.jsonl
    _made: Experiment
    _module: nn.Module
    _last: Models
    _selected: Models | None

    @property
    def federation(self) -> Federation:
        """The data it was trained on."""
        return self._made.federation

    @cached_property
    def model(self) -> nn.Module | None:
        """The shared model of the last round; None if only the clients hold whole models.

        It takes rows as ``federation.examples.x`` holds them; ``predict`` takes them as they came.
        """
        servers = self._last.servers
        return None if servers is None else _loaded(self._module, tree.row(servers, 0))

    def personal(self, client: str | int) -> nn.Module:
        """A client's model in the last round, by the client's name or number.

        ``trained().personal(client)`` predicts with that of the selected round.
        """
        number, weights = self.federation.number(client), of_models(self._last)
        if self.model is not None and weights.personal is None and not any(weights.row_of):
            return self.model
        return _loaded(self._module, weights.of(number))

    def trained(self, which: Which = "selected") -> Trained:
        """The models of the selected round, or of the last, ready for new rows."""
        chosen = self._last if which == "last" or self._selected is None else self._selected
        task = self._made.recipe.algorithm.task
        return trained(described(self._made), of_models(chosen), task)

    def predict(self, rows: Any) -> np.ndarray:
        """The class of each row, predicted by the shared model of the selected round."""
        return self.trained().predict(rows)

    def predict_proba(self, rows: Any) -> np.ndarray:
        """Class probabilities by the shared model of the selected round."""
        return self.trained().predict_proba(rows)

    def save(self, folder: str | Path = "") -> Path:
        """Write a run folder, for ``unalike.load``, ``unalike report`` and ``unalike predict``.

        Left out, the folder is a new one under ``runs``. What is saved cannot be resumed. A model
        that was given as a module is needed again to load it.
        """
        named = f"{self._name}-{self.federation.examples.name}-seed{self._made.config.seed}"
        place = Path(folder) if str(folder) else numbered(named)
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise RunError(f"'{place}' is not an empty folder; choose another.")
        config = self._made.config.resolved()
        config["partition"] = self.federation.dealt or config["partition"]
        files = {
            "config.json": {**config, "data": {"name": "files", "path": "(memory)"}},
            "environment.json": environment(),
            "features.json": described(self._made),
            "skew.json": partition_record(self._made)[1],
            "summary.json": self.summary,
        }
        raw = {name: dumps(held, indent=1).encode() for name, held in files.items()}
        for name, lines in zip(LOGS, (self.rounds, self.clients), strict=True):
            raw[name] = "".join(dumps(line) + "\n" for line in lines).encode()
        raw["rows.npz"] = row_file(self._made)
        raw |= model_files(self._named(self._last))
        if self._selected is not None and self._selected.round < self._last.round:
            chosen = model_files(self._named(self._selected))
            raw |= {f"selected/{name}": held for name, held in chosen.items()}
        for name, held in raw.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            write(place / name, held)
        return place

    def _named(self, kept: Models) -> Models:
        """The models with a note where the network is one that no configuration names."""
        given = self._made.config.run.init == "given"
        note = {"given": type(self._module).__name__} if given else {}
        return kept._replace(notes={**kept.notes, **note})

    def __repr__(self) -> str:
        """Its tests as text."""
        return f"{self._headline}\n{plain_text([self._tests()])}"

    def _repr_html_(self) -> str:
        """Its tests as a table, and the two pictures that matter."""
        told = sha256(dumps(self.summary).encode()).hexdigest()[:8]  # apart from other results'
        table = html(self._tests(), f"unalike-{told}", sortable=False)
        shown = [f"<p><b>{escape(self._headline)}</b></p>", table, *self._pictures()]
        return "\n".join(["<div>", *shown, "</div>"])

    @property
    def _headline(self) -> str:
        return f"{self._name}, {self.federation.n_clients} clients"

    @property
    def _judged(self) -> dict[str, Any]:
        """The selected round, or the last where none was."""
        return self.summary["selected"] or self.summary["last"]

    @property
    def _main(self) -> str:
        return main_metric(next(self._judged[s] for s in TESTS if s in self._judged))

    def _tests(self) -> Table:
        judged, main = self._judged, self._main
        sections = [s for s in TESTS if s in judged]
        rows = [[words(s), *outcome.judged(judged[s], s, main)] for s in sections]
        chosen = ", selected on validation rows" if self.summary["selected"] else ""
        columns = ["test", *outcome.columns(main).values()]
        return Table(f"Round {judged['round']}{chosen}", columns, rows, []).filled()

    def _pictures(self) -> list[str]:
        import vl_convert

        main, t = self._main, self._judged["round"]
        section = "local" if "local" in self.summary["last"] else "global"
        points = [
            {"round": r["round"], "method": self._name, main: r["metrics"][section][main]["mean"]}
            for r in self.rounds
            if r["metrics"]
        ]
        line = next(line for line in self.clients if line["round"] == t)
        charts = [learning_curves(points, main, "Mean over clients")]
        own = np.array(line.get("local", {}).get(main, []), dtype=float)
        if np.isfinite(own).any():
            sizes = {self._name: np.array(line["local"]["n"], dtype=float)}
            charts.append(client_strip({self._name: own}, main, "Every client", sizes))
        return [vl_convert.vegalite_to_svg(chart.to_json()) for chart in charts]

    @property
    def _name(self) -> str:
        config = self._made.config
        return "+".join([config.method.name, *(m.name for m in config.plus)])


def _loaded(like: nn.Module, w: Params) -> nn.Module:
    """A copy of a module with these weights, in evaluation mode."""
    own = copy.deepcopy(like)
    own.load_state_dict({k: v.detach().cpu() for k, v in w.items()}, strict=False)
    return own.eval()
