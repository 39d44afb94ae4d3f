"""Phase-shift around other methods: what is shared is corrected, everything else goes on.

The oracles are the equations of both methods on plain numbers, client by client: the wrapped one
starts where phase-shift says, and what it sends beside the model adds up until it is sent.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from federations import (
    Handmade,
    Named,
    Played,
    Product,
    Quadratic,
    at,
    composed,
    network_task,
    play,
    same,
    sampled,
    scalars,
    state_of,
)
from phases import InOrder
from torch import Tensor

from unalike import rng
from unalike.algorithms.fedavg import FedAvg, Kept
from unalike.algorithms.phase_shift import PhaseShift
from unalike.algorithms.scaffold import Scaffold
from unalike.algorithms.superfed import SuPerFed
from unalike.batches import Batch
from unalike.engine.faults import Faults
from unalike.errors import ConfigError
from unalike.parts.mixing.examples import ByExamples, Uniform
from unalike.parts.optim import Sgd
from unalike.parts.representation.private import Private
from unalike.recipe import Decay, Recipe
from unalike.rng import ClientStream, Stream
from unalike.tree import Params

MINIMA = [0.0, 4.0, 8.0, 12.0, -3.0, 5.0]
SIZES = [1, 2, 3, 4, 5, 6]
ROUNDS = 7
CLOSE = {"abs": 2e-6, "rel": 2e-6}  # shares of examples are in single precision


class Turn(NamedTuple):
    """What a client does in a round."""

    later: bool  # in mid-phase
    sends: bool


def turn(k: int, t: int, phases: int) -> Turn:
    """Groups in order of client number; everybody sends in the last round."""
    role = (k // (len(MINIMA) // phases) + t) % phases
    return Turn(role > 0, role == phases - 1 or t == ROUNDS - 1)


def run(algorithm: Any, phases: int, w: Any, data: Any = None, **parts: Any) -> Played:
    """Everybody does two epochs in a round, one example at a time."""
    recipe = Recipe(PhaseShift(algorithm), schedule=InOrder(phases, 2.0), **parts)
    data = scalars(MINIMA, SIZES) if data is None else data
    return play(recipe, data, ROUNDS, w, batch_size=1)


ONE: dict[str, tuple[tuple[Named, ...], dict[str, Any]]] = {
    "fedprox+fedadam": (("fedprox", "fedadam"), {"opt": Sgd(0.05, 0.9)}),
    "scaffold": (("scaffold",), {}),
    "scaffold by examples": ((("scaffold", {"averaging": "size"}),), {}),
    "lg_fedavg": (("lg_fedavg",), {"opt": Sgd(0.05, 0.9)}),
    "lg_fedavg in turns": (
        (("lg_fedavg", {"step": "sequential"}), "fedprox"),
        {"opt": Sgd(0.05, 0.9)},
    ),
    "superfed_mm": ((("superfed_mm", {"start": 0.4}),), {"opt": Sgd(0.05, 0.9, 1e-3)}),
    "fednova": (("fednova",), {"opt": Sgd(0.05, 0.9)}),
}


@pytest.mark.parametrize("name", ONE)
def test_one_phase_is_the_method_itself(name: str) -> None:
    """Bit for bit, half of the clients in a round: servers, and all that clients keep."""
    methods, parts = ONE[name]
    task, data = network_task("dense")
    parts = {**sampled(0.5, 1.5), **parts}
    bare, wrapped = (
        play(composed(task, data, *some, **parts), data, engine="sequential", batch_size=16)
        for some in (methods, (*methods, ("phase_shift", {"phases": 1})))
    )
    assert same(bare.server, wrapped.server.base)
    for i in range(data.n_clients):
        own = state_of(wrapped.simulation, i).base
        assert same(state_of(bare.simulation, i), own.own if isinstance(own, Kept) else own)


@pytest.mark.parametrize("phases", [2, 3])
@pytest.mark.parametrize("by_size", [False, True])
def test_scaffold(phases: int, by_size: bool) -> None:
    """c_i changes in every round; the server hears of all changes since the last upload."""
    mixing = ByExamples() if by_size else Uniform()
    played = run(
        Scaffold(Quadratic(), 6, Sgd(0.05), server_lr=0.8), phases, at(w=1.0), mixing=mixing
    )
    pi = [n / 21 if by_size else 1 / 6 for n in SIZES]
    x, c, behind = 1.0, 0.0, 0
    w, own, unsent = [1.0] * 6, [0.0] * 6, [0.0] * 6
    for t in range(ROUNDS):
        moved: dict[int, float] = {}
        told: dict[int, float] = {}
        for k, n in enumerate(SIZES):
            now = turn(k, t, phases)
            start = (behind * x + n * w[k]) / (behind + n) if now.later else x
            y = start
            for _ in range(2 * n):
                y -= 0.05 * ((y - MINIMA[k]) - own[k] + c)
            change = -c + (start - y) / (2 * n * 0.05)
            w[k], own[k], unsent[k] = y, own[k] + change, unsent[k] + change
            if now.sends:
                moved[k], told[k], unsent[k] = y - x, unsent[k], 0.0
        share = {k: pi[k] / sum(pi[i] for i in moved) for k in moved}
        x += 0.8 * sum(share[k] * moved[k] for k in moved)
        c += sum(pi[k] * told[k] for k in told)
        behind = sum(SIZES[k] for k in moved)
        server = played.states[t + 1].servers[0]
        found = float(server.x["w"]), float(server.base.c["w"]), float(server.n)
        assert found == pytest.approx((x, c, behind), **CLOSE)
        for k, mine in played.kept[t].items():
            kept = float(mine.w["w"]), float(mine.base.c["w"]), float(mine.unsent.dc["w"])
            assert kept == pytest.approx((w[k], own[k], unsent[k]), **CLOSE)
    assert unsent == [0.0] * 6


def test_nothing_is_lost_with_clients_that_drop_out() -> None:
    """c = sum pi_i (c_i - what client i has not sent yet), whoever failed to upload."""
    recipe = Recipe(
        PhaseShift(Scaffold(Quadratic(), 6, Sgd(0.05))), Uniform(), schedule=InOrder(3, 2.0)
    )
    data = scalars(MINIMA, SIZES)
    played = play(recipe, data, 12, at(w=1.0), batch_size=1, faults=Faults(drop=0.4), seed=3)
    assert any(len(r.ids) < 2 for r in played.rounds[:-1])
    for state, kept in zip(played.states[1:], played.kept, strict=True):
        known = sum(float(m.base.c["w"] - m.unsent.dc["w"]) for m in kept.values())
        assert float(state.servers[0].base.c["w"]) == pytest.approx(known / 6, abs=1e-6)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("phases", [2, 3])
def test_lg_fedavg(phases: int, keep: bool) -> None:
    """f stays on the client and is not corrected: it never left. Momentum ends with a phase."""
    rows = [[1.0, m / 4] for m in MINIMA]
    algorithm = FedAvg(
        Product(names=("f", "g")), Sgd(0.02, 0.5), private=Private(("f",)), keep_optimizer=keep
    )
    played = run(algorithm, phases, at(f=1.0, g=0.5), scalars(rows, SIZES))
    g, behind = 0.5, 0
    f, own, buffers = [1.0] * 6, [0.5] * 6, [(0.0, 0.0)] * 6
    for t in range(ROUNDS):
        sent: dict[int, float] = {}
        for k, n in enumerate(SIZES):
            now, a = turn(k, t, phases), f[k]
            b = (behind * g + n * own[k]) / (behind + n) if now.later else g
            m, v = buffers[k] if now.later and keep else (0.0, 0.0)
            for _ in range(2 * n):
                error = b * a - rows[k][1]
                m, v = 0.5 * m + error * b, 0.5 * v + error * a
                a, b = a - 0.02 * m, b - 0.02 * v
            f[k], own[k], buffers[k] = a, b, (m, v)
            if now.sends:
                sent[k] = b
        behind = sum(SIZES[k] for k in sent)
        g = sum(SIZES[k] * sent[k] for k in sent) / behind
        assert played.trace("g")[t] == pytest.approx(g, **CLOSE)
        for k, mine in played.kept[t].items():
            private = mine.base.own if keep else mine.base
            found = float(private["f"]), float(mine.w["g"])
            assert found == pytest.approx((f[k], own[k]), **CLOSE)
            assert mine.w.keys() == {"g"}


class Slope(Handmade):
    """w x: the gradient of a row is x, wherever the model is."""

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row."""
        return w["w"] * batch.x


SGD = [Sgd(0.05), Sgd(0.05, 0.5), Sgd(0.05, 0.5, nesterov=True)]
HALVED = Decay("exponential", rate=0.5, every=2)


def nova(task: Any, opt: Sgd, phases: int, w: Params, keep: bool = True, **settings: Any) -> Played:
    """FedNova inside phase-shift, with groups by client number and a rate that falls."""
    data = scalars(MINIMA, SIZES)
    method = ("phase_shift", {"phases": phases, "optimizer": "keep" if keep else "reset"})
    parts = {"opt": opt, "decay": HALVED, "rounds": ROUNDS, "epochs": 2.0}
    recipe = composed(task, data, ("fednova", settings), method, **parts)
    return play(replace(recipe, schedule=InOrder(phases, 2.0)), data, ROUNDS, w, batch_size=1)


@pytest.mark.parametrize("opt", SGD)
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("phases", [2, 3])
def test_fednova(phases: int, keep: bool, opt: Sgd) -> None:
    """A weight whose slope is always one goes along with every client, and is what divides."""
    played = nova(Quadratic(), opt, phases, at(w=1.0), keep)
    rho = opt.momentum
    x, behind = 1.0, 0
    w, gone = [1.0] * 6, [0.0] * 6
    buffers = [(0.0, 0.0)] * 6
    for t in range(ROUNDS):
        rate, sent = 0.05 * 0.5 ** (t // 2), dict[int, float]()
        for k, n in enumerate(SIZES):
            now = turn(k, t, phases)
            kept = n / (behind + n) if now.later else 0.0
            y, u = (1 - kept) * x + kept * w[k], kept * gone[k]
            m, v = buffers[k] if now.later and keep else (0.0, 0.0)
            for _ in range(2 * n):
                g = y - MINIMA[k]
                m, v = rho * m + g, rho * v + 1
                y -= rate * (g + rho * m if opt.nesterov else m)
                u += rate * (1 + rho * v if opt.nesterov else v)
            w[k], gone[k], buffers[k] = y, u, (m, v)
            if now.sends:
                sent[k] = u / rate
        behind = sum(SIZES[k] for k in sent)
        p = {k: SIZES[k] / behind for k in sent}
        effective = sum(p[k] * sent[k] for k in sent)
        x += effective * sum(p[k] * (w[k] - x) / sent[k] for k in sent)
        assert played.trace()[t] == pytest.approx(x, **CLOSE)
        assert "reach" in played.rounds[t].stats


@pytest.mark.parametrize("opt", SGD)
def test_the_reach_is_how_far_clients_are_from_a_server_that_stays(opt: Sgd) -> None:
    """Along a constant slope, with corrections and momentum in between."""
    played = nova(Slope(), opt, 3, at(w=1.0), server_lr=1e-12)
    for kept in played.kept:
        for k, mine in kept.items():
            way = 1.0 - float(mine.w["w"])
            assert way == pytest.approx(0.05 * float(mine.gone.u) * MINIMA[k], abs=1e-5)


@pytest.mark.parametrize(
    ("methods", "rest"),
    [
        ((("fedprox", {"mu": 0.1}), "fednova"), "proximal"),
        ((("fednova", {"effective": "steps"}),), ""),
    ],
)
def test_what_fednova_does_not_know(methods: tuple[Named, ...], rest: str) -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=f"several rounds in one upload.*{rest}"):
        composed(task, data, *methods, "phase_shift")


@pytest.mark.parametrize("keep", [True, False])
def test_superfed(keep: bool) -> None:
    """The federated end is corrected, the local one goes on; each batch draws its own lambda."""
    algorithm = SuPerFed(FedAvg(Fresh(), Sgd(0.05, 0.5), keep_optimizer=keep), 2, mu=0.3, nu=0.0)
    played = run(algorithm, 2, at(w=1.0))
    x, behind = 1.0, 0
    near, own, buffers = [1.0] * 6, [-2.0] * 6, [(0.0, 0.0)] * 6
    for t in range(ROUNDS):
        sent: dict[int, float] = {}
        for k, n in enumerate(SIZES):
            now, l = turn(k, t, 2), own[k]
            f = (behind * x + n * near[k]) / (behind + n) if now.later else x
            m, v = buffers[k] if now.later and keep else (0.0, 0.0)
            client = rng.fold_in(rng.client(rng.stream(0, "noise"), t, k), ClientStream.BATCHES)
            for step in range(2 * n):
                lam = float(rng.uniform(rng.fold_in(rng.fold_in(client, step), Stream.METHOD)))
                lam = lam if t >= 2 else 0.0
                error = (1 - lam) * f + lam * l - MINIMA[k]
                m = 0.5 * m + (1 - lam) * error + 0.3 * (f - x)
                v = 0.5 * v + lam * error
                f, l = f - 0.05 * m, l - 0.05 * v
            near[k], own[k], buffers[k] = f, l, (m, v)
            if now.sends:
                sent[k] = f
        behind = sum(SIZES[k] for k in sent)
        x = sum(SIZES[k] * sent[k] for k in sent) / behind
        assert played.trace()[t] == pytest.approx(x, **CLOSE)
        for k, mine in played.kept[t].items():
            local = mine.base.own if keep else mine.base
            assert float(mine.w["w"]) == pytest.approx(near[k], **CLOSE)
            assert float(local["w"]) == pytest.approx(own[k], **CLOSE)


class Fresh(Quadratic):
    """Whose new models are all at -2."""

    def init(self, key: Any) -> dict[str, torch.Tensor]:
        """The same for every key."""
        return at(w=-2.0)


def test_a_method_without_a_model_is_refused() -> None:
    """There is nothing to correct."""
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match="no model whose drift"):
        composed(task, data, "phase_shift", ("fedevg", {"per_class": 2}))


@pytest.mark.parametrize(
    ("methods", "own"),
    [
        (("fedavg",), False),
        (("scaffold",), False),
        (("lg_fedavg",), True),
        (("superfed_mm",), True),
    ],
)
def test_clients_have_models_of_their_own_if_the_method_gives_them_one(
    methods: tuple[str, ...], own: bool
) -> None:
    """Else one model serves all, and is judged once."""
    task, data = network_task("dense")
    for some in (methods, (*methods, "phase_shift")):
        algorithm = composed(task, data, *some).algorithm
        assert algorithm.personal_models is own
        down = algorithm.broadcast(algorithm.server_init(task.init(rng.key(7)), rng.key(0)))
        first, second = (
            algorithm.personal(down, algorithm.client_init(task.init(rng.key(i)), rng.key(i)))
            for i in (1, 2)
        )
        assert same(first, second) is not own
