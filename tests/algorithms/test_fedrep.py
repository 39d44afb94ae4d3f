"""FedRep beside the algorithm on plain numbers; all head is training alone, no head FedAvg."""

from typing import Any

import pytest
from federations import (
    Named,
    Played,
    Product,
    at,
    composed,
    distance,
    network_task,
    play,
    same,
    sampled,
    scalars,
)

from unalike.algorithms.fedavg import Apart, FedAvg
from unalike.errors import ConfigError
from unalike.parts.mixing.examples import Uniform
from unalike.parts.optim import Sgd
from unalike.parts.participation.schedule import Participation, Sampled
from unalike.parts.representation.private import EVERYTHING, SHARED, Private
from unalike.recipe import Recipe

TARGETS, SIZES = [2.0, 6.0, -1.0], [1, 2, 3]


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("body", [None, 1])
def test_head_then_body_on_plain_numbers(body: int | None, momentum: float) -> None:
    """L = 1/2 (g f - y)^2 with g private: three epochs of single examples, momentum afresh."""
    task = Product(names=("f", "g"))
    algorithm = FedAvg(task, Sgd(0.02, momentum), private=Private(("g",)), apart=Apart(body))
    recipe = Recipe(algorithm, schedule=Sampled(Participation(), 3.0))
    data = scalars([[1.0, y] for y in TARGETS], SIZES)
    played = play(recipe, data, 3, at(f=1.0, g=0.5), batch_size=1)
    f, own = 1.0, [0.5] * 3
    for t in range(3):
        ends = []
        for k, (y, n) in enumerate(zip(TARGETS, SIZES, strict=True)):
            g, w, m = own[k], f, 0.0
            for _ in range(3 * n):
                m = momentum * m + (g * w - y) * w
                g -= 0.02 * m
            m = 0.0
            for _ in range((body or 3) * n):
                m = momentum * m + (g * w - y) * g
                w -= 0.02 * m
            own[k] = g
            ends.append(n / 6 * w)
        f = sum(ends)
        assert played.trace("f")[t] == pytest.approx(f, abs=1e-6)
        assert [float(played.kept[t][k]["g"]) for k in range(3)] == pytest.approx(own, abs=1e-6)
    steps = played.rounds[0].worked["gradients"]
    assert steps == 6 * 3 + 6 * (body or 3)


def run(*methods: Named, **parts: Any) -> Played:
    task, data = network_task("conv")
    recipe = composed(task, data, *methods, **{**sampled(0.5, 1.5), **parts})
    return play(recipe, data, 3, engine="sequential", batch_size=16, traced=False)


def ran(algorithm: FedAvg) -> Played:
    _, data = network_task("conv")
    recipe = Recipe(algorithm, schedule=Sampled(Participation(0.5), 1.5))
    return play(recipe, data, 3, engine="sequential", batch_size=16, traced=False)


def test_with_everything_in_the_head_it_is_training_alone() -> None:
    """Bit for bit; and with nothing in it, FedAvg."""
    task, _ = network_task("conv")
    opt = Sgd(0.05, 0.9, 1e-3)
    for private in (EVERYTHING, SHARED):
        one, other = (ran(FedAvg(task, opt, private=private, apart=a)) for a in (Apart(), None))
        assert same(one.states[-1], other.states[-1])
        assert same(one.kept[-1], other.kept[-1])


def test_it_sends_what_fedper_sends_and_is_another_method() -> None:
    rep = run("fedrep")
    assert rep.x.keys() == run("fedper").x.keys()
    assert rep.rounds[0].traffic == run("fedper").rounds[0].traffic
    assert distance(rep.x, run("fedper").x) > 1e-4


def test_steps_are_those_of_what_is_sent() -> None:
    """FedNova divides by them: body epochs, not those of the head."""
    some = run(("fedrep", {"body_epochs": 1}), "fednova")
    plain = run(("fedrep", {"body_epochs": 1}))
    assert distance(some.x, plain.x) > 1e-6
    _, data = network_task("conv")
    whole = [-(-len(data.rows.of(int(i))) // 16) for i in some.rounds[0].ids]
    weights = some.rounds[0].weights.double()
    sizes = [len(data.rows.of(int(i))) for i in some.rounds[0].ids]
    share = [n / sum(sizes) for n in sizes]
    effective = sum(p * s for p, s in zip(share, whole, strict=True))
    want = [p * effective / s for p, s in zip(share, whole, strict=True)]
    assert weights.tolist() == pytest.approx(want, abs=1e-6)


def test_momentum_goes_on_beside_phase_shift() -> None:
    """Each part keeps its own."""
    task, data = network_task("conv")
    recipe = composed(task, data, "fedrep", "phase_shift", opt=Sgd(0.05, 0.9))
    kept = play(recipe, data, 2).kept[-1][0].base
    assert [set(m) for m in kept.opt] == [
        {"6.weight", "6.bias"},
        {"0.weight", "0.bias", "1.weight", "1.bias"},
    ]


def test_a_plain_mean() -> None:
    task, data = network_task("conv")
    assert composed(task, data, ("fedrep", {"averaging": "uniform"})).mixing == Uniform()


def test_the_body_cannot_train_longer_than_the_round() -> None:
    task, data = network_task("conv")
    with pytest.raises(ConfigError, match=r"local\.epochs is 1"):
        composed(task, data, ("fedrep", {"body_epochs": 2}), epochs=1.0)
