"""Run a configuration, or go on with a run folder; Ctrl-C leaves it resumable."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from safetensors.torch import save

from unalike.engine.loop import State
from unalike.errors import ConfigError, RunError
from unalike.federation.skew import measure
from unalike.run.build import Experiment, assemble, experiment, facts, recipe
from unalike.run.checkpoint import Checkpoint
from unalike.run.config import Config, parse
from unalike.run.environment import environment
from unalike.run.folder import LOGS, Log, alone, dumps, read_json, read_lines, write
from unalike.run.interrupts import interrupts
from unalike.run.place import make_folder, refuse_occupied
from unalike.run.rounds import conclusion, rounds
from unalike.run.stages import FOLDER as FIRST
from unalike.run.stages import first_stage, second_stage
from unalike.track.mirror import Mirror
from unalike.tree import Params


class Observer(Protocol):
    """Whoever watches a run."""

    def begin(self, made: Experiment, skew: dict[str, Any], folder: Path, done: int) -> None:
        """Before the first round; ``done`` rounds came before."""
        ...

    def round(self, record: dict[str, Any]) -> None:
        """After each round, those before a resume included."""
        ...

    def stopping(self) -> None:
        """A request to stop was heard; called within a signal handler."""
        ...


class Silent:
    """Nobody watches."""

    def begin(self, made: Experiment, skew: dict[str, Any], folder: Path, done: int) -> None:
        """Nothing."""

    def round(self, record: dict[str, Any]) -> None:
        """Nothing."""

    def stopping(self) -> None:
        """Nothing."""


class Interrupted(KeyboardInterrupt):
    """The user asked to stop; the folder can be resumed."""

    def __init__(self, folder: Path, done: int) -> None:
        """With ``done`` rounds saved."""
        super().__init__(f"stopped, {done} rounds saved; go on with: unalike resume {folder}")
        self.folder, self.done = folder, done


def start(config: Config, observer: Observer | None = None) -> Path:
    """A new run in a new folder, which is not made if the configuration or the data are wrong."""
    refuse_occupied(config)
    watching = Mirror(config.track, observer or Silent())
    made = experiment(first_stage(config) or config)
    refuse_second_stage(config, made)
    folder = make_folder(config)
    with alone(folder), watching:
        refuse_occupied(config)  # again, now that nobody else can get in
        _introduce(config, folder)
        _stages(config, made, folder, watching)
    return folder


def resume(folder: str | Path, observer: Observer | None = None) -> Path:
    """Go on where a run stopped; a finished run comes to the same end again."""
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError(f"there is no run folder '{folder}'.")
    raw = read_json(folder / "config.json")
    if not isinstance(raw, dict):
        raise RunError(f"'{folder}/config.json' is not a configuration; restore it from a copy.")
    try:
        config = parse(raw)
    except ConfigError as error:
        raise RunError(f"'{folder}/config.json' was changed: {error}") from None
    watching = Mirror(config.track, observer or Silent())
    with alone(folder), watching:
        _stages(config, experiment(first_stage(config) or config), folder, watching)
    return folder


def refuse_second_stage(config: Config, made: Experiment) -> None:
    """Say what is wrong with the second of two stages before the first one runs."""
    if first_stage(config) is None:
        return
    with TemporaryDirectory() as place:  # any encoder will do
        write(Path(place) / "model.safetensors", _model(made.w))
        task = made.recipe.algorithm.task
        recipe(second_stage(config, Path(place)), task, made.federation)


def _introduce(config: Config, folder: Path) -> None:
    write(folder / "config.json", dumps(config.resolved(), indent=2))
    write(folder / "environment.json", dumps(environment(), indent=2))


def _stages(config: Config, made: Experiment, folder: Path, observer: Observer) -> None:
    """Run what was made, after the stage before it if it is one."""
    if first_stage(config) is not None:
        before = folder / FIRST
        if not (before / "config.json").exists():
            before.mkdir(exist_ok=True)
            _introduce(made.config, before)
        if not (before / "summary.json").exists():
            _go(made, before, observer, folder)
        task = made.recipe.algorithm.task
        made = assemble(second_stage(config, before), made.federation, task)
    _go(made, folder, observer, folder)


def _go(made: Experiment, folder: Path, observer: Observer, whole: Path) -> None:
    """All rounds in a folder, which may be a stage of the run in the folder ``whole``."""
    config, federation = made.config, made.federation
    logs = [Log(folder / name) for name in LOGS]
    checkpoint = Checkpoint(folder, made, logs)
    done, state = checkpoint.restore()
    skew = measure(federation.counts).as_dict()
    partition = {
        "skew": skew,
        "counts": federation.counts.tolist(),
        "classes": list(federation.examples.class_names),
        "names": list(federation.names),
        **facts(made),
    }
    write(folder / "skew.json", dumps(partition))
    _forget_timing(folder, done)
    observer.begin(made, skew, folder, done)
    for record in read_lines(folder / "rounds.jsonl"):
        observer.round(record)
    saved = done
    try:
        with interrupts(observer.stopping) as asked:
            for step in rounds(made, state, done):
                logs[0].append(step.record)
                if step.clients is not None:
                    logs[1].append(step.clients)
                with (folder / "timing.jsonl").open("a") as f:
                    f.write(dumps({"round": step.round, "seconds": step.seconds}) + "\n")
                observer.round(step.record)
                state, stop, last = step.state, asked(), step.round == config.rounds
                if last or stop or step.round % config.run.checkpoint_every == 0:
                    checkpoint.store(step.round, state)
                    saved = step.round
                if stop and not last:
                    raise KeyboardInterrupt
            _finish(made, folder, state)
            if asked() and folder != whole:  # another stage would follow
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise Interrupted(whole, saved) from None


def _finish(made: Experiment, folder: Path, state: State) -> None:
    """Write the model and the summary."""
    model = made.recipe.algorithm.model(state.servers[0], made.evaluator.key)
    if model is not None:
        write(folder / "model.safetensors", _model(model))
    summary = conclusion(made, read_lines(folder / "rounds.jsonl"))
    write(folder / "summary.json", dumps(summary, indent=2))


def _model(w: Params) -> bytes:
    whole: bytes = save({k: v.detach().cpu().clone().contiguous() for k, v in w.items()})
    return whole


def _forget_timing(folder: Path, done: int) -> None:
    """Leave out the rounds that will be timed again, and what cannot be read."""
    path = folder / "timing.jsonl"
    if path.exists():
        found = re.finditer(r'{"round": (\d+), .*\n', path.read_text(errors="replace"))
        write(path, "".join(line[0] for line in found if int(line[1]) <= done))
