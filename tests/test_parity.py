"""Client by client, step by step or traced, and in one vmapped call: the same result every way.

Ragged clients, half of them in a round, one and a half epochs. A method whose border leaks (state
on ``self``, a padded row that counts, a draw from a global generator) differs here. In double
precision, so that rounding cannot hide behind a tolerance; PyTorch's warning that vmap fell back to
a slow loop is an error, as all warnings are.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from federations import (
    Data,
    Named,
    Played,
    composed,
    distance,
    federation,
    kept_by,
    network_task,
    play,
    sampled,
)

from unalike import rng, tree
from unalike.algorithms.table import METHODS
from unalike.engine.simulation.simulate import Engine
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.optim import Adam, Sgd
from unalike.parts.topology import Clusters, Ring, Topology
from unalike.tasks import Autoencoding, Task

ENGINES: tuple[Engine, ...] = ("sequential", "vectorized")
HALF = sampled(0.5, 1.5)
EVERYBODY = sampled(1.0, 1.5)
ROUNDS = 3  # in which half of the clients have met what they kept before
MOMENTUM = {"opt": Sgd(0.05, 0.9, 1e-3, nesterov=True)}

# What differs from half of the clients with plain SGD: settings and parts of the draft.
SPECIAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "fedavg": ({}, {**HALF, **MOMENTUM}),
    "fednova": ({}, {**HALF, **MOMENTUM}),
    "fedprox": ({"mu": 0.3, "adaptive": True}, HALF),
    "superfed_mm": ({"start": 0.25}, {**HALF, **MOMENTUM}),
    "superfed_lm": ({"start": 0.25}, {**HALF, **MOMENTUM}),
    "apfl": ({"adapt": "step"}, {**HALF, **MOMENTUM}),
    "pfedme": ({}, {**HALF, **MOMENTUM}),
    "per_fedavg": ({"alpha": 0.1}, {**HALF, **MOMENTUM}),
    "feddyn": ({}, {**HALF, **MOMENTUM}),
    "moon": ({}, {**HALF, **MOMENTUM}),
    "fedproto": ({}, {**HALF, **MOMENTUM}),
    "ditto": ({}, {**HALF, **MOMENTUM}),
    "fedrep": ({"body_epochs": 1}, {**HALF, **MOMENTUM}),
    "phase_shift": ({"phases": 3}, {**EVERYBODY, **MOMENTUM}),
    "fedaug": ({"target": 0.1}, HALF),
    "fedevg": ({"per_class": 2}, HALF),
    "fedcvae": ({"latent": 3}, HALF),
    "fedcgan": ({"latent": 3}, HALF),
    "aaggff_s": ({}, EVERYBODY),
    "krum": ({"attackers": 1, "select": 2}, EVERYBODY),
    "trimmed_mean": ({"trim": 0.34}, HALF),
    "dp": ({"delta": 0.01}, HALF),
    "local_dp": ({"delta": 0.01}, HALF),
    "tifl": ({"tiers": 2}, HALF),
    "fedbuff": ({"buffer": 2, "concurrency": 3}, sampled(1.0, 1.5)),
    "local_only": ({}, {**HALF, **MOMENTUM}),
}
# Need what the stage before them left: see their own tests.
STAGED = {"latent_disco", "fedmix", "astraea"}
TRIED = sorted(METHODS.keys() - STAGED)
# They refuse running statistics, with a reason.
NO_BUFFERS = {"dp", "local_dp", "superfed_mm", "superfed_lm"}
# The sign of a number that is nothing but rounding differs: of a bias before BatchNorm.
NO_ROUNDING = {"sign", "eight_bit"}
FEATURES = {"fedevg", "fedcvae", "fedcgan"}  # make features, so no symbols

TOGETHER: dict[str, tuple[tuple[Named, ...], dict[str, Any]]] = {
    "fedprox+fedadam+aaggff_d": ((("fedprox", {"mu": 0.1}), "fedadam", "aaggff_d"), HALF),
    "phase_shift+fedaug": (
        (("phase_shift", {"phases": 2}), ("fedaug", {"target": 0.2})),
        {**EVERYBODY, **MOMENTUM},
    ),
    "phase_shift+fedprox+fedyogi": (("phase_shift", "fedprox", "fedyogi"), EVERYBODY),
    "phase_shift+fednova": (("phase_shift", "fednova"), {**EVERYBODY, **MOMENTUM}),
    "scaffold+fedep": (("scaffold", "fedep"), HALF),
    "scaffold+fedrep": (("scaffold", "fedrep"), HALF),
    "scaffold+lg_fedavg": (("scaffold", "lg_fedavg"), HALF),
    "apfl+fedprox": (("apfl", "fedprox"), HALF),
    "superfed_mm+fedaug+fedavgm": (
        (("superfed_mm", {"start": 0.0}), ("fedaug", {"target": 0.2}), "fedavgm"),
        HALF,
    ),
    "superfed_mm+aaggff_d": ((("superfed_mm", {"start": 0.0}), "aaggff_d"), HALF),
    "lg_fedavg+fedprox+fedep": ((("lg_fedavg", {"shared": "body"}), "fedprox", "fedep"), HALF),
    "feddisco+fednova": (("feddisco", "fednova"), {**HALF, **MOMENTUM}),
    "fednova+aaggff_d": ((("fednova", {"server_lr": 0.5}), "aaggff_d"), HALF),
    "lg_fedavg in turns+fedprox": (
        (("lg_fedavg", {"step": "sequential"}), ("fedprox", {"mu": 0.1})),
        {**HALF, **MOMENTUM},
    ),
    "lg_fedavg+fednova": (("lg_fedavg", "fednova"), {**HALF, **MOMENTUM}),
    "fedevg+fedep": ((("fedevg", {"per_class": 2}), "fedep"), HALF),
}


def both(task: Task, data: Data, *methods: Named, traced: bool = True, **parts: Any) -> float:
    """The largest distance, over servers' and clients' states, of runs in several ways."""
    recipe = composed(task, data, *methods, **parts)
    names = {m if isinstance(m, str) else m[0] for m in methods}
    if "pooled" in names:
        data = Data(data.examples, type(data.rows)(data.rows.order, data.rows.start[[0, -1]]))
    plain = play(recipe, data, ROUNDS, engine="sequential", batch_size=16)
    others = [play(recipe, data, ROUNDS, engine="vectorized", batch_size=16)]
    assert moved(plain) or "local_only" in names
    if traced:
        for engine in ENGINES:  # the second finds the programs of the first
            how: dict[str, Any] = {"engine": engine, "traced": True, "workers": 2}
            fast = play(recipe, data, ROUNDS, batch_size=16, **how)
            assert fast.simulation.traced is not None
            assert fast.simulation.traced.kinds
            assert not fast.simulation.traced.refusals
            others.append(fast)
    return max(
        max(apart(plain.states[-1], other.states[-1]), apart(kept(plain), kept(other)))
        for other in others
    )


def moved(played: Played) -> bool:
    """Whether the servers' models changed at all."""
    before, after = (
        [s.x if isinstance(s.x, dict) else {"x": s.x} for s in state.servers]
        for state in (played.states[0], played.states[-1])
    )
    return distance(before, after) > 1e-4


def kept(played: Played) -> Any:
    """What every client that took part kept."""
    return {str(i): state for i, state in sorted(kept_by(played.simulation).items())}


def apart(a: Any, b: Any) -> float:
    """The largest relative distance over the top-level parts of two trees."""
    a, b = tree.named(a), tree.named(b)
    assert a.keys() == b.keys()
    assert all(torch.isfinite(v).all() for v in a.values())
    groups: dict[str, list[str]] = {}
    for name in a:
        groups.setdefault(name.rsplit("[", 1)[0], []).append(name)
    return max(
        (distance({n: a[n] for n in g}, {n: b[n] for n in g}) for g in groups.values()), default=0.0
    )


TRACED = {"fedavg", "scaffold", "fedprox", "superfed_mm"}  # of all, what takes long to trace


def tried() -> Iterator[Any]:
    """Every method on every kind of network; most recurrent ones in the slow tier."""
    for name in TRIED:
        for network in ("conv", "dense", "lstm"):
            later = network == "lstm" and name not in TRACED
            yield pytest.param(name, network, marks=[pytest.mark.slow] if later else [])


@pytest.mark.parametrize(("name", "network"), list(tried()))
def test_every_method(name: str, network: str) -> None:
    """Alone and in a cohort, to five digits and in fact to ten."""
    if network == "conv" and name in NO_BUFFERS:
        network = "still"
    if network == "conv" and name in NO_ROUNDING:
        pytest.skip("a bias before BatchNorm has no gradient but rounding errors")
    if network == "lstm" and name in FEATURES:
        pytest.skip("there is no gradient with respect to a symbol")
    if name == "fedbn" and network == "lstm":
        pytest.skip("it has nothing to normalise")
    if name == "fedbn" and network == "dense":
        network = "normed"
    task, data = network_task(network, torch.float64)
    settings, parts = SPECIAL.get(name, ({}, HALF))
    quick = name in TRACED or network in ("dense", "normed", "lstm")
    assert both(task, data, (name, settings), traced=quick, **parts) < 1e-9


def test_no_method_is_missing() -> None:
    """Every name in the table is tried above but one, which has the next test for itself."""
    assert set(TRIED) | STAGED == METHODS.keys()
    assert METHODS.keys() >= SPECIAL.keys() | NO_BUFFERS | FEATURES


@pytest.mark.parametrize("refresh", [{"refresh": "every", "every": 2}, {"refresh": "after_warmup"}])
def test_latent_weights(refresh: dict[str, Any]) -> None:
    """The one method that needs an autoencoder."""
    data = federation(dtype=torch.float64)
    module = MODELS["vae"](hidden=[6], latent=2).build((1, 4, 4), 1).double()
    task = Autoencoding(Network(module))
    assert both(task, data, ("latent_disco", refresh), opt=Sgd(0.01), **HALF) < 1e-9


@pytest.mark.parametrize("name", TOGETHER)
def test_methods_together(name: str) -> None:
    """Wherever parts meet, they meet in the same way."""
    methods, parts = TOGETHER[name]
    task, data = network_task("still" if "superfed" in name else "conv", torch.float64)
    assert both(task, data, *methods, **parts) < 1e-9


@pytest.mark.parametrize("topology", [Ring(), Clusters(2, 2)], ids=["ring", "clusters"])
@pytest.mark.parametrize("name", ["fedavg", "fedadam", "fedep", "superfed_mm", "lg_fedavg"])
def test_topologies(name: str, topology: Topology) -> None:
    """Every client has a download of its own."""
    task, data = network_task("still" if name in NO_BUFFERS else "conv", torch.float64)
    assert both(task, data, name, topology=topology, **HALF) < 1e-9


@pytest.mark.parametrize("network", ["conv", "dense", "lstm"])
def test_local_adam(network: str) -> None:
    """Its state is counted in steps, which differ between clients.

    To five digits only: a bias before BatchNorm has no gradient but rounding errors, which Adam
    divides by their own size; with weight decay they grow into whole steps, which change nothing
    but this bias.
    """
    task, data = network_task(network, torch.float64)
    decay = 0.0 if network == "conv" else 1e-3
    assert both(task, data, "fedavg", opt=Adam(0.01, weight_decay=decay), **HALF) < 1e-5


@pytest.mark.parametrize(
    ("name", "network"),
    [
        ("fedavg", "conv"),
        ("scaffold", "conv"),
        ("superfed_mm", "still"),
        ("fedprox", "dense"),
        ("phase_shift", "dense"),
        ("fedavg", "lstm"),
    ],
)
def test_single_precision(name: str, network: str) -> None:
    """To five digits of the whole model; single entries may be noise around zero."""
    task, data = network_task(network, tracked=name not in NO_BUFFERS)
    recipe = composed(task, data, name, **HALF if name != "phase_shift" else EVERYBODY)
    one, all_ = (play(recipe, data, engine=e).x for e in ("sequential", "vectorized"))
    assert distance(one, all_) < 1e-5


def test_a_net_without_running_statistics() -> None:
    """Batch statistics are then used for judging too, where padding must not count."""
    task, data = network_task("conv", torch.float64, tracked=False)
    assert not task.network.buffers
    assert both(task, data, "aaggff_d", **HALF) < 1e-9


def test_differences_are_found() -> None:
    """The measure is not blind: another seed, another start, another rate."""
    task, data = network_task("dense", torch.float64)
    recipe = composed(task, data, "fedavg", **HALF)
    base = play(recipe, data)
    assert apart(base.states[-1], play(recipe, data, seed=1).states[-1]) > 1e-3
    assert apart(base.states[-1], play(recipe, data, w=task.init(rng.key(8))).states[-1]) > 1e-3
    faster = composed(task, data, "fedavg", opt=Sgd(0.051), **HALF)
    assert apart(base.states[-1], play(faster, data).states[-1]) > 1e-5
