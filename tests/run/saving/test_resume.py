"""A run that was cut short goes on and ends as if it had never been: the same bytes."""

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from interrupted import (
    STATEFUL,
    Killed,
    assert_same_run,
    process,
    raw,
    wait_for_round,
    whole,
    write_toml,
)

from unalike.algorithms.table import METHODS
from unalike.engine.evaluation.server import Evaluator
from unalike.engine.loop import Loop
from unalike.run import execute
from unalike.run.configuration.config import parse
from unalike.run.execute import Interrupted, Silent, resume, start
from unalike.run.folder import records
from unalike.run.folder.records import Log, read_lines
from unalike.run.saving import checkpoint, models
from unalike.run.saving.checkpoint import Checkpoint


def before(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int) -> None:
    """Die instead of the n-th call."""
    real, calls = getattr(owner, name), iter(range(10**6))

    def dying(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == call:
            raise Killed
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, dying)


def after(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int) -> None:
    """Die when the n-th call has returned."""
    real, calls = getattr(owner, name), iter(range(10**6))

    def dying(*args: Any, **kwargs: Any) -> Any:
        out = real(*args, **kwargs)
        if next(calls) == call:
            raise Killed
        return out

    monkeypatch.setattr(owner, name, dying)


def half_a_line(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Die with half of a log's line on the disk."""
    real, calls = Log.append, iter(range(10**6))

    def dying(self: Log, record: Any) -> None:
        if next(calls) < call:
            real(self, record)
            return
        text = records.dumps(record)
        with self.path.open("a") as f:
            f.write(text[: len(text) // 2])
        raise Killed

    monkeypatch.setattr(Log, "append", dying)


def half_a_checkpoint(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Die with half of a checkpoint under its temporary name."""
    real, calls = records.write, iter(range(10**6))

    def dying(path: Path, data: list[bytes]) -> None:
        if next(calls) < call:
            real(path, data)
            return
        whole_file = b"".join(data)
        path.with_name(f".{path.name}.tmp").write_bytes(whole_file[: len(whole_file) // 2])
        raise Killed

    monkeypatch.setattr(checkpoint, "write", dying)


Death = Callable[[pytest.MonkeyPatch], None]
DEATHS: dict[str, Death] = {
    "before the first round": lambda m: before(m, Loop, "advance", 0),
    "after training, before the log": lambda m: after(m, Loop, "advance", 2),
    "while judging": lambda m: before(m, Evaluator, "__call__", 1),
    "before a line of rounds": lambda m: before(m, Log, "append", 2),
    "between rounds and clients": lambda m: after(m, Log, "append", 4),
    "in the middle of a line": lambda m: half_a_line(m, 3),
    "before a checkpoint": lambda m: before(m, Checkpoint, "store", 1),
    "in the middle of the first checkpoint": lambda m: half_a_checkpoint(m, 0),
    "in the middle of a later checkpoint": lambda m: half_a_checkpoint(m, 1),
    "between a checkpoint and the next round": lambda m: after(m, Checkpoint, "store", 1),
    "after the last checkpoint": lambda m: after(m, Checkpoint, "store", 2),
    "before the summary": lambda m: before(m, execute, "conclusion", 0),
}
FEW = ("after training, before the log", "in the middle of a later checkpoint")
CASES = [("scaffold", death) for death in DEATHS]
CASES += [(name, FEW[0]) for name in STATEFUL if name != "scaffold"]
LATER = [(name, FEW[1]) for name in STATEFUL if name != "scaffold"]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The uninterrupted runs, each made when first asked for."""
    made: dict[str, Path] = {}

    def ask(name: str) -> Path:
        if name not in made:
            made[name] = whole(tmp_path_factory.mktemp(name) / "run", STATEFUL[name])
        return made[name]

    return ask


@pytest.mark.parametrize(
    ("name", "death"), [*CASES, *(pytest.param(*c, marks=pytest.mark.slow) for c in LATER)]
)
def test_a_killed_run_ends_the_same(
    name: str, death: str, reference: Callable[[str], Path], tmp_path: Path
):
    place = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        DEATHS[death](patch)
        with pytest.raises(Killed):
            start(parse(raw(place, STATEFUL[name])))
    resume(place)
    assert_same_run(reference(name), place)


def test_killed_again_and_again(reference: Callable[[str], Path], tmp_path: Path):
    place = tmp_path / "run"
    for attempt in range(4):
        with pytest.MonkeyPatch.context() as patch:
            after(patch, Loop, "advance", attempt)
            with pytest.raises(Killed):
                start(parse(raw(place, STATEFUL["scaffold"]))) if not attempt else resume(place)
    resume(place)
    assert_same_run(reference("scaffold"), place)


def test_a_finished_run_stays_as_it_is(reference: Callable[[str], Path], tmp_path: Path):
    place = whole(tmp_path / "run", STATEFUL["fedadam"])
    (place / "summary.json").write_text("scribbled over")
    resume(place)
    assert_same_run(reference("fedadam"), place)


SPECIAL: dict[str, dict[str, Any]] = {
    "latent_disco": {
        "method": {"name": "latent_disco", "refresh": "every"},
        "model": {"name": "vae", "hidden": [8]},
        "local": {"epochs": 0.2, "optimizer": "adam", "lr": 1e-3},
    },
    "fedbn": {"method": "fedbn", "model": {"name": "mlp", "hidden": [8], "batch_norm": True}},
    "fedevg": {"method": {"name": "fedevg", "per_class": 1, "judge_epochs": 1}},
    "fedbuff": {"method": {"name": "fedbuff", "buffer": 2, "concurrency": 3}},
    "power_of_choice": {"method": "power_of_choice", "participation": {"fraction": 0.5}},
    "by_size": {"method": "by_size", "participation": {"fraction": 0.5}},
    "topk down": {
        "method": {"name": "topk", "share": 0.1, "direction": "down"},
        "participation": {"fraction": 0.5},
    },
    "dp": {"method": {"name": "dp", "clip": 1.0, "noise_multiplier": 1.0}},
    "local_dp": {"method": {"name": "local_dp", "clip": 1.0, "noise_multiplier": 1.0}},
}


class Copying(Silent):
    """Copies the folder in the last round: what a process killed there leaves behind."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source, self.target = source, target

    def round(self, record: dict[str, Any]) -> None:
        if record["round"] == 3:
            shutil.copytree(self.source, self.target)


@pytest.mark.parametrize("method", [*METHODS, "topk down"])
def test_every_method_keeps_all_it_needs(method: str, tmp_path: Path):
    changes: dict[str, Any] = {
        "rounds": 3,
        "participation": {},
        "faults": {},
        "local": {"epochs": 0.2, "lr": 0.05},
        "evaluation": {"every": 3},
        **SPECIAL.get(method, {"method": method}),
    }
    one, other = tmp_path / "one", tmp_path / "other"
    start(parse(raw(one, changes)), Copying(one, other))
    assert not (other / "summary.json").exists()
    resume(other)
    assert_same_run(one, other)


class Asking(Silent):
    """Sends this process a signal after a round, as a terminal would."""

    def __init__(self, number: int, rounds: tuple[int, ...]) -> None:
        self.number, self.rounds, self.heard = number, rounds, 0

    def round(self, record: dict[str, Any]) -> None:
        for t in self.rounds:
            if record["round"] == t:
                signal.raise_signal(self.number)

    def stopping(self) -> None:
        self.heard += 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("rounds", [(1,), (3,), (3, 3), (6,)])
def test_a_request_to_stop_is_heard_once_the_round_is_done(
    number: int, rounds: tuple[int, ...], reference: Callable[[str], Path], tmp_path: Path
):
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    asking, place = Asking(number, rounds), tmp_path / "run"
    config = parse(raw(place, STATEFUL["aaggff_d"]))
    if rounds == (6,):  # nothing is left to stop
        start(config, asking)
    else:
        with pytest.raises(Interrupted, match=f"continue with: unalike resume {place}") as stopped:
            start(config, asking)
        # Asked twice, the checkpoint of this round is no longer written.
        assert stopped.value.done == (2 if len(rounds) == 2 else rounds[0])
        assert len(read_lines(place / "rounds.jsonl")) == rounds[0]
        resume(place)
    assert asking.heard == 1
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    assert_same_run(reference("aaggff_d"), place)


@pytest.mark.parametrize("at", [1, 3])
def test_a_stop_between_two_checkpoints_leaves_the_same_states(
    at: int, reference: Callable[[str], Path], tmp_path: Path
):
    """It makes one more checkpoint, and so another file of clients' states, of the same numbers."""
    place = tmp_path / "run"
    with pytest.raises(Interrupted):
        start(parse(raw(place, STATEFUL["scaffold"])), Asking(signal.SIGINT, (at,)))
    resume(place)
    assert_same_run(reference("scaffold"), place)


def long(name: str) -> dict[str, Any]:
    """A run that is not over before it can be killed."""
    return {**STATEFUL[name], "rounds": 20, "evaluation": {"every": 5}}


def killed_for_real(name: str, rounds: int, delay: float, tmp_path: Path) -> Path:
    """A process that is killed a moment after so many rounds; the folder it leaves."""
    place = tmp_path / "run"
    file = write_toml(tmp_path / "run.toml", raw(place, long(name)))
    with process(["run", str(file)], tmp_path) as running:
        wait_for_round(running, place, rounds)
        time.sleep(delay)
        running.kill()
        running.wait()
    return place


@pytest.mark.parametrize(("name", "rounds"), [("scaffold", 1), ("ring", 12)])
def test_kill_9(name: str, rounds: int, tmp_path: Path):
    """Others, whenever it may be, below; and above without a process for each."""
    place = killed_for_real(name, rounds, 0.01, tmp_path)
    assert not (place / "summary.json").exists()
    resume(place)
    assert_same_run(whole(tmp_path / "whole", long(name)), place)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", STATEFUL)
def test_kill_9_at_ten_random_moments(name: str, tmp_path: Path):
    one, draw = whole(tmp_path / "whole", long(name)), random.Random(name)
    for attempt in range(10):
        spot = tmp_path / str(attempt)
        spot.mkdir()
        place = killed_for_real(name, draw.randrange(20), draw.uniform(0, 0.05), spot)
        resume(place)
        assert_same_run(one, place)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c(times: int, tmp_path: Path):
    place = tmp_path / "run"
    file = write_toml(tmp_path / "run.toml", raw(place, long("superfed_mm")))
    with process(["run", str(file)], tmp_path) as running:
        wait_for_round(running, place, 3)
        for _ in range(times):
            running.send_signal(signal.SIGINT)
            time.sleep(0.005)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert f"continue with: unalike resume {place}" in said
    assert "stopping after this round" in said
    assert "Traceback" not in said
    assert 3 <= len(read_lines(place / "rounds.jsonl")) < 20
    resume(place)
    assert_same_run(whole(tmp_path / "whole", long("superfed_mm")), place)


def test_a_run_of_stages_is_resumed_between_them(tmp_path: Path):
    place = tmp_path / "run"
    changes: dict[str, Any] = {
        "rounds": 2,
        "model": {"name": "vae", "hidden": [8]},
        "method": {"name": "latent_disco", "a": 0.3},
        "local": {"epochs": 0.2, "optimizer": "adam", "lr": 1e-3},
    }
    config = parse(raw(place, changes))
    with pytest.raises(Interrupted, match=f"continue with: unalike resume {place}$"):
        start(config, Asking(signal.SIGINT, (1,)))
    with pytest.raises(Interrupted, match=f"continue with: unalike resume {place}$"):
        resume(place, Asking(signal.SIGINT, (2,)))  # between the stages
    assert not (place / "summary.json").exists()
    resume(place)
    assert_same_run(whole(tmp_path / "whole", changes), place)


@pytest.mark.parametrize(("where", "call"), [("finish", 0), ("_forget", 0), ("rmtree", 1)])
def test_death_while_an_earlier_selection_is_forgotten(
    where: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last round is the best: the models of the one before go away all at once, or later."""
    changes = STATEFUL["superfed_mm"]
    known = whole(tmp_path / "whole", changes)
    assert not (known / "selected").exists()
    with monkeypatch.context() as patch:
        before(patch, models.shutil if where == "rmtree" else models.Keeper, where, call)
        with pytest.raises(Killed):
            whole(tmp_path / "dies", changes)
    resume(tmp_path / "dies")
    assert_same_run(known, tmp_path / "dies")
    assert not [path for path in (tmp_path / "dies").iterdir() if "selected" in path.name]
