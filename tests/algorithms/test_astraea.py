"""Astraea: mediators and augmentation by hand, where it is FedAvg, and the same on every engine."""

from typing import Any

import numpy as np
import pytest
import torch
from federations import (
    Data,
    Played,
    Quadratic,
    at,
    composed,
    distance,
    drafted,
    network_task,
    play,
    rows_of,
    same,
    sampled,
    walk,
)
from torch import nn

from unalike.engine.attacks import AttackedTransport, ModelReplacement, Noise, SignFlip
from unalike.engine.faults import Faults, FaultyTransport
from unalike.errors import ConfigError
from unalike.federation.data import Examples
from unalike.network import Network
from unalike.parts.clock import Clock, Rate
from unalike.parts.mediators import mediators, unevenness
from unalike.parts.optim import Sgd
from unalike.parts.topology import Ring
from unalike.parts.transform import GlobalBalance
from unalike.tasks import Regression

PLAIN: dict[str, Any] = {"alpha": 0.0}


def labelled(values: list[float], labels: list[int], sizes: list[int], classes: int = 2) -> Data:
    """Clients all of whose rows are one number, of one class."""
    x = torch.tensor(values, dtype=torch.float64).repeat_interleave(torch.tensor(sizes))
    y = torch.tensor(labels).repeat_interleave(torch.tensor(sizes))
    return Data(Examples(x, y, classes), rows_of(sizes))


def test_unevenness_by_hand() -> None:
    found = unevenness(np.array([[2.0, 2.0], [4.0, 0.0], [3.0, 1.0], [0.0, 0.0]]))
    third = 0.75 * np.log(1.5) + 0.25 * np.log(0.5)
    np.testing.assert_allclose(found, [0, np.log(2), third, 0], atol=1e-12)


def test_mediators_by_hand() -> None:
    """The most even client begins; then whoever evens the sum out; the last mediator may be small.

    (3, 3, 0) begins, KL 0.405; with (0, 0, 4) it is (3, 3, 4), KL 0.006. Then (0, 2, 2), as even as
    the first and later, which comes to (1, 2, 5), KL 0.20, with the last and to (9, 2, 2), KL 0.27,
    with the first.
    """
    counts = np.array([[9, 0, 0], [3, 3, 0], [0, 2, 2], [0, 0, 4], [1, 0, 3]], float)
    assert mediators(counts, 2) == [[1, 3], [2, 4], [0]]
    assert mediators(counts, 1) == [[1], [2], [4], [0], [3]]
    assert [len(group) for group in mediators(counts, 9)] == [5]


ROUND = labelled([1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1], [2, 1, 1, 2])


def test_a_round_by_hand() -> None:
    """Mediators {0, 3} and {1, 2}; w <- w + (v - w) / 2 at each of their clients.

    0 -> 1/2 -> 9/4 with 4 of 6 examples, 0 -> 1 -> 2 with 2 of them: 13/6.
    """
    recipe = composed(
        Quadratic(), ROUND, ("astraea", {"clients": 2, **PLAIN}), opt=Sgd(0.5), rounds=1
    )
    played = play(recipe, ROUND, 1, at(w=0.0), engine="sequential")
    assert float(played.x["w"]) == pytest.approx(13 / 6, abs=1e-15)
    whole = tuple(played.rounds[0].weights.tolist())
    assert whole == pytest.approx((2 / 6, 1 / 6, 1 / 6, 2 / 6))
    # Everybody is sent a model of 8 bytes and sends one with two numbers about himself.
    assert played.rounds[0].traffic.down == 4 * 8
    assert played.rounds[0].traffic.up == 4 * (8 + 2 * 4)


def test_augmentation_by_hand() -> None:
    """8 examples of class 0 and 2 of class 1, mean 5: each of the rare ones counts 2.5 times."""
    full = GlobalBalance(counts=(8, 2))
    labels = np.array([0, 1, 0, 1])
    again = full.repeats(labels, 2, torch.tensor(0))
    assert sorted(labels[again]) == [1, 1, 1]
    assert len(set(again.tolist())) == 2  # every example before any is used twice
    half = GlobalBalance(counts=(8, 2), power=0.5)  # 2 sqrt(2.5) = 3.16
    assert len(half.repeats(labels, 2, torch.tensor(0))) == 1
    assert not len(full.repeats(np.zeros(4, int), 2, torch.tensor(0)))


def test_counts_of_all_clients_reach_everybody() -> None:
    """6 rows of class 0 and 2 of class 1: mean 4, so that the two become four."""
    data = labelled([1.0, 2.0, 3.0], [0, 1, 0], [3, 2, 3])
    program = drafted(Quadratic(), data, ("astraea", {"clients": 2}), rounds=2).program()
    assert [stage.rounds for stage in program] == [1, 2]
    played = walk(program, data, w=at(w=0.0), engine="sequential")
    assert played.simulation.recipe.transform.counts == (6, 2)
    assert played.simulation.lengths.tolist() == [3, 4, 3]
    first, second, third = played.rounds
    assert first.traffic.up == 3 * (2 * 8 + 2 * 4)
    asked = 3 * 2 * 4  # everybody's histogram
    assert second.traffic.down == third.traffic.down + 3 * 2 * 4
    assert second.traffic.up == third.traffic.up + asked
    effect = played.simulation.recipe.transform.effect(np.array([[3, 0], [0, 2], [3, 0]]))
    assert effect["unaltered"] == pytest.approx((1 + 0.5 + 1) / 3, abs=1e-6)


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        ((8.0, 2.0), 4 + 5),
        ((8.0, 0.0), 4 + 4),  # others that have the class were absent: two is what there is
        ((0.0, 0.0), 4 + 2),  # all were
        ((7.0, 1.0), 4 + 4),
    ],
)
def test_there_is_no_less_than_ones_own(said: tuple[float, float], rows: int) -> None:
    """A client with 4 and 2 examples, where the mean is 5, 4 or nothing."""
    labels = np.array([0, 0, 0, 0, 1, 1])
    again = GlobalBalance(counts=said).repeats(labels, 2, torch.tensor(0))
    assert len(labels) + len(again) == rows


ABSENT = Faults(drop=0.5)
LIES = {
    "absent": lambda s: FaultyTransport(s, ABSENT, 1),
    "negative": lambda s: AttackedTransport(s, SignFlip(scale=40.0), torch.tensor([1]), 0),
    "noise": lambda s: AttackedTransport(s, Noise(std=50.0), torch.tensor([1, 2]), 0),
    "boosted": lambda s: AttackedTransport(s, ModelReplacement(scale=90.0), torch.tensor([1]), 0),
}


@pytest.mark.parametrize("lie", LIES)
def test_nobody_repeats_examples_without_end(lie: str) -> None:
    """Whatever is said of classes, at most as many as all examples' mean: here 16 of 4 classes."""
    data = labelled([1.0, 2.0, 3.0, 4.0], [0, 1, 2, 3], [4, 4, 4, 4], classes=4)
    program = drafted(Quadratic(), data, ("astraea", {"clients": 2}), rounds=1).program()
    played = walk(program, data, w=at(w=0.0), around=LIES[lie])
    counts = np.array(played.simulation.recipe.transform.counts)  # type: ignore[union-attr]
    assert (counts >= 0).all()
    assert counts.sum() <= 16 + 2  # rounding
    assert list(counts) != [4, 4, 4, 4], "somebody must be wrong for this to be a test"
    assert max(played.simulation.lengths.tolist()) <= 4 + 1


@pytest.mark.parametrize(("epoch", "steps"), [("whole", [3, 4, 3]), ("equal", [3, 2, 3])])
def test_what_an_epoch_is(epoch: str, steps: list[int]) -> None:
    data = labelled([1.0, 2.0, 3.0], [0, 1, 0], [3, 2, 3])
    method = ("astraea", {"epoch": epoch})
    played = walk(
        drafted(Quadratic(), data, method, rounds=1).program(), data, w=at(w=0.0), batch_size=1
    )
    assert played.rounds[1].stats["steps"].tolist() == steps


def run(*methods: Any, engine: Any = "sequential", rounds: int = 2, **parts: Any) -> Played:
    task, data = network_task("conv", torch.float64)
    options = {"traced": True} if engine == "traced" else {}
    way = "sequential" if engine == "traced" else engine
    program = drafted(task, data, *methods, rounds=rounds, **parts).program()
    return walk(program, data, batch_size=16, engine=way, **options)


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
def test_alone_under_a_mediator_it_is_fedavg(engine: str) -> None:
    """Bit for bit, buffers and ragged clients included."""
    parts = {**sampled(0.5, 1.5), "opt": Sgd(0.05, 0.9), "engine": engine}
    ours = run(("astraea", {"clients": 1, **PLAIN}), **parts)
    assert same(ours.x, run(**parts).x)
    assert not same(ours.x, run(("astraea", {"clients": 2, **PLAIN}), **parts).x)


def test_one_mediator_is_training_in_turn() -> None:
    """Clients 0, 3, 1, 2: 0 -> 1/2 -> 9/4 -> 17/8 -> 41/16, and there is nothing to average."""
    recipe = composed(Quadratic(), ROUND, ("astraea", PLAIN), opt=Sgd(0.5))
    played = play(recipe, ROUND, 1, at(w=0.0))
    assert float(played.x["w"]) == pytest.approx(41 / 16, abs=1e-15)


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("scaffold",),
        pytest.param((("topk", {"share": 0.3}),), marks=pytest.mark.slow),
        pytest.param(("ditto",), marks=pytest.mark.slow),
    ],
)
def test_every_engine(more: tuple[Any, ...]) -> None:
    method = ("astraea", {"clients": 2})
    parts: dict[str, Any] = {} if "scaffold" in more else {"opt": Sgd(0.05, 0.9)}
    one, *others = (
        run(method, *more, engine=e, **sampled(0.7, 1.5), **parts)
        for e in ("sequential", "vectorized", "traced")
    )
    assert all(distance(one.x, other.x) < 1e-12 for other in others)
    assert all(
        distance(a, b) < 1e-12
        for other in others
        for a, b in zip(one.kept[-1].values(), other.kept[-1].values(), strict=True)
    )


def test_a_broken_update_is_not_handed_on() -> None:
    """Whoever trains after a client that answers nonsense begins where the one before it did."""
    task, data = network_task("dense")
    recipe = composed(task, data, ("astraea", {"clients": 3, **PLAIN}))
    played = play(recipe, data, 6, faults=Faults(garbage=0.3, kind="nan"))
    refused = [i for r in played.rounds for i in r.rejected]
    assert refused
    assert all(len(r.rejected) < 6 for r in played.rounds)
    assert all(torch.isfinite(v).all() for v in played.x.values())


def test_a_round_takes_as_long_as_the_slowest_mediator() -> None:
    """2 and 2 examples, 1 and 1, one after the other at one example a second."""
    clock = Clock(Rate(1.0), Rate(1e9), Rate(1e9))
    recipe = composed(Quadratic(), ROUND, ("astraea", {"clients": 2, **PLAIN}), clock=clock)
    played = play(recipe, ROUND, 1, at(w=0.0))
    assert played.rounds[0].seconds == pytest.approx(4.0, abs=0.01)


def test_what_it_refuses() -> None:
    task, data = network_task("dense")
    for other, why in (
        ("median", "one for several clients"),
        ("aaggff_d", "cannot be compared"),
        ("fedaug", "augments the clients' examples"),
        ("finetune", "its own rounds"),
        (("topk", {"direction": "both"}), "mediator's model"),
        ("fedproto", "no model that a mediator"),
    ):
        with pytest.raises(ConfigError, match=why):
            drafted(task, data, "astraea", other)
    with pytest.raises(ConfigError, match="one server must see them"):
        drafted(task, data, "astraea", topology=Ring())
    with pytest.raises(ConfigError, match="balances classes"):
        drafted(Regression(Network(nn.Linear(1, 1))), data, "astraea")
