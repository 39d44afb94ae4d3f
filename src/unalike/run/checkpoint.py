"""The newest complete state of a run, as one safetensors file written atomically."""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from unalike import tree
from unalike.engine.loop import State
from unalike.errors import RunError
from unalike.run.build import Experiment
from unalike.run.folder import Log, write

FORMAT = "2"


class Checkpoint:
    """What it takes to go on: servers, clients' kept states, and how long the logs were."""

    def __init__(self, folder: Path, made: Experiment, logs: list[Log]) -> None:
        self.folder, self.made, self.logs = folder, made, logs
        self.path = folder / "checkpoint" / "state.safetensors"

    def store(self, t: int, state: State) -> None:
        """Save everything after round ``t``."""
        flat = {f"state{name}": x for name, x in tree.named(state).items()}
        for i, kept in self.made.simulation.kept.items():
            flat |= {f"kept/{i}/{name}": x for name, x in tree.named(kept).items()}
        # Copies: several servers may still hold the same tensor, which the format refuses.
        flat = {name: x.detach().cpu().clone().contiguous() for name, x in flat.items()}
        notes = {"format": FORMAT, "round": str(t), **self._origins}
        for log in self.logs:
            log.sync()
            notes[f"{log.path.name}:size"] = str(log.size)
            notes[f"{log.path.name}:sha256"] = log.hash.hexdigest()
        self.path.parent.mkdir(exist_ok=True)
        write(self.path, save(flat, notes))

    def restore(self) -> tuple[int, State]:
        """(rounds done, the state after them); puts clients' states and logs back as they were."""
        if not self.path.exists():
            for log in self.logs:
                log.path.unlink(missing_ok=True)
            return 0, self.made.loop.begin(self.made.w)
        notes, flat = self._read()
        self._check(notes)
        try:
            done, state, kept = self._unpack(notes, flat)
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
        self.made.simulation.kept = kept
        return done, state

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
                f"'{self.path}' is no checkpoint of this version of unalike; resume with the "
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

    def _unpack(
        self, notes: dict[str, str], flat: dict[str, Tensor]
    ) -> tuple[int, State, dict[int, Any]]:
        simulation = self.made.simulation
        state = _like(self.made.loop.begin(self.made.w), flat, "state")
        ids = sorted({int(name.split("/")[1]) for name in flat if name.startswith("kept/")})
        if ids and not 0 <= ids[0] <= ids[-1] < simulation.n_clients:
            raise ValueError("a client that does not exist")
        kept = {i: _like(simulation.state(i), flat, f"kept/{i}/") for i in ids}
        return int(notes["round"]), state, kept

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


def _like(like: Any, flat: dict[str, Tensor], prefix: str) -> Any:
    """The tree under a prefix; ValueError if a tensor is not of the kind it should be."""
    mine = {k[len(prefix) :]: v for k, v in flat.items() if k.startswith(prefix)}
    found = tree.restore(mine, like)
    for a, b in zip(tree.leaves(like), tree.leaves(found), strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError("another shape")
    return tree.map(lambda a, b: b.to(a.device), like, found)  # what a rule remembers is on the CPU
