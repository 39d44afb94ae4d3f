"""FedPer: a private head on a shared body, the cut of LG-FedAvg from the other side."""

from typing import Any

import pytest
from federations import (
    Named,
    Played,
    Product,
    at,
    composed,
    federation,
    network_task,
    play,
    same,
    sampled,
    scalars,
)
from torch import nn

from unalike import rng, tree
from unalike.algorithms.fedavg import FedAvg
from unalike.errors import ConfigError
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.private import Private
from unalike.recipe import Recipe
from unalike.tasks import MultiClass


def test_two_rounds_by_hand() -> None:
    """L = 1/2 (g f - y)^2, g private, y = 2 and 6 with 1 and 3 examples, rate 0.1, f = g = 1.

    Round 1: r = -1 and -5, so both grow by 0.1 and by 0.5 (one batch). f = 1 + (0.1 + 3 x 0.5) / 4.
    """
    recipe = Recipe(FedAvg(Product(names=("f", "g")), Sgd(0.1), private=Private(("g",))))
    data = scalars([[1.0, 2.0], [1.0, 6.0]], [1, 3])
    played = play(recipe, data, 2, at(f=1.0, g=1.0))
    assert played.trace("f")[0] == pytest.approx(1.4)
    f, own = 1.4, [1.1, 1.5]
    ends = []
    for k, y in enumerate((2.0, 6.0)):
        r = own[k] * f - y
        ends.append(f - 0.1 * r * own[k])
        own[k] -= 0.1 * r * f
    assert played.trace("f")[1] == pytest.approx((ends[0] + 3 * ends[1]) / 4)
    assert [float(played.kept[1][k]["g"]) for k in (0, 1)] == pytest.approx(own)


def run(*methods: Named, **parts: Any) -> Played:
    task, data = network_task("conv")
    recipe = composed(task, data, *methods, **{**sampled(0.5, 1.5), **parts})
    return play(recipe, data, 3, engine="sequential", batch_size=16, traced=False)


@pytest.mark.parametrize("opt", [Sgd(0.05), Sgd(0.05, 0.9, 1e-3)])
def test_it_is_the_other_cut_of_lg_fedavg(opt: Any) -> None:
    """Bit for bit, what travels and what stays."""
    one, other = run("fedper", opt=opt), run(("lg_fedavg", {"shared": "body"}), opt=opt)
    assert same(one.states[-1], other.states[-1])
    assert same(one.kept[-1], other.kept[-1])
    assert one.rounds[-1].traffic == other.rounds[-1].traffic


def test_only_the_body_travels() -> None:
    """Running statistics are the body's; nobody has a whole model but the clients."""
    played = run("fedper")
    assert not any(k.startswith("6.") for k in played.x)
    assert "1.running_mean" in played.x
    size = tree.size_bytes(played.x)
    assert played.rounds[0].traffic.down == 3 * size
    assert played.rounds[0].traffic.up == 3 * (size + 8)
    assert played.simulation.recipe.algorithm.model(played.server, rng.key(0)) is None


def test_prefixes_of_ones_own() -> None:
    played = run(("fedper", {"personal": ["0.", "6."]}))
    assert set(played.x) == {"1.weight", "1.bias", "1.running_mean", "1.running_var"}


def test_beside_private_running_statistics_in_either_order() -> None:
    one, two = (run(*m) for m in (("fedper", "fedbn"), ("fedbn", "fedper")))
    assert same(one.states[-1], two.states[-1])
    assert set(one.x) == {"0.weight", "0.bias"}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"personal": ["7."]}, "names '7.', but no layer"),
        ({"personal": []}, r"method\.personal of 'fedper' is an empty list, .* or use 'fedavg'"),
        ({"personal": ["0.", "1.", "6."]}, "leaves nothing to share"),
    ],
)
def test_cuts_that_are_none(settings: dict[str, Any], why: str) -> None:
    task, data = network_task("conv")
    with pytest.raises(ConfigError, match=why):
        composed(task, data, ("fedper", settings))


def test_a_model_without_a_head() -> None:
    task = MultiClass(Network(nn.Sequential(nn.Flatten(), nn.Linear(16, 3))))
    with pytest.raises(ConfigError, match="needs to know the model's head"):
        composed(task, federation(), "fedper")


@pytest.mark.parametrize("other", ["feddyn", "superfed_mm", "fedevg"])
def test_clients_that_train_whole_models(other: str) -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match="clients train whole models"):
        composed(task, data, "fedper", other)
