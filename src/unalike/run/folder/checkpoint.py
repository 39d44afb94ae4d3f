"""The newest complete states of a run: servers in one file, clients' states in shards beside it.

Two are kept, so that a damaged one does not cost the run: ``state`` and, before it, ``earlier``.
"""

import hashlib
import json
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unalike import tree
from unalike.engine.client.shards import Shards
from unalike.engine.course import Progress
from unalike.engine.loop import State
from unalike.errors import Damaged, RunError, RunWarning
from unalike.files import new_folder, sync_folder, write
from unalike.run.experiment.build import Experiment
from unalike.run.folder.environment import installed
from unalike.run.folder.manifest import Manifest
from unalike.run.folder.proof import pieces, unpack
from unalike.run.folder.records import Log
from unalike.run.folder.selected import Selected


class Checkpoint:
    """What it takes to continue: servers, clients' kept states, and how long the logs were."""

    def __init__(
        self,
        folder: Path,
        made: Experiment,
        logs: list[Log],
        origin: Manifest,
        changed_code: bool = False,
    ) -> None:
        """Tied to what the run is made from, ``origin``; to its code unless that may change."""
        self.folder, self.made, self.logs, self.origin = folder, made, logs, origin
        self.changed_code, self.selected = changed_code, Selected(folder)
        self.path = folder / "checkpoint" / "state.safetensors"
        self.earlier = self.path.with_name("earlier.safetensors")
        self.next = self.path.with_name("next.safetensors")
        self.shards = Shards(folder / "checkpoint" / "clients")
        made.simulation.states.attach(self.shards)

    def store(self, t: int, progress: Progress) -> None:
        """Save everything after round ``t``; of the clients, those that changed."""
        _refuse_undefined(t, progress)
        states = self.made.simulation.states
        new_folder(self.path.parent)
        states.save()
        self.shards.sync()
        flat = _named(progress.state._replace(survey={}), "state")
        flat |= {f"survey/{name}": x for name, x in progress.state.survey.items()}
        flat |= {f"model/{name}": x for name, x in (progress.model or {}).items()}
        flat |= self.shards.index()
        notes = {"round": str(t), "stage": str(progress.stage)}
        notes |= self._origins | self.shards.notes() | self.selected.notes()
        for log in self.logs:
            log.sync()
            if log.path.stat().st_size != log.size:
                raise RunError(
                    f"'{log.path}' was changed by something else while the run went on; start it "
                    "again in another folder."
                )
            notes[f"{log.path.name}:size"] = str(log.size)
            notes[f"{log.path.name}:sha256"] = log.hash.hexdigest()
        sync_folder(self.folder)  # the names of the logs
        write(self.next, pieces(flat, notes))  # whole before anything gives way to it
        if self.path.exists():
            self.path.replace(self.earlier)
        self.next.replace(self.path)
        sync_folder(self.path.parent)  # before what the checkpoint before the last needs is removed
        self.shards.sweep()

    def conclude(self) -> None:
        """The run is finished: the checkpoint before the last one is no longer needed."""
        self.earlier.unlink(missing_ok=True)
        self.shards.sweep(before=False)

    @property
    def files(self) -> list[str]:
        """What the last checkpoint consists of, as paths in the folder."""
        live = sorted({p.shard for p in self.shards.places.values()})
        paths = [self.path, *map(self.shards.path, live)]
        return [str(path.relative_to(self.folder)) for path in paths]

    def restore(self) -> tuple[int, Progress | None]:
        """(rounds done, where the run is); puts clients' states and logs back as they were."""
        if self.next.exists() and not self.path.exists():  # killed between the two renames
            self.next.replace(self.path)
        if not self.path.exists() and not self.earlier.exists():
            for log in self.logs:
                log.path.unlink(missing_ok=True)
            return 0, None
        try:
            done, progress, sizes = self._opened(self.path)
        except Damaged as damage:
            done, progress, sizes = self._fallen_back(damage)
        for log, size in zip(self.logs, sizes, strict=True):  # nothing is cut unless all fit
            log.rewind(size)
        return done, progress

    def seen(self) -> tuple[int, Progress]:
        """(rounds done, where the run is), for processes that follow: no file is touched."""
        done, progress, _ = self._opened(self.path)
        return done, progress

    def _fallen_back(self, damage: Damaged) -> tuple[int, Progress, list[int]]:
        """The checkpoint before the damaged one, if that is whole."""
        if not self.earlier.exists():
            raise damage
        try:
            found = self._opened(self.earlier)
        except Damaged:
            raise damage from None
        warnings.warn(
            f"{str(damage).partition(';')[0]}: continuing from the checkpoint before it, "
            f"after round {found[0]}.",
            RunWarning,
            stacklevel=4,
        )
        self.earlier.replace(self.path)  # the damaged one must not become the earlier one
        return found

    def _opened(self, path: Path) -> tuple[int, Progress, list[int]]:
        """(rounds done, where the run is, how long the logs were) of a checkpoint that is whole."""
        notes, flat = unpack(path, str(self.made.simulation.device))
        self._check(path, notes)
        try:
            names = [log.path.name for log in self.logs]
            marks = [(int(notes[f"{n}:size"]), notes[f"{n}:sha256"]) for n in names]
            done, progress = self._unpacked(notes, flat)
        except (KeyError, ValueError, IndexError):
            raise Damaged(
                f"'{path}' does not hold the state this configuration needs; delete the folder "
                "'checkpoint' to start from round 1."
            ) from None
        for log, (size, digest) in zip(self.logs, marks, strict=True):
            log.check(size, digest)
        self.selected.check(notes, over=done == self.made.course.rounds)
        return done, progress, [size for size, _ in marks]

    def _check(self, path: Path, notes: dict[str, str]) -> None:
        if notes.get("config") != self._origins["config"]:
            raise RunError(
                f"'{self.folder}/config.json' was changed after the checkpoint was made; restore "
                "it, or start a new run with the new settings."
            )
        if notes.get("data") != self._origins["data"]:
            raise RunError(
                f"the data changed after '{path}' was made; restore them or start a new run."
            )
        if notes.get("code") != self._origins["code"] and not self.changed_code:
            raise RunError(
                f"'{path}' was made by different code (unalike {notes.get('version')} and your "
                "own files as they were then); restore that, or resume with --changed-code to "
                "continue with the code as it is now."
            )

    def _unpacked(self, notes: dict[str, str], flat: dict[str, Tensor]) -> tuple[int, Progress]:
        course, stage, done = self.made.course, int(notes["stage"]), int(notes["round"])
        if not 1 <= done <= course.rounds or course.stage_of(done - 1) != stage:
            raise ValueError("a round that does not exist")
        model = _under(flat, "model/") or None
        loop = course.enter(stage, model)
        blank = loop.blank(course.first(stage, model))
        state: State = _like(blank, flat, "state")
        survey = {name: x.cpu() for name, x in _under(flat, "survey/").items()}
        index = flat["states"].cpu()
        if len(index) and not 0 <= int(index[:, 0].min()) <= int(index[:, 0].max()) < loop.n:
            raise ValueError("a client that does not exist")
        self.shards.load(index, notes)
        self.made.simulation.states.restore()
        return done, Progress(stage, state._replace(survey=survey), model)

    @cached_property
    def _origins(self) -> dict[str, str]:
        """What ties a checkpoint to the configuration, the data and the code it was made with."""
        config = hashlib.sha256((self.folder / "config.json").read_bytes()).hexdigest()
        made_by = str(installed("unalike"))
        code = json.dumps([made_by, self.origin.code], sort_keys=True)
        return {
            "config": config,
            "data": self.origin.data,
            "code": hashlib.sha256(code.encode()).hexdigest(),
            "version": made_by,
        }


def _refuse_undefined(t: int, progress: Progress) -> None:
    """What is saved can be continued from: numbers that are not finite cannot."""
    for x in (*tree.leaves(progress.state.stack), *(progress.model or {}).values()):
        if x.is_floating_point() and not bool(torch.isfinite(x).all()):
            raise RunError(
                f"after round {t} the server holds numbers that are not finite, so training has "
                "diverged; lower the learning rate of the clients or of the server."
            )


def _named(t: Any, prefix: str) -> dict[str, Tensor]:
    return {f"{prefix}{name}": x for name, x in tree.named(t).items()}


def _under(flat: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k[len(prefix) :]: v for k, v in flat.items() if k.startswith(prefix)}


def _like(like: Any, flat: dict[str, Tensor], prefix: str) -> Any:
    """The tree under a prefix; ValueError if a tensor is not of the kind it should be."""
    found = tree.restore(_under(flat, prefix), like)
    for a, b in zip(tree.leaves(like), tree.leaves(found), strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError("another shape")
    return tree.map(lambda a, b: b.to(a.device), like, found)  # what a rule remembers is on the CPU
