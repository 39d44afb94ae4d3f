"""Run a configuration, or continue a run folder; Ctrl-C leaves it resumable."""

import re
from pathlib import Path
from typing import Any, Protocol

from unalike.engine.course import Progress
from unalike.engine.simulation.ranks import Ranks
from unalike.errors import ConfigError, DataError, OwnCodeError, RunError, counted
from unalike.files import write
from unalike.run.configuration.config import Config, parse
from unalike.run.engines.measuring import settled
from unalike.run.experiment.build import Experiment, experiment
from unalike.run.folder import manifest
from unalike.run.folder.artefacts import SELECTED, Keeper, partition_record
from unalike.run.folder.checkpoint import Checkpoint
from unalike.run.folder.lifecycle import (
    begun,
    conclude,
    is_whole,
    put,
    recorded,
    refuse_changed_inputs,
    refuse_unproven,
)
from unalike.run.folder.location import clear, make_folder, refuse_occupied
from unalike.run.folder.manifest import Manifest
from unalike.run.folder.origins import refuse_changed_code, refuse_stranger
from unalike.run.folder.products import kept, moving
from unalike.run.folder.records import LOGS, Log, alone, by_what, dumps, read_json, read_lines
from unalike.run.interrupts import interrupts
from unalike.run.rounds import conclusion, rounds


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
        super().__init__(
            f"stopped, {counted(done, 'round')} saved; continue with: unalike resume {folder}"
        )
        self.folder, self.done = folder, done


def start(config: Config, observer: Observer | None = None, ranks: Ranks | None = None) -> Path:
    """Start a run in a new folder, which is not made if configuration or data are wrong.

    With ``ranks`` other processes follow this one and share its clients.
    """
    refuse_occupied(config)
    made = experiment(config, ranks, settled if ranks is None else None)
    folder = make_folder(config)
    with alone(folder):
        refuse_occupied(config)  # again, now that nobody else can get in
        write(folder / "config.json", dumps(made.config.resolved(), indent=2))
        _go(made, folder, observer or Silent(), ranks=ranks)
    return folder


def configured(folder: str | Path) -> Config:
    """The configuration of a run folder."""
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError(f"there is no run folder '{folder}'.")
    raw = read_json(folder / "config.json")
    if not isinstance(raw, dict):
        raise RunError(f"'{folder}/config.json' is not a configuration; restore it from a copy.")
    try:
        return parse(raw)
    except ConfigError as error:
        raise RunError(f"'{folder}/config.json' was changed: {error}") from None


def resume(
    folder: str | Path,
    observer: Observer | None = None,
    *,
    trust: bool = False,
    changed_code: bool = False,
    ranks: Ranks | None = None,
) -> Path:
    """Continue where a run stopped; for a finished run nothing is computed or replaced.

    Args:
        folder: The run's folder.
        observer: Who watches.
        ranks: Other processes that follow this one.
        trust: Run the Python files that the folder names, even if somebody else started the run.
        changed_code: Continue although these files have changed.
    """
    folder = Path(folder)
    config = configured(folder)
    if (folder / "deploy.json").is_file():
        raise RunError(f"'{folder}' cannot be resumed here; {by_what(folder)}.")
    with alone(folder):
        found = manifest.read(folder)
        if found is None:
            refuse_unproven(folder)
        elif found.finished:
            if is_whole(folder, found):
                return folder
        else:
            refuse_changed_inputs(folder, found)
        if not trust:
            refuse_stranger(folder, config, found)
        if found is not None and not changed_code:
            refuse_changed_code(folder, found)
        made = experiment(config, ranks)
        _go(made, folder, observer or Silent(), found, changed_code, ranks)
    return folder


def _go(
    made: Experiment,
    folder: Path,
    observer: Observer,
    found: Manifest | None = None,
    changed_code: bool = False,
    ranks: Ranks | None = None,
) -> None:
    """All rounds in a folder."""
    tell = ranks.exchange if ranks is not None else _nobody
    config, course = made.config, made.course
    origin = begun(folder, made, found)
    logs = [Log(folder / name) for name in LOGS]
    checkpoint = Checkpoint(folder, made, logs, origin, changed_code)
    done, progress = checkpoint.restore()
    origin = recorded(folder, origin, found)
    skew, told = partition_record(made)
    put(folder, origin, "skew.json", dumps(told).encode())
    tell(str(done).encode())
    _forget_timing(folder, done)
    records = read_lines(folder / "rounds.jsonl")
    keeper = Keeper(folder, made, records)
    for name, raw in keeper.describe().items():
        put(folder, origin, name, raw)
    observer.begin(made, skew, folder, done)
    for record in records:
        observer.round(record)
    saved = done
    try:
        with interrupts(observer.stopping) as asked:
            for step in rounds(made, progress, done):
                logs[0].append(step.record)
                if step.clients is not None:
                    logs[1].append(step.clients)
                spent = {"seconds": step.seconds, "evaluation": step.judging}
                with (folder / "timing.jsonl").open("a") as f:
                    f.write(dumps({"round": step.round, **spent}) + "\n")
                observer.round(step.record)
                keeper.see(step)
                progress, stop, last = step.progress, asked(), step.round == course.rounds
                if last or stop or step.round % config.run.checkpoint_every == 0:
                    keeper.store()
                    checkpoint.store(step.round, progress)
                    saved = step.round
                tell(b"stop" if stop else b"")
                if stop and not last:
                    raise KeyboardInterrupt
            assert progress is not None, "a run has at least one round"
            _finish(made, folder, progress, checkpoint, origin, keeper)
    except KeyboardInterrupt:
        raise Interrupted(folder, saved) from None
    except (ConfigError, DataError):
        if found is None and not logs[0].size:  # what was wrong shows in the first round only
            clear(folder)
        raise
    except OwnCodeError as error:
        if not logs[0].size:  # there is nothing to continue
            clear(folder)
            raise
        raise OwnCodeError(
            f"{str(error).rstrip('.')}; {counted(saved, 'round')} saved: repair it, then continue "
            f"with: unalike resume {folder} --changed-code",
            error.frames,
        ) from error


def _nobody(said: bytes) -> None:
    """The followers of a run that one process computes alone."""


def _finish(
    made: Experiment,
    folder: Path,
    progress: Progress,
    checkpoint: Checkpoint,
    origin: Manifest,
    keeper: Keeper,
) -> None:
    """Write the models, what the method has made beside them, the summary, and that it is over."""
    judged = made.evaluator(progress.state) if keeper.last is None else None
    results = keeper.finish(judged)
    for name, arrays in made.course.products(progress).items():
        results |= kept(name, arrays)
        frames = [f for line in read_lines(folder / LOGS[1]) if (f := line.get(name))]
        if len(frames) > 1:
            results[f"{name}-moving.png"] = moving(frames)
    summary = conclusion(made, read_lines(folder / "rounds.jsonl"))
    results["summary.json"] = dumps(summary, indent=2).encode()
    checkpoint.conclude()
    selected = (f"{SELECTED}/{path.name}" for path in (folder / SELECTED).glob("*"))
    conclude(folder, origin, results, [*checkpoint.files, *keeper.described, *selected])


def _forget_timing(folder: Path, done: int) -> None:
    """Leave out the rounds that will be timed again, and what cannot be read."""
    path = folder / "timing.jsonl"
    if path.exists():
        found = re.finditer(r'{"round": (\d{1,18}), .*\n', path.read_text(errors="replace"))
        write(path, "".join(line[0] for line in found if int(line[1]) <= done))
