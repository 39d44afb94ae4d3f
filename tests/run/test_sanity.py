"""A run that is not sane does not finish, or says so at once and in the summary."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from federations import composed, network_task, play

from unalike.engine.server.guard import ENORMOUS, refuse_insane
from unalike.errors import RunError
from unalike.network import Network
from unalike.run.alarm import alarm
from unalike.run.configuration.config import parse
from unalike.run.execute import start
from unalike.run.experiment.build import experiment
from unalike.run.folder.records import read_lines
from unalike.tasks import TASKS

BASE: dict[str, Any] = {
    "rounds": 8,
    "model": "logistic",
    "partition": {"name": "dirichlet", "clients": 6, "alpha": 1.0},
}


def ended(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    folder = start(parse({**BASE, **changes, "run": {"folder": str(tmp_path / "run")}}))
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.parametrize("states", ["memory", "disk"])
def test_own_models_that_explode_are_noted(states: str, tmp_path: Path) -> None:
    """The shared model is sound, so nothing is refused, and clients are tested with an old one."""
    wild = {"name": "ditto", "pull": 1e30}
    asked = {"engine": {"states": states}, "local": {"epochs": 5.0, "batch_size": 8}}
    summary = ended(tmp_path, method=wild, **asked)
    assert summary["rejected"] == 0
    assert summary["noted"] == 8
    records = read_lines(tmp_path / "run" / "rounds.jsonl")
    assert "state of client 0 (and of 5 more) is no longer finite" in records[0]["notes"][0]
    with_less = ended(tmp_path / "less", method={**wild, "pull": 1.0}, **asked)
    assert with_less["noted"] == 0


@pytest.mark.parametrize("method", ["fedavg", "norm_clip", "median", "scaffold"])
@pytest.mark.parametrize("garbage", [0.3, 0.6])
def test_a_majority_that_explodes(method: str, garbage: float, tmp_path: Path) -> None:
    """What is left is honest: the loss is that of clients without faults, or thereabouts."""
    summary = ended(tmp_path, method=method, faults={"garbage": garbage, "kind": "huge"})
    assert summary["rejected"] > 0
    assert summary["last"]["local"]["loss"]["mean"] < 3


@pytest.mark.parametrize("garbage", [0.1, 0.3])
def test_one_participant_a_round(garbage: float, tmp_path: Path) -> None:
    faults = {"garbage": garbage, "kind": "huge"}
    summary = ended(tmp_path, rounds=12, participation={"number": 1}, faults=faults)
    assert summary["rejected"] > 0
    assert summary["last"]["local"]["loss"]["mean"] < 3


@pytest.mark.parametrize(
    "changes",
    [
        {"method": {"name": "fedadam", "lr": 1e30}},
        {"method": {"name": "fedadam", "lr": 1e38}},
        {"method": {"name": "fedprox", "mu": 1e6}},
        {"local": {"lr": 1e10}},
        {"local": {"lr": 1e10}, "model": "mlp"},
        {"faults": {"garbage": 1.0, "kind": "huge"}},
    ],
)
def test_what_diverges_does_not_finish(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="training has diverged"):
        ended(tmp_path, **changes)
    assert not (tmp_path / "run" / "summary.json").exists()


def test_a_model_that_grows_slowly_is_stopped_as_well() -> None:
    task, data = network_task("dense")
    loop = composed(task, data, "fedavg")
    assert isinstance(play(loop, data).x, dict)  # sane
    with pytest.raises(RunError, match="training has diverged"):
        refuse_insane(3, ENORMOUS / 100, ENORMOUS * 2)
    refuse_insane(3, ENORMOUS / 100, ENORMOUS / 99)


def test_a_loss_a_thousand_times_as_high_is_said(tmp_path: Path) -> None:
    summary = ended(tmp_path, method={"name": "fedadam", "lr": 3e4}, rounds=3)
    records = read_lines(tmp_path / "run" / "rounds.jsonl")
    losses = [r["metrics"]["local"]["loss"]["mean"] for r in records]
    said = [any("training has diverged" in n for n in r["notes"]) for r in records]
    bound = 1000 * math.log(10)
    assert max(losses) > bound
    above = [any(r["metrics"][s]["loss"]["mean"] > bound for s in r["metrics"]) for r in records]
    assert said == above
    assert summary["exploded"] == records[said.index(True)]["round"]


def test_ordinary_runs_say_nothing(tmp_path: Path) -> None:
    assert "exploded" not in ended(tmp_path, rounds=2)


def test_what_a_model_that_knows_nothing_loses() -> None:
    network = Network(torch.nn.Linear(10, 4))
    known = {kind: learn(network).ignorance(4, 10) for kind, learn in TASKS.items()}
    assert known["multiclass"] == known["characters"] == pytest.approx(math.log(4))
    assert known["autoencoding"] == pytest.approx(10 * math.log(2))
    assert known["regression"] == 1  # the variance of a target that was scaled
    spread = {"local": {"loss": {"mean": None}}, "global": {"loss": {"mean": 1400.0}}}
    assert "a loss of 1.4e+03 (global)" in alarm(spread, known["multiclass"])
    assert alarm(spread, known["autoencoding"]) == ""


def test_an_untrained_model_is_near_it() -> None:
    """The oracle of the scale: the first evaluation of a run."""
    made = experiment(parse(BASE))
    progress = made.course.begin()
    judged = made.evaluator(progress.state)
    loss = judged.spread["local"]["loss"]["mean"]
    assert 0.5 < loss / made.recipe.algorithm.task.ignorance(10, 64) < 2
