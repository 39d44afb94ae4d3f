"""FedAvg against itself on real digits: under the same seeds, and under independent ones."""

import numpy as np
import pytest
from comparisons import run_here

from unalike.compare.execution import folder as place
from unalike.compare.specification.spec import comparison
from unalike.compare.statistics.known import ALPHA
from unalike.compare.statistics.paired import paired
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.folder.records import read_json, read_lines

COMPARISONS = 100
TINY = {
    "rounds": 3,
    "partition": {"name": "iid", "clients": 5},
    "model": {"name": "logistic"},
    "local": {"lr": 0.2, "batch_size": 64},
    "engine": {"workers": 1},
}


def findings(seed, folder):
    """What a comparison says that names FedAvg twice, from three seeds on: anything but equal."""
    twice = ["fedavg", {"name": "fedavg", "label": "again"}]
    made = comparison({**TINY, "seed": seed, "compare": {"methods": twice, "seeds": 3}})
    run_here(place.create(made, folder, ""), folder)
    values = [r["value"] for r in read_lines(folder / "results.jsonl")]
    assert len(set(values)) > 1  # seeds differ, although methods do not
    said = read_json(folder / "statistics.json")
    (again,) = (line for line in said["lines"] if line["label"] == "again")
    versus = again["versus"]
    same = (versus["mean"], versus["p_corrected"], again["outcome"]) == (0.0, 1.0, "equal")
    winner = any(v["clear"] for v in said["verdicts"]) or any(
        line["best"] for line in said["lines"]
    )
    return [] if same and not winner else [again]


def test_a_comparison_that_names_a_method_twice_finds_nothing(tmp_path):
    assert findings(0, tmp_path) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_comparisons_that_name_a_method_twice_find_nothing(tmp_path):
    assert [f for i in range(COMPARISONS) for f in findings(3 * i, tmp_path / str(i))] == []


def accuracy(seed: int) -> float:
    """Mean local test accuracy of a short run."""
    made = experiment(parse({**TINY, "seed": seed}))
    state = made.loop.begin(made.w)
    for t in range(made.config.rounds):
        state, _ = made.loop.advance(state, t)
    return made.evaluator(state).spread["local"]["accuracy"]["mean"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("test", ["hall", "t"])
def test_fedavg_does_not_differ_from_itself_under_other_seeds(test, runs):
    """One hundred comparisons of five seeds: at least 94 find nothing."""
    found = sum(paired(a, b, test).p < ALPHA for a, b in runs)
    assert COMPARISONS - found >= 94


@pytest.fixture(scope="module")
def runs():
    """A thousand runs: comparison x side x seed."""
    n = COMPARISONS * 5
    return np.array([accuracy(seed) for seed in range(2 * n)]).reshape(COMPARISONS, 2, 5)
