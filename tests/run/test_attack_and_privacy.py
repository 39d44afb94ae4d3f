"""Attackers and privacy in whole runs: what is refused, recorded, resumed and shown."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from unalike.cli.outcome import conclude
from unalike.errors import ConfigError
from unalike.federation.data import TEST, TRAIN
from unalike.run.configuration.config import Config, parse
from unalike.run.execute import Interrupted, Silent, resume, start
from unalike.run.experiment.build import Experiment, experiment
from unalike.run.experiment.facts import facts

SMALL: dict[str, Any] = {
    "rounds": 4,
    "partition": {"name": "iid", "clients": 10},
    "model": {"name": "mlp", "hidden": [8]},
    "engine": {"kind": "vectorized"},
}
DP = {"name": "dp", "clip": 0.5, "noise_multiplier": 2.0}


def config(**sections: Any) -> Config:
    return parse({**SMALL, **sections})


def finished(folder: Path, **sections: Any) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """(rounds, summary, partition) of a run."""
    start(config(**sections, run={"folder": str(folder)}))
    rounds = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    return (
        rounds,
        json.loads((folder / "summary.json").read_text()),
        json.loads((folder / "skew.json").read_text()),
    )


def recorded(**sections: Any) -> dict[str, Any]:
    return facts(experiment(config(**sections)))


def test_attackers_are_recorded_and_repeat() -> None:
    first = recorded(attack={"name": "sign_flip", "share": 0.3})["attackers"]
    assert len(first) == 3
    assert recorded(attack={"name": "noise", "number": 3})["attackers"] == first  # the seed's
    assert recorded(attack={"name": "sign_flip", "share": 0.3}, seed=1)["attackers"] != first
    peace = recorded()
    assert peace["attackers"] == []
    assert peace["privacy"] is None


def test_only_training_labels_of_attackers_are_flipped() -> None:
    """What is measured, tested and selected on stays true."""
    made = experiment(config(attack={"name": "label_flip", "number": 2}))
    true, used = made.federation.examples.y, made.simulation.examples.y
    rows = made.federation.rows(TRAIN)
    own = torch.isin(rows.owner, torch.tensor(made.attackers))
    assert torch.equal(used[rows.order[own]], 9 - true[rows.order[own]])
    assert torch.equal(used[rows.order[~own]], true[rows.order[~own]])
    tests = made.federation.rows(TEST).order
    assert torch.equal(used[tests], true[tests])


def test_attackers_answer_surveys_from_the_labels_they_train_on() -> None:
    partition = {"name": "dirichlet", "clients": 10, "alpha": 0.3}
    flip = {"name": "label_flip", "number": 2}
    made = experiment(config(method={"name": "feddisco"}, partition=partition, attack=flip))
    counts = made.course.begin().state.survey["label_counts"]
    true = torch.from_numpy(made.federation.counts).to(counts)
    for i in range(10):
        expected = true[i].flip(0) if i in made.attackers else true[i]
        assert torch.equal(counts[i], expected)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"attack": {"name": "sign_flop"}}, "did you mean 'sign_flip'"),
        ({"attack": {"name": "noise", "scale": 2.0}}, "unknown noise setting 'scale'"),
        ({"attack": {"name": "noise", "share": 0.3, "number": 2}}, "either share or number"),
        ({"attack": {"name": "sign_flip", "share": 1.5}}, "share"),
    ],
)
def test_refused_when_read(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**sections)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"attack": {"name": "sign_flip"}, "method": {"name": "pooled"}}, "only client"),
        ({"attack": {"name": "sign_flip", "number": 10}}, "from 1 to 9"),
        ({"attack": {"name": "label_flip", "source": 1, "target": 10}}, "class 10.*0 to 9"),
        ({"method": {"name": "krum", "attackers": 4}}, "needs at least 11 answers"),
        ({"method": DP, "topology": {"name": "ring"}}, "cannot run on topology 'ring'"),
        ({"method": DP, "plus": [{"name": "fedep"}]}, "plain mean"),
    ],
)
def test_refused_when_built(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        experiment(config(**sections))


@pytest.mark.parametrize("name", ["dp", "local_dp"])
def test_batch_statistics_kept_at_home_or_dropped_are_fine(name: str) -> None:
    net = {"name": "fmnist_cnn"}
    data = {"name": "digits"}
    with pytest.raises(ConfigError, match="BatchNorm"):
        experiment(config(method={"name": name}, model=net, data=data))
    for buffers in ("local", "drop"):
        made = experiment(
            config(method={"name": name}, model=net, data=data, run={"buffers": buffers})
        )
        assert made.accountant is not None


def test_epsilon_grows_and_ends_in_the_summary(tmp_path: Path) -> None:
    rounds, summary, partition = finished(
        tmp_path / "a", method=DP, participation={"fraction": 0.2}
    )
    spent = [r["epsilon"] for r in rounds]
    assert spent == sorted(spent)
    assert 0 < spent[0] < spent[-1]
    assert summary["privacy"]["epsilon"] == spent[-1]
    assert summary["privacy"]["delta"] == 1e-5
    assert "differential privacy" in partition["privacy"]
    console = Console(record=True, width=200)
    conclude(console, tmp_path / "a")
    assert f"epsilon = {spent[-1]:.3g} at delta = 1e-05" in console.export_text()


def test_without_noise_there_is_no_epsilon(tmp_path: Path) -> None:
    rounds, _, _ = finished(tmp_path / "a", method={**DP, "noise_multiplier": 0.0})
    assert all(r["epsilon"] is None for r in rounds)
    console = Console(record=True, width=200)
    conclude(console, tmp_path / "a")
    assert "no differential privacy" in console.export_text()


class Impatient(Silent):
    """Asks to stop after the second round."""

    def begin(self, made: Experiment, skew: dict[str, Any], folder: Path, done: int) -> None:
        self.made = made

    def round(self, record: dict[str, Any]) -> None:
        if record["round"] == 2:
            raise KeyboardInterrupt


def test_a_resumed_run_tells_the_same_story(tmp_path: Path) -> None:
    """Noise, attackers and epsilon depend on the round alone."""
    sections = {
        "method": {**DP, "name": "local_dp"},
        "attack": {"name": "noise", "number": 2, "std": 0.01},
        "participation": {"fraction": 0.5},
    }
    whole, _, _ = finished(tmp_path / "a", **sections)
    folder = tmp_path / "b"
    with pytest.raises(Interrupted):
        start(config(**sections, run={"folder": str(folder), "checkpoint_every": 1}), Impatient())
    resume(folder)
    assert (folder / "rounds.jsonl").read_bytes() == (tmp_path / "a/rounds.jsonl").read_bytes()
    assert whole[-1]["epsilon"] > 0


def test_a_private_run_refuses_nobody_for_being_unusual() -> None:
    """Such a refusal would depend on the data; the bound on lengths takes its place."""
    assert experiment(config(method=DP)).loop.guard.explode == math.inf
    assert experiment(config()).loop.guard.explode == 1000
