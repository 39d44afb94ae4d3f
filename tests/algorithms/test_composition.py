"""Methods fill slots: what goes together, what does not, and how one is told."""

from typing import Any

import pytest
from federations import composed, network_task
from unalike.parts.mixing.aaggff_d import AaggffD
from unalike.parts.mixing.nova import Nova
from unalike.parts.server_optim import ServerAdam

from unalike.algorithms.method import Draft, Method
from unalike.algorithms.table import METHODS
from unalike.errors import ConfigError
from unalike.parts.mixing.examples import Uniform
from unalike.parts.objective import Proximal
from unalike.parts.optim import Adam, Sgd
from unalike.parts.schedule import Phased
from unalike.parts.topology import Clusters, Ring

TASK, DATA = network_task("dense")


def refused(*methods: Any, **parts: Any) -> str:
    """Why a combination is refused, in one sentence."""
    with pytest.raises(ConfigError) as error:
        composed(TASK, DATA, *methods, **parts)
    said = str(error.value)
    assert said.endswith(".")
    assert "\n" not in said
    return said


def test_three_slots_at_once() -> None:
    """Each in its place, in any order."""
    for order in (("fedprox", "fedadam", "aaggff_d"), ("aaggff_d", "fedprox", "fedadam")):
        made = composed(TASK, DATA, *order)
        assert made.algorithm.term == Proximal(0.01)
        assert isinstance(made.algorithm.server_opt, ServerAdam)
        assert made.mixing == AaggffD()


def test_wrappers_take_the_parts_along() -> None:
    """Phase-shift around FedProx with FedAdam's server; SuPerFed with momentum on it."""
    made = composed(TASK, DATA, ("phase_shift", {"phases": 2}), "fedprox", "fedadam")
    assert isinstance(made.schedule, Phased)
    assert made.algorithm.base.term == Proximal(0.01)
    assert isinstance(made.algorithm.base.server_opt, ServerAdam)
    made = composed(TASK, DATA, "superfed_mm", ("fedavgm", {"momentum": 0.5}))
    assert made.algorithm.base.server_opt == Sgd(1.0, 0.5)


@pytest.mark.parametrize(
    ("one", "two", "slot"),
    [
        ("fedadam", "fedyogi", "server"),
        ("fedep", "aaggff_d", "weights"),
        ("scaffold", "superfed_mm", "algorithm"),
        ("lg_fedavg", "local_only", "private"),
    ],
)
def test_one_slot_is_filled_once(one: str, two: str, slot: str) -> None:
    """Both names and the slot are in the message."""
    said = refused(one, two)
    assert f"'{one}'" in said
    assert f"'{two}'" in said
    assert slot in said


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("scaffold", "fedprox"),
        ("scaffold", "fedadam"),
        ("scaffold", "lg_fedavg"),
        ("superfed_mm", "lg_fedavg"),
        ("superfed_mm", "phase_shift"),
        ("phase_shift", "lg_fedavg"),
        ("fednova", "scaffold"),
        ("fednova", "fedevg"),
        ("fednova", "phase_shift"),
        ("fedevg", "fedadam"),
        ("local_only", "fedprox"),
        ("pooled", "fedprox"),
        ("fedevg", "aaggff_d"),
    ],
)
def test_what_cannot_live_together_is_refused_in_either_order(one: str, two: str) -> None:
    """Whoever is named first."""
    for pair in ((one, two), (two, one)):
        refused(*pair)


@pytest.mark.parametrize("name", ["scaffold", "phase_shift", "fedevg", "local_only", "pooled"])
@pytest.mark.parametrize("topology", [Ring(), Clusters(2)])
def test_star_only(name: str, topology: Any) -> None:
    """The message names the topologies that work."""
    assert "it works on" in refused(name, topology=topology)


@pytest.mark.parametrize("name", ["fednova", "aaggff_d", "qfedavg", "fedmgda"])
def test_weights_for_updates_do_not_weigh_models(name: str) -> None:
    """Neighbours exchange models, which such weights would not average."""
    assert "star" in refused(name, topology=Ring())


def test_optimizers_that_a_method_was_not_made_for() -> None:
    """FedNova knows SGD's normaliser, SCAFFOLD is derived for plain SGD."""
    assert "local.optimizer = 'sgd'" in refused("fednova", opt=Adam(0.1))
    assert "local.momentum = 0" in refused("scaffold", opt=Sgd(0.1, 0.9))
    assert "local.momentum = 0" in refused("scaffold", opt=Adam(0.1))


def test_fednova_learns_the_momentum() -> None:
    """From the local optimizer, not from a setting of its own."""
    assert composed(TASK, DATA, "fednova", opt=Sgd(0.1, 0.7)).mixing == Nova(0.7)
    nesterov = composed(TASK, DATA, "fednova", opt=Sgd(0.1, 0.7, nesterov=True)).mixing
    assert nesterov == Nova(0.7, nesterov=True)
    steps = composed(TASK, DATA, ("fednova", {"effective": "steps"})).mixing
    assert steps == Nova(0.0, "steps")


def test_scaffold_learns_rate_and_decay() -> None:
    """From the local optimizer."""
    made = composed(TASK, DATA, "scaffold", opt=Sgd(0.2, weight_decay=0.01)).algorithm
    assert (made.lr, made.weight_decay, made.n_clients) == (0.2, 0.01, 6)


def test_plain_mean_of_lg_fedavg() -> None:
    """The authors' code instead of the text."""
    assert composed(TASK, DATA, ("lg_fedavg", {"weights": "uniform"})).mixing == Uniform()


def test_pooled_has_one_client() -> None:
    """Whatever the participation was."""
    draft = Draft(TASK, 6, 3, (16,), 4)
    made = METHODS["pooled"]().change(draft)
    assert made.n_clients == 1
    assert made.pooled


@pytest.mark.parametrize("name", METHODS)
def test_every_method_explains_itself(name: str) -> None:
    """One line for the list, a description for every setting, a frozen record."""
    cls = METHODS[name]
    assert issubclass(cls, Method)
    line = (cls.__doc__ or "").strip().splitlines()[0]
    assert line.endswith(".")
    assert 20 < len(line) < 100
    for field in cls.model_fields.values():
        assert field.description
