"""Two rounds and more of a pair of methods are what the equations of both come to on paper."""

from itertools import product
from typing import Any

import by_hand as hand
import numpy as np
import pytest
import rounds_by_hand as course
import torch
from by_hand import ETA, EVERYBODY, START, STEPS
from federations import Named, Played, drafted, state_of, walk
from two_weights import DATA, NAMES, TASK, model

from unalike.parts.optim import Sgd
from unalike.parts.participation.schedule import Phased
from unalike.parts.topology import Clusters, Ring, Rotating, Topology

ROUNDS = 4
CLOSE = {"abs": 3e-6, "rel": 3e-6}  # numbers of examples travel in single precision


HALVES: dict[str, tuple[Named, Any]] = {
    "lg_fedavg": (("lg_fedavg", {"shared": ["g."]}), lambda: hand.FedAvg(shared=(1,))),
    "fedper": (("fedper", {"personal": ["g."]}), lambda: hand.FedAvg(shared=(0,))),
    "fedrep": (("fedrep", {"personal": ["g."]}), lambda: hand.FedRep(shared=(0,))),
    "apfl": (("apfl", {"alpha": 0.25}), hand.Apfl),
    "pfedme": (("pfedme", {"pull": 2.0, "steps": 2, "lr": 0.2}), hand.PFedMe),
    "per_fedavg": (
        (
            "per_fedavg",
            {"alpha": 0.2, "gradients": "first_order", "minibatches": "same", "adapt": 0},
        ),
        hand.PerFedAvg,
    ),
    "per_fedavg with a Hessian": (
        ("per_fedavg", {"alpha": 0.2, "delta": 0.01, "minibatches": "same", "adapt": 0}),
        lambda: hand.PerFedAvg(delta=0.01),
    ),
    "superfed_mm": (("superfed_mm", {"start": 0.0}), hand.SuPerFed),
    "superfed_lm": (
        ("superfed_lm", {"start": 0.0}),
        lambda: hand.SuPerFed(mix=(0.3, 0.8), nu=2.0),
    ),
    "ditto": (("ditto", {"pull": 1.0}), lambda: hand.Ditto(hand.FedAvg())),
}
ENTROPY = ("fedep", {"rho": 0.3})  # one part in a mixture
PARTS: dict[str, tuple[Named, dict[str, Any]]] = {
    "fedadam": (("fedadam", {"lr": 0.05, "tau": 1e-2}), {"server": hand.Adam}),
    "feddisco": ("feddisco", {"rule": lambda: hand.disco}),
    "fedep": (ENTROPY, {"rule": lambda: hand.entropy_pool}),
    "aaggff_s": ("aaggff_s", {"rule": hand.OnlineNewton}),
    "median": ("median", {"server": lambda: hand.median}),
    "dp": (
        ("dp", {"clip": 0.05, "noise_multiplier": 0.0, "delta": 0.01}),
        {"server": lambda: hand.clipped},
    ),
    "phase_shift": (("phase_shift", {"phases": 2, "optimizer": "reset"}), {}),
}


@pytest.fixture(autouse=True)
def lambdas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The places between SuPerFed's two ends, which are otherwise drawn."""
    chosen = torch.tensor([0.3, 0.8], dtype=torch.float64)
    monkeypatch.setattr("unalike.algorithms.superfed.rng.uniform", lambda key, n: chosen[:n])


def run(*methods: Named, **parts: Any) -> Played:
    """On the library's side, all of a client's examples in one minibatch."""
    more = {"rounds": ROUNDS, "opt": Sgd(ETA), "epochs": float(STEPS), **parts}
    program = drafted(TASK, DATA, *methods, **more).program()
    return walk(program, DATA, w=model(START), batch_size=16, engine="sequential")


def check(played: Played, x: np.ndarray, judged: list[np.ndarray]) -> None:
    """The shared numbers, and every client's model."""
    algorithm = played.loop.recipe.algorithm
    down = algorithm.broadcast(played.server)
    for name, leaf in played.server.x.items():
        assert float(leaf) == pytest.approx(x[NAMES.index(name)], **CLOSE)
    for k in EVERYBODY:
        own = algorithm.personal(down, state_of(played.simulation, k))
        assert [float(own[name]) for name in NAMES] == pytest.approx(list(judged[k]), **CLOSE)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", HALVES)
def test_a_method_and_a_part(name: str, part: str) -> None:
    """The client's half of one with the weights, the step or the groups of the other."""
    (method, half), (other, how) = HALVES[name], PARTS[part]
    played = run(method, other)
    given = {k: make() for k, make in how.items()}
    if part == "phase_shift":
        assert isinstance(played.loop.recipe.schedule, Phased)
        given["late"] = played.rounds[0].ids.numpy()
        assert len(given["late"]) == 2
    check(played, *course.rounds(half(), ROUNDS, **given))


@pytest.mark.parametrize("name", ["lg_fedavg", "fedper", "fedrep", "apfl", "ditto"])
def test_a_method_with_a_pull(name: str) -> None:
    """FedProx inside Ditto, on both sides of a cut, and for APFL's shared model."""
    method, half = HALVES[name]
    made = half()
    (made.inside if name == "ditto" else made).pull = 0.5
    check(run(method, ("fedprox", {"mu": 0.5})), *course.rounds(made, ROUNDS))


@pytest.mark.parametrize("part", ["feddisco", "aaggff_s", "fedadam", "phase_shift"])
def test_three_methods(part: str) -> None:
    """Ditto around FedProx with another method's weights, step or groups."""
    other, how = PARTS[part]
    played = run("ditto", ("fedprox", {"mu": 0.5}), other)
    given = {k: make() for k, make in how.items()}
    if part == "phase_shift":
        given["late"] = played.rounds[0].ids.numpy()
    check(played, *course.rounds(hand.Ditto(hand.FedAvg(pull=0.5)), ROUNDS, **given))


@pytest.mark.parametrize("part", [None, "feddisco", "fedep"])
def test_scaffold_inside_ditto_and_before_finetuning(part: str | None) -> None:
    """The shared model is SCAFFOLD's; its variates keep what each client counts among all."""
    p = {None: hand.uniform, "feddisco": hand.disco, "fedep": hand.entropy_pool}[part]
    more = [PARTS[part][0]] if part else []
    x, path = course.scaffold(p(EVERYBODY, EVERYBODY), ROUNDS)
    own = [course.near(k, path, 1.0) for k in EVERYBODY]
    check(run("scaffold", "ditto", *more), x, own)
    x, path = course.scaffold(p(EVERYBODY, EVERYBODY), ROUNDS - 1)
    own = [hand.walk(x, lambda w, k=k: hand.slope(w, k)) for k in EVERYBODY]
    played = run("scaffold", "finetune", *more)
    check(played, x, own)


@pytest.mark.parametrize("part", [None, "feddisco", "fedep"])
def test_scaffold_with_another_servers_step(part: str | None) -> None:
    """FedAdam steps along the mean change; the variates are of the models that were sent out."""
    p = {None: hand.uniform, "feddisco": hand.disco, "fedep": hand.entropy_pool}[part]
    more = [PARTS[part][0]] if part else []
    x, path = course.scaffold(p(EVERYBODY, EVERYBODY), ROUNDS, hand.Adam())
    check(run("scaffold", PARTS["fedadam"][0], *more), x, [x] * 4)
    own = [course.near(k, path, 1.0) for k in EVERYBODY]
    check(run("ditto", "scaffold", PARTS["fedadam"][0], *more), x, own)


@pytest.mark.parametrize("part", [None, "feddisco", "fedep"])
@pytest.mark.parametrize("name", ["lg_fedavg", "fedper", "fedrep"])
def test_scaffold_on_both_sides_of_a_cut(name: str, part: str | None) -> None:
    """Variates are of what is shared; the private number takes plain steps."""
    p = {None: hand.uniform, "feddisco": hand.disco, "fedep": hand.entropy_pool}[part]
    more = [PARTS[part][0]] if part else []
    shared = 1 if name == "lg_fedavg" else 0
    wanted = course.cut_scaffold(p(EVERYBODY, EVERYBODY), ROUNDS, shared, name == "fedrep")
    check(run("scaffold", HALVES[name][0], *more), *wanted)


@pytest.mark.parametrize("part", [None, "feddisco", "fedep"])
def test_feddyn_with_other_weights(part: str | None) -> None:
    """The published form, with h and every g_k, and weights in the place of 1 / m."""
    p = {None: hand.by_size, "feddisco": hand.disco, "fedep": hand.entropy_pool}[part]
    more = [PARTS[part][0]] if part else []
    x = course.feddyn(p(EVERYBODY, EVERYBODY), ROUNDS, alpha=0.5)
    check(run(("feddyn", {"alpha": 0.5}), *more), x, [x] * 4)


@pytest.mark.parametrize("part", ["fedadam", "feddisco", "aaggff_s", "median", "dp"])
def test_finetuning_after_a_part(part: str) -> None:
    """The shared model of one round less, and everybody's own steps from there."""
    other, how = PARTS[part]
    x, _ = course.rounds(hand.FedAvg(), ROUNDS - 1, **{k: make() for k, make in how.items()})
    own = [hand.walk(x, lambda w, k=k: hand.slope(w, k)) for k in EVERYBODY]
    check(run("finetune", other), x, own)


@pytest.mark.parametrize("name", [n for n in HALVES if not n.startswith("per_fedavg")])
def test_finetuning_after_models_of_their_own(name: str) -> None:
    """Everybody's own steps, with both numbers, from the model that the method left to him."""
    method, half = HALVES[name]
    x, judged = course.rounds(half(), ROUNDS - 1)
    own = [hand.walk(judged[k], lambda w, k=k: hand.slope(w, k)) for k in EVERYBODY]
    check(run("finetune", method), x, own)


@pytest.mark.parametrize("part", ["fedadam", "feddisco", "aaggff_s", "median", "dp", "phase_shift"])
@pytest.mark.parametrize("name", ["fedper", "fedrep", "ditto"])
def test_finetuning_after_a_method_and_a_part(name: str, part: str) -> None:
    """The same after three methods together."""
    (method, half), (other, how) = HALVES[name], PARTS[part]
    played = run(method, other, "finetune")
    given = {k: make() for k, make in how.items()}
    if part == "phase_shift":
        given["late"] = played.rounds[0].ids.numpy()
    x, judged = course.rounds(half(), ROUNDS - 1, **given)
    own = [hand.walk(judged[k], lambda w, k=k: hand.slope(w, k)) for k in EVERYBODY]
    check(played, x, own)


@pytest.mark.parametrize("name", ["lg_fedavg", "fedper", "fedrep"])
def test_finetuning_after_scaffold_on_both_sides_of_a_cut(name: str) -> None:
    """The variates end with SCAFFOLD's rounds, the private number goes on."""
    shared, p = 1 if name == "lg_fedavg" else 0, hand.uniform(EVERYBODY, EVERYBODY)
    x, judged = course.cut_scaffold(p, ROUNDS - 1, shared, name == "fedrep")
    own = [hand.walk(judged[k], lambda w, k=k: hand.slope(w, k)) for k in EVERYBODY]
    check(run("scaffold", HALVES[name][0], "finetune"), x, own)


RING = {j: [(j - 1) % 4, j, (j + 1) % 4] for j in range(4)}
ALL_HEAR = {0: [0, 1], 1: [0, 1]}
TOPOLOGIES: dict[str, tuple[Topology, dict[str, Any]]] = {
    "ring": (Ring(), {"home": EVERYBODY, "hears": lambda t: RING}),
    "rotating": (Rotating(), {"home": 0 * EVERYBODY, "hears": lambda t: {}}),
    "clusters": (
        Clusters(2, 3),
        {"home": EVERYBODY % 2, "hears": lambda t: ALL_HEAR if t % 3 == 2 else {}},
    ),
}
ON_GRAPHS: dict[str, tuple[list[Named], dict[str, Any]]] = {
    "fedprox": ([("fedprox", {"mu": 0.5})], {"half": lambda: hand.FedAvg(pull=0.5)}),
    "fedadam": ([PARTS["fedadam"][0]], {"server": lambda: hand.Adam}),
    "feddisco": (["feddisco"], {"rule": lambda: hand.disco}),
    "lg_fedavg": ([HALVES["lg_fedavg"][0]], {"half": HALVES["lg_fedavg"][1]}),
    "superfed_mm": ([HALVES["superfed_mm"][0]], {"half": HALVES["superfed_mm"][1]}),
    "apfl and feddisco": (
        [HALVES["apfl"][0], "feddisco"],
        {"half": HALVES["apfl"][1], "rule": lambda: hand.disco},
    ),
}


@pytest.mark.parametrize("graph", TOPOLOGIES)
def test_fedep_with_and_without_servers(graph: str) -> None:
    """The pool is of those that a server hears: its clients in its step, then its neighbours'."""

    def neighbours(who: np.ndarray, losses: np.ndarray) -> np.ndarray:
        return np.ones(1) if len(who) == 1 else hand.entropy_pool(who, losses, known=who)

    topology, where = TOPOLOGIES[graph]
    rule = hand.entropy_pool if graph == "rotating" else neighbours
    wanted = course.servers(hand.FedAvg(), ROUNDS, **where, rule=rule)
    played = run(ENTROPY, topology=topology)
    for server, x in zip(played.states[-1].servers, wanted, strict=True):
        for leaf, value in server.x.items():
            assert float(value) == pytest.approx(x[NAMES.index(leaf)], **CLOSE)


@pytest.mark.parametrize("name", ON_GRAPHS)
@pytest.mark.parametrize(
    ("graph", "sparse"), [("ring", False), *product(("rotating", "clusters"), (False, True))]
)
def test_a_method_on_a_graph(graph: str, name: str, sparse: bool) -> None:
    """Servers step by themselves, then weigh those that they hear by the method's rule.

    With one number of an update at a time, where there is a server to send it to.
    """
    (topology, where), (methods, how) = TOPOLOGIES[graph], ON_GRAPHS[name]
    given = {k: make() for k, make in how.items()}
    half = given.pop("half", hand.FedAvg())
    more: list[Named] = [("topk", {"share": 0.5})] if sparse else []
    count = 1 if sparse else None
    wanted = course.servers(half, ROUNDS, **where, **given, count=count)
    played = run(*methods, *more, topology=topology)
    for server, x in zip(played.states[-1].servers, wanted, strict=True):
        for leaf, value in server.x.items():
            assert float(value) == pytest.approx(x[NAMES.index(leaf)], **CLOSE)
