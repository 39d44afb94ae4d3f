"""LG-FedAvg: y^ = g f_k x with a private f_k and a shared g, and what travels."""

import pytest
import torch
from federations import Data, composed, federation, network_task, play, state_of
from private_factor import PRIVATE_F, traced

from unalike import rng, tree
from unalike.errors import ConfigError
from unalike.federation.data import Examples
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.mixing.examples import Uniform
from unalike.recipe import Recipe
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.tasks import MultiClass


def test_joint_steps_for_three_rounds() -> None:
    """All gradients at the same point; g by sizes 1 : 3."""
    expected = [
        (1.075, 1.9, 0.2375),
        (1.116436, 1.865533, 0.077585),
        (1.131281, 1.856651, -0.029176),
    ]
    for got, want in zip(traced(Recipe(PRIVATE_F), 3), expected, strict=True):
        assert got == pytest.approx(want, abs=1e-6)


def test_plain_mean_of_the_copies() -> None:
    """The copies of g are 0.65 and 0.1 after one round."""
    *_, g = traced(Recipe(PRIVATE_F, Uniform()), 1)[0]
    assert g == pytest.approx((0.65 + 0.1) / 2, abs=1e-6)


def test_an_unselected_client_keeps_its_own_part() -> None:
    """And is judged by the new shared part with it."""
    task, data = network_task("dense")
    from unalike.parts.schedule import Participation

    recipe = composed(task, data, "lg_fedavg", participation=Participation(number=2))
    played = play(recipe, data, 1)
    absent = next(i for i in range(6) if i not in played.rounds[0].ids.tolist())
    down = tree.row(played.loop.downs(played.states[-1]), 0)
    judged = recipe.algorithm.personal(down, state_of(played.simulation, absent))
    start = task.init(rng.key(7))
    assert judged is not None
    for name, leaf in judged.items():
        shared = name.startswith("classifier.")
        assert torch.equal(leaf, (played.x if shared else start)[name])
        assert torch.equal(leaf, start[name]) == (not shared)


@pytest.mark.parametrize("shared", ["head", "body"])
def test_only_the_shared_part_travels(shared: str) -> None:
    """Bytes each way are the shared leaves' and two numbers per answer."""
    task, data = network_task("conv")
    recipe = composed(task, data, ("lg_fedavg", {"shared": shared}))
    played = play(recipe, data, 1)
    head = {n for n in played.loop.begin(task.init(rng.key(7))).servers[0].x}
    assert all(n.startswith("6.") == (shared == "head") for n in head)
    size = tree.size_bytes({n: task.init(rng.key(7))[n] for n in head})
    assert played.rounds[0].traffic.down == 6 * size
    assert played.rounds[0].traffic.up == 6 * (size + 8)
    assert recipe.algorithm.model(played.server, rng.key(0)) is None


def parameters(model: str, shape: tuple[int, ...], prefixes: list[str]) -> tuple[int, int]:
    """(all parameters, those that travel) of a published network."""
    task = MultiClass(Network(MODELS[model]().build(shape, 10)))
    x = torch.zeros(2, *shape)
    data = Data(Examples(x, torch.tensor([0, 1]), 10), federation(sizes=(1, 1)).rows)
    recipe = composed(task, data, ("lg_fedavg", {"shared": prefixes}))
    down = recipe.algorithm.broadcast(
        recipe.algorithm.server_init(task.network.given(), rng.key(0))
    )
    return tree.size_bytes(task.network.given()) // 4, tree.size_bytes(down) // 4


def test_published_communication_mnist() -> None:
    """400 FedAvg and 50 LG rounds; 110 messages a round, or 20 in the second part."""
    whole, shared = parameters("lg_mlp", (1, 28, 28), ["classifier."])
    assert (whole, shared) == (633_226, 99_978)
    assert 110 * (400 * whole + 50 * shared) == pytest.approx(2.841182e10, rel=1e-6)
    assert 110 * 400 * whole + 20 * 50 * shared == pytest.approx(2.796192e10, rel=1e-6)
    _, two = parameters("lg_mlp", (1, 28, 28), ["classifier.2.", "classifier.4."])
    assert 110 * (400 * whole + 50 * two) == pytest.approx(2.804997e10, rel=1e-6)


def test_published_communication_cifar() -> None:
    """1200 FedAvg and 60 LG rounds; the published code shares the convolutions."""
    whole, convolutions = parameters("lg_cnn", (3, 32, 32), ["features."])
    assert (whole, convolutions) == (64_102, 2_872)
    assert 110 * (1200 * whole + 60 * convolutions) == pytest.approx(8.480419e9, rel=1e-6)
    _, linear = parameters("lg_cnn", (3, 32, 32), ["classifier.2.", "classifier.4."])
    assert 110 * 1200 * whole + 20 * 60 * linear == pytest.approx(8.477196e9, rel=1e-6)


def test_an_unknown_prefix_is_refused() -> None:
    """With the layers there are."""
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=r"method\.shared names 'heads\.', but no layer"):
        composed(task, data, ("lg_fedavg", {"shared": ["heads."]}))


@pytest.mark.parametrize("shared", [[], ["1.running_mean", "1.running_var"]])
def test_a_cut_that_shares_no_weights_is_refused(shared: list[str]) -> None:
    """It would be local training under another name, beside methods that then do nothing."""
    task, data = network_task("conv")
    with pytest.raises(
        ConfigError, match=r"shares no weights; change method\.shared or use 'local_only'"
    ):
        composed(task, data, ("lg_fedavg", {"shared": shared}), "fedadam")
    with pytest.raises(ConfigError, match="shares no weights"):
        composed(task, data, ("lg_fedavg", {"shared": ["1."]}), "fedbn")


def test_a_model_without_a_head_is_refused() -> None:
    """With what to write instead."""
    task = MultiClass(Network(torch.nn.Linear(2, 2)))
    with pytest.raises(ConfigError, match="needs to know the model's head"):
        composed(task, federation((2,)), "lg_fedavg")


@pytest.mark.parametrize("turn", [1, -1])
def test_two_rules_for_the_weights_are_refused(turn: int) -> None:
    """In either order, instead of dropping one of them."""
    task, data = network_task("dense")
    both = ("feddisco", ("lg_fedavg", {"weights": "uniform"}))[::turn]
    with pytest.raises(ConfigError, match="another method sets the weights; leave weights out"):
        composed(task, data, *both)
    composed(task, data, *("feddisco", "lg_fedavg")[::turn])
    assert isinstance(composed(task, data, both[::turn][1]).mixing, Uniform)


def test_a_model_without_a_body_is_refused() -> None:
    """It would be FedAvg under another name, or with the body shared, local training."""
    for shared in ("head", "body"):
        raw = {"model": "logistic", "method": {"name": "lg_fedavg", "shared": shared}}
        with pytest.raises(ConfigError, match="is all head; choose a model with hidden layers"):
            experiment(parse(raw))
