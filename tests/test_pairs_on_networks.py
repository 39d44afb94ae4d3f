"""MOON, FedBN and FedProto with another method are what the equations of both come to on paper."""

from typing import Any

import by_hand as hand
import networks_by_hand as nets
import numpy as np
import pytest
import rounds_by_hand as course
import torch
from by_hand import ETA, EVERYBODY, SIZES, STEPS
from federations import Data, Named, Played, drafted, rows_of, state_of, walk
from test_pairs_by_hand import PARTS
from torch import nn

from unalike.federation.data import Examples
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.schedule import Participation
from unalike.tasks import MultiClass
from unalike.tree import Params

ROUNDS = 3
CLOSE = {"abs": 2e-6, "rel": 2e-6}
LEAVES = {"0.weight": "A", "0.bias": "a", "1.weight": "scale", "1.bias": "shift"}
LEAVES |= {"3.weight": "B", "3.bias": "b"}


def task(normed: bool) -> MultiClass:
    """The library's side of the network."""
    middle = nn.BatchNorm1d(nets.WIDTH) if normed else nn.Identity()
    net = nn.Sequential(nn.Linear(2, nets.WIDTH), middle, nn.Tanh(), nn.Linear(nets.WIDTH, 3))
    net.head = ("3.",)  # type: ignore[assignment]
    return MultiClass(Network(net.double(), track_statistics=False))


def data() -> Data:
    """The same rows."""
    x, y = (torch.from_numpy(np.concatenate(parts)) for parts in (nets.FEATURES, nets.LABELS))
    return Data(Examples(x, y, nets.CLASSES), rows_of([int(n) for n in SIZES]))


def model(w: np.ndarray, normed: bool) -> Params:
    """A vector as the leaves of the network."""
    made = {k: torch.from_numpy(nets.leaf(w, v).copy()) for k, v in LEAVES.items()}
    return {k: v for k, v in made.items() if normed or not k.startswith("1.")}


def run(*methods: Named, normed: bool, rounds: int = ROUNDS, **parts: Any) -> Played:
    """All of a client's examples in one minibatch."""
    more = {"rounds": rounds, "opt": Sgd(ETA), "epochs": float(STEPS), **parts}
    program = drafted(task(normed), data(), *methods, **more).program()
    w = model(nets.START, normed)
    return walk(program, data(), w=w, batch_size=16, engine="sequential")


def check(played: Played, x: np.ndarray, judged: list[np.ndarray], normed: bool) -> None:
    """The shared leaves, and every client's model."""
    algorithm = played.loop.recipe.algorithm
    down = algorithm.broadcast(played.server)
    wanted = model(x, normed)
    for name, leaf in played.server.x.items():
        assert leaf.numpy() == pytest.approx(wanted[name].numpy(), **CLOSE)
    for k in EVERYBODY:
        own = algorithm.personal(down, state_of(played.simulation, k))
        for name, leaf in model(judged[k], normed).items():
            assert own[name].numpy() == pytest.approx(leaf.numpy(), **CLOSE)


SHARED = tuple(i for i in nets.ALL if i not in nets.NORM)
HALVES: dict[str, tuple[Named, Any, bool]] = {
    "moon": (("moon", {"mu": 2.0}), nets.Moon, False),
    "fedbn": ("fedbn", lambda: nets.Plain(shared=SHARED, normed=True), True),
}


@pytest.mark.parametrize("part", [None, *PARTS])
@pytest.mark.parametrize("name", HALVES)
def test_a_method_and_a_part(name: str, part: str | None) -> None:
    """The client's half of one with the weights, the step or the groups of the other."""
    method, half, normed = HALVES[name]
    other, how = PARTS[part] if part else ("fedavg", {})
    played = run(method, other, normed=normed)
    given = {k: make() for k, make in how.items()}
    if part == "phase_shift":
        given["late"] = played.rounds[0].ids.numpy()

    def loss(w: np.ndarray, k: int) -> float:
        return nets.loss(w, k, normed)

    wanted = course.rounds(half(), ROUNDS, **given, start=nets.START, loss=loss)
    check(played, *wanted, normed)


@pytest.mark.parametrize("name", HALVES)
def test_a_method_with_a_pull(name: str) -> None:
    """FedProx pulls all that a client trains, its private leaves to where they were."""
    method, half, normed = HALVES[name]
    made = half()
    made.pull = 0.5
    wanted = course.rounds(made, ROUNDS, start=nets.START, loss=nets.loss)
    check(run(method, ("fedprox", {"mu": 0.5}), normed=normed), *wanted, normed)


@pytest.mark.parametrize("name", HALVES)
def test_finetuning_after_it(name: str) -> None:
    """FedBN's clients go on with the layers that they kept, MOON's with the shared model."""
    method, half, normed = HALVES[name]

    def loss(w: np.ndarray, k: int) -> float:
        return nets.loss(w, k, normed)

    x, judged = course.rounds(half(), ROUNDS - 1, start=nets.START, loss=loss)
    own = [
        hand.walk(judged[k], lambda w, k=k: nets.slope(lambda v: loss(v, k), w)) for k in EVERYBODY
    ]
    check(run(method, "finetune", normed=normed), x, own, normed)


@pytest.mark.parametrize("name", HALVES)
def test_where_one_client_answers(name: str) -> None:
    """The others keep what they have: MOON's last model of a late starter is the initial one."""
    method, half, normed = HALVES[name]
    played = run(method, normed=normed, rounds=5, participation=Participation(number=1))
    made, x = half(), nets.START.copy()
    kept = [made.first(k) for k in EVERYBODY]
    cohorts = [int(done.ids[0]) for done in played.rounds]
    assert len(set(cohorts[1:]) - {cohorts[0]}) > 0  # somebody starts late
    assert any(cohorts.count(k) > 1 for k in EVERYBODY)
    for k in cohorts:
        end, kept[k] = made.round(k, x, kept[k], x)
        x = np.where(np.isin(nets.ALL, made.shared), end, x)
    check(played, x, [made.judged(x, mine) for mine in kept], normed)


def test_scaffold_without_the_layers_that_fedbn_keeps() -> None:
    """Variates are of what is shared; the private leaves take plain steps."""
    on = np.isin(nets.ALL, SHARED)
    x, c = nets.START.copy(), np.zeros_like(nets.START)
    own = np.tile(nets.START, (len(EVERYBODY), 1))
    variates = np.zeros_like(own)
    for _ in range(ROUNDS):
        ends = np.where(on, x, own)
        for k in EVERYBODY:
            shift = np.where(on, c - variates[k], 0.0)

            def value(w: np.ndarray, k: int = k) -> float:
                return nets.loss(w, k, normed=True)

            ends[k] = hand.walk(ends[k], lambda w, v=value, s=shift: nets.slope(v, w) + s)
        new = np.where(on, variates - c + (x - ends) / (STEPS * ETA), 0.0)
        x, c = x + on * (ends - x).mean(0), c + (new - variates).mean(0)
        variates, own = new, ends
    judged = list(np.where(on, x, own))
    check(run("scaffold", "fedbn", normed=True), x, judged, True)


@pytest.mark.parametrize("part", [None, "feddisco", "fedep", "aaggff_s"])
def test_prototypes_by_other_weights(part: str | None) -> None:
    """C^j = sum_i p_i s_ij C_i^j / sum_i p_i s_ij; FedProto's clients report their own losses."""
    rule = PARTS[part][1]["rule"]() if part else hand.by_size
    more = [PARTS[part][0]] if part else []
    played = run(("fedproto", {"strength": 2.0}), *more, normed=False)
    means, models = nets.fedproto(ROUNDS, rule, 2.0)
    assert played.server.x.numpy() == pytest.approx(means, **CLOSE)
    for k in EVERYBODY:
        for name, leaf in model(models[k], False).items():
            found = state_of(played.simulation, k)[name].numpy()
            assert found == pytest.approx(leaf.numpy(), **CLOSE)
