"""What a run keeps besides its records: models that can be used.

model.safetensors      the shared model of the last round, or that of the first server
servers.safetensors    where there are several servers, the model of each, stacked
personal.safetensors   where clients are tested with other weights, theirs, stacked
frozen.safetensors     where there is no shared model, the frozen parameters
models.json            the round they are of, and which of them is whose
selected/              the same files for the round that validation rows selected; left out if that
                       is the last one

The models are those that were tested, so their results on the test rows are the recorded ones.
"""

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from unalike import tree
from unalike.engine.evaluation.client import Examiner
from unalike.engine.evaluation.server import Evaluation
from unalike.errors import warn_once
from unalike.files import new_folder, write
from unalike.metrics.catalogue import higher
from unalike.network import Network
from unalike.packed import parts
from unalike.run.experiment.live import Experiment
from unalike.run.folder.records import dumps
from unalike.run.rounds import Step
from unalike.run.saving.rows import described, row_file
from unalike.tree import Params, Tree

SELECTED = "selected"
LARGE = 2**30  # bytes of personal models that are kept unless they are asked for


class Models(NamedTuple):
    """The models with which clients and new clients are tested after one round, on the CPU."""

    round: int
    servers: Params | None  # stacked; None if only the clients hold whole models
    personal: Params | None  # stacked; None if all have the shared model
    notes: dict[str, Any]  # what models.json says beside the round
    frozen: Params  # parameters that no round changes, the same in every model


class Keeper:
    """Watches a run, and keeps the models of its last and of its selected round."""

    def __init__(self, folder: Path, made: Experiment, records: list[dict[str, Any]]) -> None:
        """``records`` are the rounds that came before a resume."""
        self.folder, self.made = folder, made
        select, main = made.config.evaluation.select, made.recipe.algorithm.task.headline
        self.metric = main if select == "auto" else select
        self.best: float | None = None
        self.best_round = 0
        self.last: tuple[int, Evaluation] | None = None
        self.selected: Models | None = None
        self.described: list[str] = []  # files that ``describe`` made
        for record in records:
            self._better(record)

    def describe(self) -> dict[str, bytes]:
        """Files that say how rows become what the models take, and whose they are."""
        files = {
            "features.json": dumps(described(self.made), indent=1).encode(),
            "rows.npz": row_file(self.made),
        }
        self.described = list(files)
        return files

    def see(self, step: Step) -> None:
        """Take the models of a round if it is the best so far."""
        if step.judged is None:
            return
        self.last = step.round, step.judged
        if self._better(step.record):
            self.selected = models(self.made, step.round, step.judged)

    def store(self) -> None:
        """Write the selected models down, if they changed, before a checkpoint relies on it."""
        if self.selected is not None and self.selected.round < self.made.course.rounds:
            place = self.folder / SELECTED
            new_folder(place)
            for name, raw in model_files(self.selected).items():
                write(place / name, raw)
            self.selected = None

    def finish(self, judged: Evaluation | None) -> dict[str, bytes]:
        """Files of the last round's models; ``judged`` is that of a run that had already ended."""
        if self.last is None:
            assert judged is not None, "a run has at least one round"
            self.last = self.made.course.rounds, judged
        newest = self.selected or models(self.made, *self.last)
        if self.best_round == self.made.course.rounds:
            self._forget()
        return model_files(newest)

    def _forget(self) -> None:
        """The last round is the selected one: take away an earlier one's models, all at once."""
        place, gone = self.folder / SELECTED, self.folder / f".{SELECTED}"
        shutil.rmtree(gone, ignore_errors=True)  # of a run that was killed here
        if place.exists():
            place.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def _better(self, record: dict[str, Any]) -> bool:
        """Whether no evaluated round was as good before, as ``selected_round`` sees it."""
        spread = (record["metrics"] or {}).get("validation", {}).get(self.metric, {})
        score = spread.get("mean")
        if score is None or not math.isfinite(score):
            return False
        sign = 1 if higher(self.metric) else -1
        if self.best is not None and sign * score <= sign * self.best:
            return False
        self.best, self.best_round = float(score), record["round"]
        return True


def models(made: Experiment, t: int, judged: Evaluation) -> Models:
    """Copies of all models that were tested in round ``t``, but not the same weights twice."""
    examiner, network = made.simulation.examiner, made.recipe.algorithm.task.network
    lost = any(w is not None for w in judged.models) and _too_many(made)
    return copies(examiner, network, t, judged.downs, judged.models, not lost)


def copies(
    examiner: Examiner,
    network: Network,
    t: int,
    downs: Tree,
    held: Sequence[Params | None],
    personal: bool = True,
) -> Models:
    """Copies of the servers' models and, unless they are too many, of the clients' own."""
    shared = [w for w in held if w is not None]
    servers = _apart(tree.stack(shared)) if shared else None  # a stack is a copy
    notes = {
        "personal_models": examiner.algorithm.personal_models,
        "personal_of": examiner.row_of.tolist(),  # each client's row among the personal models
        "layers": sorted(network.layers),
        "frozen": list(network.frozen),
    }
    frozen = _copied(network.constants())
    if servers is not None and not personal:
        return Models(t, servers, None, notes, frozen)
    found = examiner.personal(downs)
    own = None if found is None else _copied(found)
    if own is not None and servers is not None and _same(own, servers):
        own, notes["personal_models"] = None, False  # nothing is lost
    return Models(t, servers, own, notes, frozen)


def _too_many(made: Experiment) -> bool:
    """Whether personal models are not to be kept beside the shared one."""
    keep, examiner = made.config.run.keep, made.simulation.examiner
    if keep == "all" or not examiner.algorithm.personal_models:
        return False
    size = examiner.rows * tree.size_bytes(made.w)
    if keep == "auto" and size > LARGE:
        warn_once(
            f"{examiner.rows} personal models of {size / 2**30:.1f} GiB in all are not kept beside "
            "the shared one; set run.keep = 'all' to keep them."
        )
    return keep == "shared" or size > LARGE


def model_files(kept: Models) -> dict[str, bytes]:
    """The files that hold some models, by name."""
    servers, one = kept.servers, None
    if servers is not None:
        one = {**tree.map(lambda x: x[0], servers), **kept.frozen}
    several = servers if servers is not None and len(next(iter(servers.values()))) > 1 else None
    alone = kept.frozen if servers is None and kept.frozen else None
    each = {"model": one, "servers": several, "personal": kept.personal, "frozen": alone}
    notes = dumps({"round": kept.round, **kept.notes}, indent=1).encode()
    held = {name: w for name, w in each.items() if w is not None}
    files = {f"{name}.safetensors": b"".join(parts(w)) for name, w in held.items()}
    return {**files, "models.json": notes}


def _copied(w: Params) -> Params:
    return _apart({k: v.clone() for k, v in w.items()})


def _apart(w: Params) -> Params:
    return {k: v.detach().cpu().contiguous() for k, v in w.items()}


def _same(one: Params, other: Params) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
