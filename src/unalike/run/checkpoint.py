"""The newest complete state of a run, as one safetensors file written atomically."""

import hashlib
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from unalike import tree
from unalike.engine.loop import State
from unalike.engine.simulate import Simulation
from unalike.errors import RunError
from unalike.run.folder import Log, write

FORMAT = "1"
FILE = "checkpoint/state.safetensors"


def config_digest(folder: Path) -> str:
    """What ties a checkpoint to the configuration it was made under."""
    return hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()


def store(folder: Path, t: int, state: State, simulation: Simulation, logs: list[Log]) -> None:
    """Save the servers, the clients' kept states and how long the logs were, after round t."""
    flat = {f"state{name}": x for name, x in tree.named(state).items()}
    for i, kept in simulation.kept.items():
        flat |= {f"kept/{i}/{name}": x for name, x in tree.named(kept).items()}
    # Copies: several servers may still hold the same tensor, which the format refuses.
    flat = {name: x.detach().cpu().clone().contiguous() for name, x in flat.items()}
    notes = {"format": FORMAT, "round": str(t), "config": config_digest(folder)}
    for log in logs:
        notes[f"{log.path.name}:size"] = str(log.size)
        notes[f"{log.path.name}:sha256"] = log.hash.hexdigest()
    (folder / "checkpoint").mkdir(exist_ok=True)
    write(folder / FILE, save(flat, notes))


def restore(
    folder: Path, like: State, simulation: Simulation, logs: list[Log]
) -> tuple[int, State]:
    """(rounds done, the state after them); puts clients' states and logs back as they were."""
    path = folder / FILE
    if not path.exists():
        for log in logs:
            log.path.unlink(missing_ok=True)
        return 0, like
    try:
        with safe_open(path, "pt", device=str(simulation.device)) as f:
            notes = f.metadata() or {}
            flat = {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise RunError(f"'{path}' is damaged ({error}); delete it to start from round 1.") from None
    if notes.get("format") != FORMAT:
        raise RunError(f"'{path}' was written by another version; use that version to resume.")
    if notes.get("config") != config_digest(folder):
        raise RunError(
            f"'{folder}/config.json' was changed after the checkpoint was made; restore it, or "
            "start a new run with the new settings."
        )
    try:
        state = tree.restore({k[5:]: v for k, v in flat.items() if k.startswith("state")}, like)
        for i in sorted({int(k.split("/")[1]) for k in flat if k.startswith("kept/")}):
            prefix = f"kept/{i}/"
            mine = {k[len(prefix) :]: v for k, v in flat.items() if k.startswith(prefix)}
            simulation.kept[i] = tree.restore(mine, simulation.state(i))
    except (KeyError, ValueError, IndexError):
        raise RunError(
            f"'{path}' does not hold the state this configuration needs; "
            "delete it to start from round 1."
        ) from None
    _check_shapes(path, like, state)
    for log in logs:
        name = log.path.name
        log.rewind(int(notes[f"{name}:size"]), notes[f"{name}:sha256"])
    return int(notes["round"]), state


def _check_shapes(path: Path, like: Any, found: Any) -> None:
    pairs = zip(tree.leaves(like), tree.leaves(found), strict=True)
    if any(a.shape != b.shape or a.dtype != b.dtype for a, b in pairs):
        raise RunError(f"'{path}' holds tensors of other shapes; delete it to start from round 1.")
