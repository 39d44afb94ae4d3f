"""Per-FedAvg by hand on 1/4 (w - x)^4, whose Hessian is 3 (w - x)^2, and at alpha = 0."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from federations import (
    Handmade,
    Named,
    Quadratic,
    at,
    composed,
    drafted,
    network_task,
    play,
    same,
    sampled,
    scalars,
    state_of,
    walk,
)
from torch import Tensor

from unalike import rng
from unalike.algorithm import Ctx
from unalike.algorithms.fedavg import Down, FedAvg, Up
from unalike.algorithms.per_fedavg import WHOLE, Meta, PerFedAvg
from unalike.batches import Batch, Batches
from unalike.errors import ConfigError
from unalike.parts.descent import Descent, Given, Loss, Step, begin
from unalike.parts.optim import Sgd
from unalike.parts.participation.schedule import Participation, Sampled
from unalike.recipe import Recipe
from unalike.tree import Params, sub


class Quartic(Handmade):
    """1/4 (w - x)^4."""

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        return 0.25 * (w["w"] - batch.x) ** 4


def row(x: float) -> Batch:
    real = torch.ones(1, dtype=torch.bool)
    return Batch(torch.tensor([x], dtype=torch.float64), torch.zeros(1), real, rng.key(0))


@pytest.mark.parametrize("same_for_all", [False, True])
@pytest.mark.parametrize("kind", ["first_order", "hessian_free"])
def test_one_step(kind: Any, same_for_all: bool) -> None:
    """From w = 1: D at 0, D' at 2, D'' at -1, or all at 0; alpha = 0.1, beta = 0.5."""
    d = [0.0, 0.0, 0.0] if same_for_all else [0.0, 2.0, -1.0]
    u = 1 - 0.1 * (1 - d[0]) ** 3
    g = (u - d[1]) ** 3
    if kind == "hessian_free":
        g *= 1 - 0.1 * 3 * (1 - d[2]) ** 2
    batch: Any = tuple(map(row, d)) if not same_for_all else row(0.0)
    meta = Meta(Quartic(), Sgd(0.5), 0.1, kind, 1e-4)
    first = Descent(at(w=1.0), {}, begin(Sgd(0.5), at(w=1.0)))
    end = meta(first, batch, Given(torch.tensor(1.0), (), ()))
    assert float(end.theta["w"]) == pytest.approx(1 - 0.5 * g, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "batches", "factor"), [("first_order", 2, 1), ("hessian_free", 3, 2)]
)
def test_whole_rounds_on_parabolas(kind: Any, batches: int, factor: int) -> None:
    """All rows of a client are one number, so a step is (1 - beta (1 - alpha)^1 or 2) of the way.

    n examples and two epochs are 2 n // batches steps, at least one.
    """
    minima, sizes = [0.0, 10.0, -4.0], [1, 2, 4]
    algorithm = PerFedAvg(FedAvg(Quadratic(), Sgd(0.2)), 0.3, kind)
    recipe = Recipe(algorithm, schedule=Sampled(Participation(), 2.0))
    played = play(recipe, scalars(minima, sizes), 3, at(w=4.0), batch_size=1)
    x, trace = 4.0, []
    for _ in range(3):
        ends = []
        for m, n in zip(minima, sizes, strict=True):
            left = (1 - 0.2 * 0.7**factor) ** max(2 * n // batches, 1)
            ends.append(n / 7 * (m + (x - m) * left))
        x = sum(ends)
        trace.append(x)
    assert played.trace() == pytest.approx(trace, abs=1e-5)
    steps = sum(max(2 * n // batches, 1) for n in sizes)
    passes = {"first_order": 2, "hessian_free": 4}[kind]
    assert played.rounds[0].worked["gradients"] == pytest.approx(steps * passes)


@dataclass(frozen=True)
class Later(FedAvg):
    """FedAvg on every second, or every third, second minibatch."""

    batches: int = 2

    def client(
        self, down: Down, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> Any:
        w, buffers = self.task.split(down.x)
        step = Step(Loss(self.task), self.opt)

        def second(at: Descent, batch: Any, given: Given) -> Descent:
            return step(at, batch[1], given)

        first = Descent(w, buffers, begin(self.opt, w))
        given = Given(ctx.rate, (), ())
        end = data.fold(second, first, given, batches=self.batches)
        return Up(sub({**end.theta, **end.buffers}, down.x)), {}, {}


@pytest.mark.parametrize("opt", [Sgd(0.05), Sgd(0.05, 0.9, 1e-3)])
@pytest.mark.parametrize(("kind", "batches"), [("first_order", 2), ("hessian_free", 3)])
def test_without_a_step_ahead_it_is_fedavg_on_the_second_minibatches(
    kind: Any, batches: int, opt: Sgd
) -> None:
    """Bit for bit, running statistics and dropout too."""
    task, data = network_task("conv")
    schedule = Sampled(Participation(0.5), 2.5)
    one, other = (
        play(Recipe(a, schedule=schedule), data, 3, engine="sequential", batch_size=4, traced=False)
        for a in (PerFedAvg(FedAvg(task, opt), 0.0, kind), Later(task, opt, batches=batches))
    )
    assert same(one.server, other.server)


def test_with_one_minibatch_for_all_and_no_step_ahead_it_is_fedavg() -> None:
    """Bit for bit."""
    task, data = network_task("conv")
    settings = {"alpha": 0.0, "gradients": "first_order", "minibatches": "same", "adapt": 0}
    one, other = (
        play(composed(task, data, m, **sampled(0.5, 1.5)), data, engine="sequential", traced=False)
        for m in (("per_fedavg", settings), "fedavg")
    )
    assert same(one.server, other.server)


def test_the_last_round_is_a_whole_step_of_everybody() -> None:
    """w - alpha (w - m_k) from the shared model, which stays; only once it is sent to all."""
    data = scalars([0.0, 10.0, -4.0], [1, 2, 4])
    draft = drafted(Quadratic(), data, ("per_fedavg", {"alpha": 0.3}), rounds=3, opt=Sgd(0.2, 0.9))
    stages = draft.program()
    assert [(s.rounds, s.start) for s in stages] == [(2, "fresh"), (1, "model")]
    assert stages[1].recipe.batch_size == WHOLE
    assert stages[1].recipe.algorithm.opt == Sgd(0.3)
    played = walk(stages, data, None, at(w=4.0), batch_size=100)
    x = played.trace()
    assert x[1] == x[2]
    for k, m in enumerate([0.0, 10.0, -4.0]):
        own = float(state_of(played.simulation, k)["w"])
        assert own == pytest.approx(x[2] - 0.3 * (x[2] - m), abs=1e-6)


def test_no_steps_in_the_end() -> None:
    task, data = network_task("dense")
    bare: Named = ("per_fedavg", {"adapt": 0})
    assert len(drafted(task, data, bare, rounds=1).program()) == 1
    composed(task, data, bare, "ditto")
    composed(task, data, bare, topology="ring")


def test_what_is_refused() -> None:
    task, data = network_task("dense")
    for methods, why in (
        (("per_fedavg", "ditto"), "gives every client its own model"),
        (("per_fedavg", "finetune"), "ends with its own stage|gives every client its own model"),
        (("per_fedavg", "fedprox"), "do not descend on the loss"),
    ):
        with pytest.raises(ConfigError, match=why):
            composed(task, data, *methods)
    with pytest.raises(ConfigError, match="is 1 of 1 rounds"):
        composed(task, data, "per_fedavg", rounds=1)
    with pytest.raises(ConfigError, match="adapt = 0"):
        composed(task, data, "per_fedavg", topology="ring")
