"""The newest complete state of a run: servers in one file, clients' states in shards beside it."""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from unalike import tree
from unalike.engine.course import Progress
from unalike.engine.loop import State
from unalike.engine.shards import Shards
from unalike.errors import RunError
from unalike.files import write
from unalike.run.build import Experiment
from unalike.run.folder import Log

FORMAT = "3"


class Checkpoint:
    """What it takes to continue: servers, clients' kept states, and how long the logs were."""

    def __init__(self, folder: Path, made: Experiment, logs: list[Log]) -> None:
        self.folder, self.made, self.logs = folder, made, logs
        self.path = folder / "checkpoint" / "state.safetensors"
        self.shards = Shards(folder / "checkpoint" / "clients")
        made.simulation.states.attach(self.shards)

    def store(self, t: int, progress: Progress) -> None:
        """Save everything after round ``t``; of the clients, those that changed."""
        states = self.made.simulation.states
        self.path.parent.mkdir(exist_ok=True)
        states.save()
        self.shards.sync()
        flat = _named(progress.state._replace(survey={}), "state")
        flat |= {f"survey/{name}": x for name, x in progress.state.survey.items()}
        flat |= {f"model/{name}": x for name, x in (progress.model or {}).items()}
        flat |= self.shards.index()
        # Copies: several servers may still hold the same tensor, which the format refuses.
        flat = {name: x.detach().cpu().clone().contiguous() for name, x in flat.items()}
        notes = {"format": FORMAT, "round": str(t), "stage": str(progress.stage)}
        notes |= self._origins | self.shards.notes()
        for log in self.logs:
            log.sync()
            notes[f"{log.path.name}:size"] = str(log.size)
            notes[f"{log.path.name}:sha256"] = log.hash.hexdigest()
        write(self.path, save(flat, notes))
        self.shards.sweep()

    def restore(self) -> tuple[int, Progress | None]:
        """(rounds done, where the run is); puts clients' states and logs back as they were."""
        if not self.path.exists():
            for log in self.logs:
                log.path.unlink(missing_ok=True)
            return 0, None
        notes, flat = self._read()
        self._check(notes)
        try:
            done, progress = self._unpack(notes, flat)
            names = [log.path.name for log in self.logs]
            marks = [(int(notes[f"{n}:size"]), notes[f"{n}:sha256"]) for n in names]
        except (KeyError, ValueError, IndexError):
            raise RunError(
                f"'{self.path}' does not hold the state this configuration needs; "
                "delete it to start from round 1."
            ) from None
        for log, (size, digest) in zip(self.logs, marks, strict=True):
            log.check(size, digest)
        for log, (size, _) in zip(self.logs, marks, strict=True):  # nothing is cut unless all fit
            log.rewind(size)
        return done, progress

    def _read(self) -> tuple[dict[str, str], dict[str, Tensor]]:
        try:
            with safe_open(self.path, "pt", device=str(self.made.simulation.device)) as f:
                names = f.keys()
                return f.metadata() or {}, {name: f.get_tensor(name) for name in names}
        except (SafetensorError, OSError) as error:
            raise RunError(
                f"'{self.path}' is damaged ({error}); delete it to start from round 1."
            ) from None

    def _check(self, notes: dict[str, str]) -> None:
        if notes.get("format") != FORMAT:
            raise RunError(
                f"'{self.path}' was not written by this version of unalike; resume with the "
                "version that wrote it, or delete it to start from round 1."
            )
        if notes.get("config") != self._origins["config"]:
            raise RunError(
                f"'{self.folder}/config.json' was changed after the checkpoint was made; restore "
                "it, or start a new run with the new settings."
            )
        if notes.get("data") != self._origins["data"]:
            raise RunError(
                f"the data changed after '{self.path}' was made; restore them or start a new run."
            )

    def _unpack(self, notes: dict[str, str], flat: dict[str, Tensor]) -> tuple[int, Progress]:
        course, stage = self.made.course, int(notes["stage"])
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
        return int(notes["round"]), Progress(stage, state._replace(survey=survey), model)

    @cached_property
    def _origins(self) -> dict[str, str]:
        """What ties a checkpoint to the configuration and the data it was made with."""
        examples, federation = self.made.federation.examples, self.made.federation
        tests = () if examples.test_x is None else (examples.test_x, examples.test_y)
        digest = hashlib.blake2b(digest_size=16)
        for part in (examples.x, examples.y, *tests, federation.owner, federation.part):
            digest.update(np.ascontiguousarray(part).data)
        config = hashlib.sha256((self.folder / "config.json").read_bytes())
        return {"config": config.hexdigest(), "data": digest.hexdigest()}


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
