"""Run a configuration, or go on with a run folder; Ctrl-C leaves it resumable."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from safetensors.torch import save

from unalike.engine.evaluate import Evaluation
from unalike.engine.loop import Round
from unalike.errors import RunError
from unalike.federation.skew import measure
from unalike.run import checkpoint
from unalike.run.build import Experiment, experiment, facts
from unalike.run.config import Config, parse
from unalike.run.environment import environment
from unalike.run.folder import LOGS, Log, alone, dumps, read_json, read_lines, write
from unalike.run.summary import summarise


class Observer(Protocol):
    """Whoever watches a run."""

    def begin(self, made: Experiment, skew: dict[str, Any], folder: Path, done: int) -> None:
        """Before the first round; ``done`` rounds came before."""
        ...

    def round(self, record: dict[str, Any]) -> None:
        """After each round."""
        ...


class Silent:
    """Nobody watches."""

    def begin(self, made: Experiment, skew: dict[str, Any], folder: Path, done: int) -> None:
        """Nothing."""

    def round(self, record: dict[str, Any]) -> None:
        """Nothing."""


class Interrupted(Exception):
    """The user asked to stop; the folder can be resumed."""

    def __init__(self, folder: Path, done: int) -> None:
        """After ``done`` rounds."""
        super().__init__(f"stopped after round {done}")
        self.folder, self.done = folder, done


def start(config: Config, observer: Observer | None = None) -> Path:
    """A new run in a new folder."""
    folder = _new_folder(config)
    with alone(folder):
        write(folder / "config.json", dumps(config.resolved(), indent=2))
        write(folder / "environment.json", dumps(environment(), indent=2))
        _go(config, folder, observer or Silent())
    return folder


def resume(folder: str | Path, observer: Observer | None = None) -> Path:
    """Go on where a run stopped; a finished run is left as it is."""
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError(f"there is no run folder '{folder}'.")
    raw = read_json(folder / "config.json")
    if not isinstance(raw, dict):
        raise RunError(f"'{folder}/config.json' is not a configuration; restore it from a copy.")
    with alone(folder):
        _go(parse(raw), folder, observer or Silent())
    return folder


def _new_folder(config: Config) -> Path:
    if config.run.folder:
        folder = Path(config.run.folder)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(
                f"'{folder}' already exists: go on with 'unalike resume {folder}', "
                "or choose another run.folder."
            )
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    methods = "+".join([config.method.name, *(m.name for m in config.plus)])
    name = f"{methods}-{config.data.name}-{config.partition.name}-seed{config.seed}"
    tries = (Path("runs") / (name if i == 1 else f"{name}-{i}") for i in range(1, 10_000))
    for folder in tries:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise RunError("runs/ is full of runs of this name; set run.folder.")


def _go(config: Config, folder: Path, observer: Observer) -> None:
    made = experiment(config)
    skew = measure(made.federation.counts).as_dict()
    counts = made.federation.counts.tolist()
    names = list(made.federation.examples.class_names)
    partition = {"skew": skew, "counts": counts, "classes": names, **facts(made)}
    write(folder / "skew.json", dumps(partition))
    logs = [Log(folder / name) for name in LOGS]
    state = made.loop.begin(made.w)
    done, state = checkpoint.restore(folder, state, made.simulation, logs)
    if (folder / "summary.json").exists() and done == config.rounds:
        return
    observer.begin(made, skew, folder, done)
    for record in read_lines(folder / "rounds.jsonl"):
        observer.round(record)
    with _interrupts() as asked:
        for t in range(done, config.rounds):
            begun = time.perf_counter()
            state, report = made.loop.advance(state, t)
            last = t + 1 == config.rounds
            judged = None
            if (t + 1) % config.evaluation.every == 0 or last:
                judged = made.evaluator(state)
            record = _record(t, report, judged, made.loop.survey_bytes)
            logs[0].append(record)
            if judged is not None:
                logs[1].append({"round": t + 1, **judged.clients})
            seconds = round(time.perf_counter() - begun, 4)
            with (folder / "timing.jsonl").open("a") as f:
                f.write(dumps({"round": t + 1, "seconds": seconds}) + "\n")
            observer.round(record)
            stop = asked()
            if last or stop or (t + 1) % config.run.checkpoint_every == 0:
                checkpoint.store(folder, t + 1, state, made.simulation, logs)
            if stop and not last:
                raise Interrupted(folder, t + 1)
    model = made.recipe.algorithm.model(state.servers[0], made.evaluator.key)
    if model is not None:
        whole = {k: v.detach().cpu().clone().contiguous() for k, v in model.items()}
        write(folder / "model.safetensors", save(whole))
    records = read_lines(folder / "rounds.jsonl")
    write(folder / "summary.json", dumps(summarise(records, config.evaluation), indent=2))


def _record(t: int, report: Round, judged: Evaluation | None, survey: int) -> dict[str, Any]:
    """One line of rounds.jsonl."""
    traffic = report.traffic
    return {
        "round": t + 1,
        "clients": report.ids.tolist(),
        "weights": [round(float(p), 9) for p in report.weights],
        "rejected": {str(i): why for i, why in report.rejected.items()},
        "skipped": report.skipped,
        "bytes_down": traffic.down,
        "bytes_up": traffic.up + (survey if t == 0 else 0),
        "bytes_across": traffic.across,
        "messages": traffic.messages,
        **report.worked,
        "metrics": None if judged is None else judged.spread,
    }


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C asks to stop after the round, a second one stops at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    numbers = (signal.SIGINT, signal.SIGTERM)
    try:
        before = [signal.signal(n, ask) for n in numbers]
    except ValueError:  # not the main thread: signals are somebody else's business
        yield lambda: False
        return
    try:
        yield lambda: asked
    finally:
        for n, handler in zip(numbers, before, strict=True):
            signal.signal(n, handler)
