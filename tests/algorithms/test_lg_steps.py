"""LG-FedAvg's step = "sequential": the private part moves first, the shared part from there."""

from dataclasses import replace

import pytest
import torch
from federations import (
    composed,
    dense,
    distance,
    federation,
    network_task,
    play,
    same,
    sampled,
)
from private_factor import PRIVATE_F, traced
from torch import nn
from torch.func import functional_call

from unalike import rng
from unalike.algorithms.fedavg import FedAvg
from unalike.engine.simulation.simulate import Engine
from unalike.parts.optim import Adam, Optimizer, Sgd
from unalike.parts.private import EVERYTHING, SHARED, Private
from unalike.parts.schedule import Sampled
from unalike.recipe import Recipe

IN_TURNS = replace(PRIVATE_F, step="sequential")


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
def test_three_rounds_in_turns(engine: Engine) -> None:
    """f as in the joint step of round 1; g from there: 0.5 + 0.1 x 1.4625 x 1.075 = 0.65721875

    and 0.5 - 0.1 x 1.95 x 1.9 = 0.1295, together by sizes 0.2614296875. The rest in fractions.
    """
    expected = [
        (1.075, 1.9, 0.26142969),
        (1.11993880, 1.86087139, 0.10176700),
        (1.13913233, 1.84876747, -0.00932284),
    ]
    for got, want in zip(traced(Recipe(IN_TURNS), 3, engine), expected, strict=True):
        assert got == pytest.approx(want, abs=1e-8)


def test_joint_steps_are_other_numbers() -> None:
    """All gradients at the same point: 0.65 and 0.1 instead of 0.65721875 and 0.1295."""
    joint = replace(IN_TURNS, step="joint")
    expected = [(1.075, 1.9, 0.2375), (1.116436, 1.865533, 0.077585)]
    for got, want in zip(traced(Recipe(joint), 2), expected, strict=True):
        assert got == pytest.approx(want, abs=1e-6)


def test_each_part_has_its_own_momentum() -> None:
    """Three steps of a round by a loop on plain numbers."""
    heavy = Recipe(replace(IN_TURNS, opt=Sgd(0.1, 0.9)), schedule=Sampled(epochs=3.0))
    want = (1.444144276, 1.708438817, -0.404128607)
    assert traced(heavy, 1)[0] == pytest.approx(want, abs=1e-7)


@pytest.mark.parametrize("private", [SHARED, EVERYTHING])
def test_with_one_part_it_is_the_joint_step(private: Private) -> None:
    """There is nobody to wait for."""
    task, data = network_task("conv")
    one, two = (
        play(Recipe(FedAvg(task, Sgd(0.05, 0.9), private=private, step=step)), data, 2)  # type: ignore[arg-type]
        for step in ("joint", "sequential")
    )
    assert same(one.states[-1], two.states[-1])
    assert same(one.kept[-1], two.kept[-1])


@pytest.mark.parametrize("opt", [Sgd(0.05, 0.9, 1e-3), Adam(0.01)])
def test_two_optimizers_of_pytorch(opt: Optimizer) -> None:
    """A forward and backward pass for the body, another one for the head."""
    task, _ = network_task("dense", torch.float64)
    data = federation(sizes=[40], dtype=torch.float64)
    recipe = composed(
        task, data, ("lg_fedavg", {"step": "sequential"}), opt=opt, **sampled(1.0, 4.0)
    )
    played = play(recipe, data, 1, batch_size=64)
    w = {k: nn.Parameter(v.clone()) for k, v in task.init(rng.key(7)).items()}
    body = [v for k, v in w.items() if not k.startswith("classifier.")]
    head = [v for k, v in w.items() if k.startswith("classifier.")]
    assert body
    assert head

    def theirs(part: list[nn.Parameter]) -> torch.optim.Optimizer:
        if isinstance(opt, Adam):
            return torch.optim.Adam(part, 0.01)
        return torch.optim.SGD(part, 0.05, 0.9, weight_decay=1e-3)

    module = dense().double()
    both = [theirs(body), theirs(head)]
    for _ in range(4):
        for one in both:
            for v in w.values():
                v.grad = None
            logits = functional_call(module, w, data.examples.x)
            nn.functional.cross_entropy(logits, data.examples.y).backward()
            one.step()
    ended = {**played.x, **played.kept[-1][0]}
    assert (
        distance({k: v.detach() for k, v in w.items()}, ended) < 1e-7
    )  # the factor of the schedule is in 32 bits


def test_statistics_move_once_per_batch() -> None:
    """By the first forward pass, which is the joint step's."""
    task, data = network_task("conv")
    parts = {"opt": Sgd(0.05), **sampled(1.0)}
    one, two = (
        play(composed(task, data, ("lg_fedavg", {"step": step}), **parts), data, 1, batch_size=64)
        for step in ("joint", "sequential")
    )
    for i in range(data.n_clients):
        for name in task.network.buffers:
            torch.testing.assert_close(one.kept[0][i][name], two.kept[0][i][name])
        assert same(one.kept[0][i], two.kept[0][i])  # the body, too: its gradient is the same
    assert distance(one.x, two.x) > 1e-6
