"""New clients after some local steps: against steps taken by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from federations import keep
from torch import Tensor
from unit_vectors import EYE, SWAP, Two, built, federation, linear

import unalike
from unalike import tree
from unalike.engine.evaluation.newcomers import passes
from unalike.errors import ConfigError
from unalike.federation.build import federate
from unalike.federation.data import ADAPT, TEST, TRAIN
from unalike.federation.datasets.digits import Digits
from unalike.federation.partition.dirichlet import Dirichlet
from unalike.federation.shift.label_noise import LabelNoise
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.experiment.live import Experiment
from unalike.run.rounds import rounds

ROWS = [
    *[(k, TRAIN, c, c) for k in range(2) for c in range(3)],
    *[(k, TEST, c, c) for k in range(2) for c in range(3)],
    *[(2, ADAPT, 0, 1), (2, ADAPT, 1, 0)],  # a new client with two classes the other way round
    *[(2, TEST, 0, 1), (2, TEST, 1, 0)],
]


def made(steps: list[int], module: Any = None, **settings: Any) -> Experiment:
    return built(
        federation(ROWS, n=2, new=1),
        linear(0.1 * EYE) if module is None else module,
        evaluation={"new_client_steps": steps},
        local={"lr": 1.0, "batch_size": 2},
        **settings,
    )


def descended(weight: Tensor, steps: int) -> Tensor:
    """Gradient descent of rate 1 on the cross-entropy of the new client's two rows."""
    w, x, y = weight.clone(), EYE[[0, 1]], torch.tensor([1, 0])
    for _ in range(steps):
        residual = (x @ w.T).softmax(1) - EYE[y]
        w = w - residual.T @ x / 2
    return w


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_steps_by_hand(method: str) -> None:
    run = made([1, 4], method=method)
    found = run.evaluator(run.loop.begin(run.w))
    x, y = EYE[[0, 1]], torch.tensor([1, 0])
    for k, got in zip((0, 1, 4), found.steps["loss"], strict=True):
        out = x @ descended(0.1 * EYE, k).T
        want = torch.nn.functional.cross_entropy(out, y)
        assert got == pytest.approx(float(want), rel=1e-5)
    assert found.steps["steps"] == [0, 1, 4]
    assert found.clients["new"]["accuracy"] == [0.0]
    assert found.clients["adapted"]["accuracy"] == [1.0]


def test_it_is_not_only_the_shared_part_that_learns() -> None:
    """LG-FedAvg's newcomer starts with the mean of the others' bodies and trains it, too."""
    run = made([5], Two(), method="lg_fedavg")
    keep(run.simulation, {0: {"body.weight": 2 * EYE}, 1: {"body.weight": 0 * EYE}})
    down = run.recipe.algorithm.broadcast(run.loop.begin(run.w).servers[0])
    mean = run.simulation.mean_weights(tree.map(lambda x: x[None], down))
    assert torch.equal(mean["body.weight"], EYE)
    found = run.evaluator(run.loop.begin(run.w))
    assert found.steps["accuracy"] == [0.0, 1.0]


@pytest.mark.parametrize(
    "settings",
    [
        {"method": {"name": "superfed_mm", "start": 0.0}},
        {"method": {"name": "phase_shift", "phases": 2}},
        {"method": "local_only"},
        {"method": "fedprox", "plus": ["local_dp"]},
        {"topology": "ring"},
    ],
    ids=str,
)
def test_any_method_has_the_curve(settings: dict[str, Any]) -> None:
    """Also where downloads are nested, noise would be sent, or there are many servers."""
    raw = {
        "data": "digits",
        "partition": {"name": "iid", "clients": 6},
        "split": {"new_clients": 2},
        "rounds": 1,
        "evaluation": {"new_client_steps": [30]},
        **settings,
    }
    run = experiment(parse({k: {"name": v} if k in ("data",) else v for k, v in raw.items()}))
    *_, last = rounds(run)
    loss = last.clients["steps"]["loss"]  # type: ignore[index]
    assert loss[1] < loss[0] - 0.05


def test_a_method_without_models_has_none() -> None:
    raw = {
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 4},
        "split": {"new_clients": 1},
        "rounds": 1,
        "method": {"name": "fedevg", "per_class": 1, "judge_epochs": 1},
        "evaluation": {"new_client_steps": [2]},
    }
    *_, last = rounds(experiment(parse(raw)))
    assert "steps" not in last.clients  # type: ignore[operator]


def test_new_clients_keep_rows_to_learn_from_only_if_asked() -> None:
    """The same clients, the same test rows among all of theirs; training rows are others'."""
    data, dealt = Digits(), Dirichlet(clients=8, alpha=0.5)
    plain, asked = (federate(data, dealt, new_clients=2, adapt=adapt) for adapt in (False, True))
    assert np.array_equal(plain.owner, asked.owner)
    assert not plain.sizes(ADAPT).any()
    assert np.array_equal(plain.sizes(TRAIN), asked.sizes(TRAIN))
    assert not asked.sizes(TRAIN)[6:].any()
    assert not asked.sizes(ADAPT)[:6].any()
    assert np.array_equal(plain.counts, asked.counts)
    both = asked.sizes(TEST)[6:] + asked.sizes(ADAPT)[6:]
    assert np.array_equal(both, plain.sizes(TEST)[6:])
    assert (asked.sizes(ADAPT)[6:] > asked.sizes(TEST)[6:]).all()
    noisy = LabelNoise(ratio=1.0).apply(asked, np.random.default_rng(0))
    wrong = (noisy.examples.y != asked.examples.y).numpy()
    assert wrong[asked.part == ADAPT].all()
    assert not wrong[asked.part == TEST].any()


def test_passes() -> None:
    """A step is a minibatch, also where an epoch ends in a short one."""
    assert passes(3, 10, 4) == 1.0
    assert passes(7, 10, 4) == 2.4
    assert passes(2, 3, 8) == 2.0


def test_steps_must_grow() -> None:
    with pytest.raises(ConfigError, match="growing"):
        parse({"evaluation": {"new_client_steps": [5, 1]}})


def test_steps_of_nobody_are_refused() -> None:
    """Without new clients, or without rows for them, nothing would be measured."""
    asked: dict[str, Any] = {"rounds": 1, "evaluation": {"new_client_steps": [2]}}
    with pytest.raises(ConfigError, match="no client is held out"):
        experiment(parse({"data": {"name": "digits"}, **asked}))
    plain = unalike.federate("digits", "iid", new_clients=2)
    with pytest.raises(ConfigError, match="adapt = True"):
        unalike.train(plain, "logistic", **asked)
    keeping = unalike.federate("digits", "iid", new_clients=2, adapt=True)
    assert "adapted" in unalike.train(keeping, "logistic", **asked).summary["last"]


def test_the_swap_is_learned() -> None:
    assert torch.equal(descended(0.1 * EYE, 50).argmax(1), SWAP.argmax(1))
