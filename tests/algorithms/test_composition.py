"""Methods compose as a base and wrappers, and everything that stands in the way is one sentence."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from federations import composed, drafted, network_task

from unalike.algorithm import Algorithm, Wrapper
from unalike.algorithms.aaggff_d import AAggFFD
from unalike.algorithms.buffers import LocalBuffers
from unalike.algorithms.draft import Draft, fedavg
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.fednova import Nova
from unalike.algorithms.fedopt import FedAdam
from unalike.algorithms.fedprox import Proximal
from unalike.algorithms.method import Method, WeightRule, compose
from unalike.algorithms.scaffold import Scaffold
from unalike.algorithms.superfed import SuPerFed
from unalike.algorithms.table import METHODS
from unalike.errors import ConfigError
from unalike.parts.graphs import Random
from unalike.parts.mixing.base import Weighed
from unalike.parts.mixing.examples import ByExamples, Uniform
from unalike.parts.optim import Adam, Sgd
from unalike.parts.participation.schedule import Phased
from unalike.parts.topology import Clusters, Complete, Ring, Rotating

TASK, DATA = network_task("normed")
SOME = ("by_size", "power_of_choice", "fedbuff")  # cannot run with all of six clients
BARE = Draft(TASK, 20, 3, (16,), 4)


def said_by(make: Any) -> str:
    """The one sentence with which something is refused."""
    with pytest.raises(ConfigError) as error:
        make()
    said = str(error.value)
    assert said.endswith(".")
    assert "\n" not in said
    return said


def refused(*methods: Any, **parts: Any) -> str:
    """Why a combination is refused."""
    return said_by(lambda: composed(TASK, DATA, *methods, **parts))


# -- what a draft becomes -----------------------------------------------------------------------


def test_three_slots_at_once() -> None:
    """Each in its place, in any order."""
    for order in (("fedprox", "fedadam", "aaggff_d"), ("aaggff_d", "fedprox", "fedadam")):
        made = composed(TASK, DATA, *order)
        assert made.algorithm.term == Proximal(0.01)
        assert made.algorithm.server_opt == FedAdam()
        assert made.mixing == AAggFFD()


@pytest.mark.parametrize(
    ("method", "base"), [("scaffold", Scaffold), ("superfed_mm", SuPerFed), ("lg_fedavg", FedAvg)]
)
def test_phase_shift_goes_around_any_base(method: str, base: type) -> None:
    """In either order, and with whatever else the base is made of."""
    for order in (("phase_shift", method), (method, "phase_shift")):
        made = composed(TASK, DATA, *order, "fedaug")
        assert isinstance(made.schedule, Phased)
        assert isinstance(made.algorithm.base, base)


def test_wrappers_take_the_parts_along() -> None:
    """Phase-shift around FedProx with FedAdam's server; SuPerFed with momentum on it."""
    made = composed(TASK, DATA, ("phase_shift", {"phases": 2}), "fedprox", "fedadam")
    assert made.algorithm.base.term == Proximal(0.01)
    assert made.algorithm.base.server_opt == FedAdam()
    made = composed(TASK, DATA, "superfed_mm", ("fedavgm", {"momentum": 0.5}))
    assert made.algorithm.base.server_opt == Sgd(1.0, 0.5)


@dataclass(frozen=True)
class Inner(Wrapper):
    base: Algorithm


@dataclass(frozen=True)
class Outer(Wrapper):
    base: Algorithm


def test_wrappers_lie_in_the_order_they_were_named() -> None:
    """The last one is outermost."""
    draft = replace(BARE, wraps=(lambda a, d: Inner(a), lambda a, d: Outer(a)))
    made = draft.algorithm()
    assert isinstance(made, Outer)
    assert isinstance(made.base, Inner)
    assert made.base.base == fedavg(BARE)


def test_one_stage_is_the_rule() -> None:
    (only,) = drafted(TASK, DATA, "fedprox", rounds=7).program()
    assert (only.rounds, only.start) == (7, "fresh")
    assert only.recipe == composed(TASK, DATA, "fedprox", rounds=7)


def test_weights_that_nobody_sets_are_those_of_the_base() -> None:
    """SCAFFOLD's plain mean gives way to a rule, whoever is named first."""
    assert composed(TASK, DATA, "fedavg").mixing == ByExamples()
    assert composed(TASK, DATA, "scaffold").mixing == Uniform()
    assert composed(TASK, DATA, ("scaffold", {"averaging": "size"})).mixing == ByExamples()
    for order in (("scaffold", "feddisco"), ("feddisco", "scaffold")):
        assert composed(TASK, DATA, *order).mixing == composed(TASK, DATA, "feddisco").mixing
    assert composed(TASK, DATA, ("lg_fedavg", {"weights": "uniform"})).mixing == Uniform()


def test_fednova_learns_how_clients_step() -> None:
    """From the local optimizer and the proximal term, not from settings of its own."""
    opt = Sgd(0.1, 0.7, nesterov=True)
    made = composed(TASK, DATA, "fednova", ("fedprox", {"mu": 0.3}), opt=opt).mixing
    assert isinstance(made, Nova)
    assert (made.opt, made.pull) == (opt, 0.3)


def test_scaffold_learns_rate_and_decay() -> None:
    """From the local optimizer."""
    made = composed(TASK, DATA, "scaffold", opt=Sgd(0.2, weight_decay=0.01)).algorithm
    assert (made.opt, made.n_clients) == (Sgd(0.2, weight_decay=0.01), 6)


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two", "slot"),
    [
        ("fedadam", "fedyogi", "server"),
        ("fedep", "aaggff_d", "weights"),
        ("scaffold", "superfed_mm", "algorithm, each with its own way of training clients"),
        ("lg_fedavg", "local_only", "layers that stay on the client"),
    ],
)
def test_one_slot_is_filled_once(one: str, two: str, slot: str) -> None:
    assert refused(one, two) == (
        f"methods '{one}' and '{two}' both set the {slot}; keep one of them."
    )


REASONS = {
    ("scaffold", "fedprox"): "a pull would change that path",
    ("feddyn", "fedadam"): "step of FedAvg's server",
    ("scaffold", "afl"): "change from round to round",
    ("scaffold", "median"): "mean of the clients' own",
    ("scaffold", "local_dp"): "mean of the clients' own",
    ("superfed_mm", "lg_fedavg"): "clients train whole models",
    ("superfed_mm", "fedprox"): "already has such a pull",
    ("fedproto", "fedprox"): "no model to stay near",
    ("per_fedavg", "fedprox"): "do not descend on the loss",
    ("fednova", "scaffold"): "knows how far FedAvg's local steps go",
    ("fednova", "superfed_mm"): "knows how far FedAvg's local steps go",
    ("feddyn", "phase_shift"): "every change of a client's penalty",
    ("fednova", "qfedavg"): "include a step length",
    ("fednova", "krum"): "as they were sent",
    ("fedevg", "fedadam"): "step of FedAvg's server",
    ("fedevg", "aaggff_d"): "no model whose loss",
    ("fedevg", "phase_shift"): "no model whose drift",
    ("fedevg", "propfair_loss"): "only part of what its clients minimise",
    ("local_only", "fedprox"): "trains alone",
    ("local_only", "phase_shift"): "trains alone",
    ("local_only", "dp"): "trains alone",
    ("pooled", "fedprox"): "in one place",
    ("pooled", "lg_fedavg"): "in one place",
    ("dp", "feddisco"): "all clients count the same",
    ("dp", "phase_shift"): "uniform samples",
    ("krum", "fedep"): "all clients count the same",
    ("fedmgda", "fedyogi"): "may raise a client's loss",
}


@pytest.mark.parametrize(("one", "two"), REASONS)
def test_the_reason_is_said_in_either_order(one: str, two: str) -> None:
    """With both names and the way out."""
    for pair in ((one, two), (two, one)):
        said = refused(*pair)
        assert REASONS[one, two] in said
        assert f"'{one}'" in said
        assert f"'{two}'" in said
        assert said.endswith("; drop one of them.")


@pytest.mark.parametrize("name", ["trimmed_mean", "krum", "median", "aaggff_s"])
def test_more_phases_than_clients_beside_another_method(name: str) -> None:
    """One sentence, also where a method reckons with the answers of a round."""
    phases = ("phase_shift", {"phases": 7})
    for pair in ((name, phases), (phases, name)):
        said = refused(*pair)
        assert said.endswith(".")
        assert "\n" not in said


GRAPHS = [Ring(), Complete(), Random(probability=1.0)]


@pytest.mark.parametrize(
    "name",
    [
        *("phase_shift", "fedevg", "local_only", "pooled", "fednova", "qfedavg"),
        *("fedmgda", "dp"),
    ],
)
@pytest.mark.parametrize("topology", [*GRAPHS, Clusters(2)])
def test_what_needs_one_server(name: str, topology: Any) -> None:
    said = refused(name, topology=topology)
    where = type(topology).__name__.lower()
    assert f"method '{name}' cannot run on topology '{where}': " in said
    assert said.endswith("; set topology.name = 'star'.")


@pytest.mark.parametrize("name", ["median", "trimmed_mean", "norm_clip"])
def test_defences_need_updates_of_others(name: str) -> None:
    """Edge servers get them, neighbours hear models."""
    for graph in GRAPHS:
        assert "it compares updates" in refused(name, topology=graph)
    composed(TASK, DATA, (name, {"trim": 0.34} if "trim" in name else {}), topology=Clusters(2))


@pytest.mark.parametrize(
    "name",
    [n for n in METHODS if n not in ("dp", "local_only", "pooled", "latent_disco", *SOME)],
)
def test_a_server_that_moves_is_one_server(name: str) -> None:
    """Its whole state is handed on; only trust and solitude stand in the way."""
    settings = {"delta": 0.01} if name == "local_dp" else {}
    composed(TASK, DATA, (name, settings), topology=Rotating())


def test_dp_trusts_one_server() -> None:
    assert "trusted with the updates" in refused(("dp", {"delta": 0.01}), topology=Rotating())


def test_optimizers_that_a_method_was_not_made_for() -> None:
    """FedNova knows SGD's normaliser, SCAFFOLD is derived for plain SGD."""
    assert "local.optimizer = 'sgd'" in refused("fednova", opt=Adam(0.1))
    assert "local.momentum = 0" in refused("scaffold", opt=Sgd(0.1, 0.9))
    assert "local.momentum = 0" in refused("scaffold", opt=Adam(0.1))


# -- methods of one's own, written by somebody who never heard of traits ------------------------


class OwnWeights(WeightRule):
    """By loss."""

    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    def weights(self, state: Any, cohort: Any) -> Weighed:
        return Weighed(cohort.stats["loss"] / cohort.stats["loss"].sum(), state)


class OwnUnsaid(Method):
    """Weights, and a slot that its author forgot."""

    def change(self, draft: Draft) -> Draft:
        return replace(draft, weights=OwnWeights())


class OwnDefence(Method):
    """Half of every update."""

    def change(self, draft: Draft) -> Draft:
        return replace(draft, filters=(lambda ups, p, cohort: (ups, p / 2),))


class OwnBase(Method):
    """Another algorithm."""

    def change(self, draft: Draft) -> Draft:
        return replace(draft, base=lambda d: FedAvg(d.task))


@pytest.mark.parametrize(
    ("own", "other", "why"),
    [
        (OwnWeights(), "scaffold", "change from round to round"),
        (OwnWeights(), "fedevg", "no model whose loss"),
        (OwnWeights(), "median", "all clients count the same"),
        (OwnWeights(), "afl", "both set the weights"),
        (OwnUnsaid(), "afl", "each of them sets the weights of the average; keep one"),
        (OwnDefence(), "scaffold", "mean of the clients' own"),
        (OwnDefence(), "fednova", "as they were sent"),
        (OwnDefence(), "dp", "no other rule"),
        (OwnBase(), "superfed_mm", "each of them trains clients in its own way; keep one"),
        (OwnBase(), "fedprox", "do not descend on the loss that the pull is added to"),
        (OwnBase(), "fedadam", "there is no step of FedAvg's server"),
        (OwnBase(), "lg_fedavg", "clients train whole models"),
        (OwnBase(), "local_only", "trains alone"),
    ],
)
def test_what_is_seen_in_the_draft_needs_no_declaration(own: Method, other: str, why: str) -> None:
    """In either order."""
    pair = [("mine", own), (other, METHODS[other]())]
    for methods in (pair, pair[::-1]):
        said = said_by(lambda m=methods: compose(BARE, m, "star"))
        assert why in said
        assert "'mine'" in said


# -- settings of the run ------------------------------------------------------------------------


def test_local_statistics_are_asked_like_a_method() -> None:
    """They work with FedAvg's client and its parts, and are refused where it is replaced."""
    task, data = network_task("conv")
    bare = Draft(task, 6, 3, (1, 4, 4), 4, opt=Sgd(0.05))
    plain = ("fedavg", "fedprox", "lg_fedavg", "phase_shift", "fedadam", "feddisco", "scaffold")
    for name in plain:
        methods = [(name, METHODS[name]()), ("buffers", LocalBuffers())]
        draft = compose(bare, methods, "star")
        assert all(map(draft.private, task.network.buffers)), name
    methods = [("feddyn", METHODS["feddyn"]()), ("buffers", LocalBuffers())]
    assert said_by(lambda: compose(bare, methods, "star")) == (
        "run.buffers = 'local' cannot be combined with 'feddyn': it keeps part of the model on the "
        "client, and the other one's clients train whole models; drop one of them."
    )


def test_running_statistics_and_a_line_between_models() -> None:
    """SuPerFed's random points have statistics that fit neither end."""
    task, data = network_task("conv")
    said = said_by(lambda: composed(task, data, "superfed_mm"))
    assert "set run.buffers = 'drop'" in said


def test_features_that_a_method_cannot_use() -> None:
    """Asked of a client's own features; nobody else's are needed."""
    made = composed(TASK, DATA, "fedevg")
    assert made.misfit(torch.rand(5, 1, 4, 4)) == ""
    assert "go from -1 to 1; set data.normalise = false" in made.misfit(torch.tensor([-1.0, 1.0]))
    assert composed(TASK, DATA, ("fedevg", {"clip_pixels": False})).misfit(torch.ones(1) * 9) == ""
    assert composed(TASK, DATA, "fedavg").misfit(torch.ones(1) * 9) == ""


def test_pooled_has_one_client() -> None:
    """Whatever the participation was."""
    made = METHODS["pooled"]().change(BARE)
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
