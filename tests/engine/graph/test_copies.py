"""Compression on graphs (CHOCO): oracles in NumPy, bytes by hand, limits, what converges."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from federations import (
    Handmade,
    Played,
    composed,
    distance,
    network_task,
    play,
    same,
    sampled,
    scalars,
)
from torch import Tensor

from unalike import rng, tree
from unalike.batches import Batch
from unalike.compare.execution.budget import Forecast
from unalike.engine.faults import Faults
from unalike.engine.graph.combine import combine
from unalike.engine.graph.neighbours import metropolis
from unalike.engine.server.guard import Guard
from unalike.errors import ConfigError
from unalike.parts.compression import copies as parts_copies
from unalike.parts.compression.copies import Copies
from unalike.parts.graphs import Given, Gossip, Random
from unalike.parts.optim import Sgd
from unalike.parts.participation.clock import Clock, Rate
from unalike.parts.participation.schedule import Late
from unalike.parts.topology import Complete, Exponential, Ring, Topology
from unalike.recipe import Decay
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.tree import Params

N = 188  # weights of the perceptron, in six leaves
KITE = Given(((0, 1), (1, 2), (2, 3), (3, 1), (3, 4)), weights="metropolis")  # degrees 1 3 2 3 1
LARGE = Random("regular", degree=4, weights="metropolis")
ETA = 0.25
METHODS = ["topk", "random_mask", "stc", "eight_bit", "sign"]
SETTINGS: dict[str, dict[str, Any]] = {"topk": {"share": 0.1}, "stc": {"share": 0.05}}


def named(name: str, **settings: Any) -> tuple[str, dict[str, Any]]:
    return name, {**SETTINGS.get(name, {}), **settings}


class Bowl(Handmade):
    """1/2 |w - x|^2: a row is the place of its own minimum."""

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row."""
        return 0.5 * (w["w"] - batch.x).square().sum(-1)


def centres(n: int, d: int) -> np.ndarray:
    """Where the nodes' own minima are."""
    return np.random.default_rng(3).normal(size=(n, d)) + 1.0


def descended(n: int, d: int, rounds: int, *methods: Any, **parts: Any) -> Played:
    """Nodes with a minimum each, one step a round."""
    data, w = scalars(centres(n, d).tolist()), {"w": torch.zeros(d, dtype=torch.float64)}
    parts = {"opt": Sgd(ETA), "rounds": rounds, **parts}
    recipe = composed(Bowl(), data, *methods, **parts)
    return play(recipe, data, rounds, w, batch_size=1, guard=Guard(1e9))


def models(played: Played) -> np.ndarray:
    return np.stack([s.x["w"].numpy() for s in played.states[-1].servers])


def matrix(graph: Topology, n: int) -> np.ndarray:
    """Metropolis weights, entry by entry."""
    edges = graph.links(0, n)
    assert edges is not None
    pairs = [(j, i) for j, i in edges.tolist() if i != j]
    degree = [sum(j == k for j, _ in pairs) for k in range(n)]
    w = np.zeros((n, n))
    for j, i in pairs:
        w[j, i] = 1 / (1 + max(degree[j], degree[i]))
    return w + np.diag(1 - w.sum(1))


def largest(v: np.ndarray, k: int) -> np.ndarray:
    out = np.zeros_like(v)
    at = np.argsort(-np.abs(v))[:k]
    out[at] = v[at]
    return out


def to_bytes(v: np.ndarray) -> np.ndarray:
    scale = np.abs(v).max() / 127
    return np.round(v / scale) * scale


# -- oracles -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "code", "gamma"),
    [
        (("topk", {"share": 0.2, "consensus_step": 0.3}), lambda v: largest(v, 4), 0.3),
        (("eight_bit", {"rounding": "nearest", "consensus_step": 0.7}), to_bytes, 0.7),
    ],
)
@pytest.mark.parametrize(("graph", "n"), [(KITE, 5), (LARGE, 30)])
def test_oracle_on_a_graph(method: Any, code: Any, gamma: float, graph: Topology, n: int) -> None:
    """An irregular one, and one so large that models are summed in their own places: six rounds."""
    minima, w = centres(n, 20), matrix(graph, n)
    x, y = np.zeros((n, 20)), np.zeros((n, 20))
    for _ in range(6):
        x = x - ETA * (x - minima)
        y = y + np.stack([code(v) for v in x - y])
        x = x + gamma * (w @ y - y)
    found = descended(n, 20, 6, method, topology=graph)
    np.testing.assert_allclose(models(found), x, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.states[-1].copies["w"].numpy(), y, rtol=1e-6, atol=1e-9)


def test_oracle_of_gradient_tracking() -> None:
    """Models and directions have a copy each, and the five largest entries of each travel."""
    minima, w, gamma = centres(5, 20), matrix(KITE, 5), 0.4
    x, c, z, y, d = (np.zeros((5, 20)) for _ in range(5))
    for _ in range(6):
        new = x - ETA * (x - minima + c)
        z = (x - new) / ETA
        y = y + np.stack([largest(v, 5) for v in new - y])
        d = d + np.stack([largest(v, 5) for v in z - d])
        x = new + gamma * (w @ y - y)
        c = c + gamma * (w @ d - d)
    method = ("topk", {"share": 0.25, "consensus_step": gamma})
    found = descended(5, 20, 6, "scaffold", method, topology=replace(KITE, weights="rule"))
    np.testing.assert_allclose(models(found), x, rtol=1e-6, atol=1e-9)
    assert np.abs(c).max() > 0.1
    np.testing.assert_allclose(found.states[-1].stack.c["w"].numpy(), c, rtol=1e-6, atol=1e-9)


def test_the_plain_mean_stays_where_it_is() -> None:
    """With symmetric weights, whatever is left out: it descends on the mean of the objectives."""
    found = descended(5, 20, 7, ("topk", {"share": 0.05}), topology=KITE)
    wanted = (1 - (1 - ETA) ** 7) * centres(5, 20).mean(0)
    np.testing.assert_allclose(models(found).mean(0), wanted, rtol=1e-6)


# -- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [Ring(), KITE, Complete()])
@pytest.mark.parametrize("name", ["topk", "random_mask"])
def test_everything_and_all_the_way_is_no_compression(graph: Topology, name: str) -> None:
    """Bit for bit."""
    plain = descended(5, 6, 4, "fedavg", topology=graph)
    whole = descended(5, 6, 4, (name, {"share": 1.0, "consensus_step": 1.0}), topology=graph)
    assert same(plain.states[-1], whole.states[-1])
    assert [r.traffic for r in plain.rounds] == [r.traffic for r in whole.rounds]


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "aaggff_s"])
def test_copies_that_lack_nothing(method: str) -> None:
    """The same by way of copies, up to the last digits, which a sum and a difference take."""
    task, data = network_task("conv", torch.float64)
    recipe = composed(task, data, method, topology=Ring())
    plain = play(recipe, data)
    ours = play(replace(recipe, copies=Copies((), 1.0)), data)
    assert distance(plain.states[-1].stack, ours.states[-1].stack) < 1e-12
    assert [r.traffic for r in plain.rounds] == [r.traffic for r in ours.rounds]


def test_a_share_of_one_with_a_short_step() -> None:
    """Whole differences, but lazy nodes: x <- (1 - gamma) x + gamma W x."""
    minima, w, x = centres(5, 6), matrix(KITE, 5), np.zeros((5, 6))
    for _ in range(4):
        x = x - ETA * (x - minima)
        x = 0.75 * x + 0.25 * w @ x
    found = descended(5, 6, 4, ("topk", {"share": 1.0, "consensus_step": 0.25}), topology=KITE)
    np.testing.assert_allclose(models(found), x, rtol=1e-6)


def test_the_shortest_step_of_several() -> None:
    task, data = network_task("dense")
    both = composed(task, data, ("topk", {"consensus_step": 0.2}), "eight_bit", topology=Ring())
    assert both.copies is not None
    assert both.copies.step == 0.2
    assert not both.channel


# -- convergence ---------------------------------------------------------------------------------


def gap(x: np.ndarray) -> float:
    """The distance of the worst node to the optimum, in units of where the run began."""
    best = centres(*x.shape).mean(0)
    return float(np.linalg.norm(x - best, axis=1).max() / np.linalg.norm(best))


def gossiped(rounds: int, rate: float, *methods: Any, d: int = 100) -> np.ndarray:
    """Five nodes on a ring, a step of descent and a message a round: without the engine."""
    n, ring = 5, Ring(weights="metropolis")
    minima, decay = torch.from_numpy(centres(n, d)), Decay("cosine", rounds=rounds)
    recipe = composed(Bowl(), scalars(minima.tolist()), *methods, topology=ring)
    assert recipe.copies is not None
    edges = ring.links(0, n)
    assert edges is not None
    weights = metropolis(edges, n)
    x, y = ({"w": torch.zeros(n, d, dtype=torch.float64)} for _ in range(2))
    for t in range(rounds):
        x = {"w": x["w"] - rate * decay(t) * (x["w"] - minima)}
        y, _ = recipe.copies.told(x, y, torch.arange(n), rng.fold_in(rng.key(5), t))
        x = recipe.copies.moved(x, y, combine({"w": y["w"].clone()}, edges, weights))
    return x["w"].numpy()


def test_one_per_cent_converges() -> None:
    """One entry of a hundred travels, and every node comes to the optimum of the mean objective.

    Models that are cut down themselves, with the same steps, do not.
    """
    rounds, rate, (n, d) = 2500, 0.02, (5, 100)
    assert gap(gossiped(rounds, rate, "topk")) < 0.02
    w, minima, decay = matrix(Ring(), n), centres(n, d), Decay("cosine", rounds=rounds)
    x = np.zeros((n, d))
    for t in range(rounds):
        x = x - rate * decay(t) * (x - minima)
        sent = np.stack([largest(v, 1) for v in x])
        x = x + 0.04 * (w @ sent - sent)
    assert gap(x) > 0.5


@pytest.mark.parametrize(
    "method",
    [
        ("topk", {"share": 0.05, "consensus_step": 0.2}),  # four times the share, as by default
        ("stc", {"share": 0.05, "consensus_step": 0.2}),
        ("random_mask", {}),
        ("eight_bit", {}),
        ("sign", {}),
    ],
)
def test_default_steps_converge(method: Any) -> None:
    """No step is so long that it throws nodes apart, or so short that they stay there."""
    assert gap(gossiped(400, 0.1, method)) < 0.05


def test_a_step_can_be_too_long() -> None:
    """All the way with one entry of a hundred: copies lag behind, and nodes overshoot."""
    far = gossiped(400, 0.02, ("topk", {"share": 0.01, "consensus_step": 1.0}))
    assert not gap(far) < 0.5


def test_gradient_tracking_comes_to_rest_at_the_optimum() -> None:
    """At a rate that stays, where models alone rest apart, each drawn to its own minimum."""
    method = ("topk", {"share": 0.25, "consensus_step": 0.3})
    tracked = descended(5, 20, 120, "scaffold", method, topology=Ring(), opt=Sgd(0.1))
    assert gap(models(tracked)) < 0.01
    assert gap(models(descended(5, 20, 120, method, topology=Ring(), opt=Sgd(0.1)))) > 0.1


# -- what is sent --------------------------------------------------------------------------------

TASK, DATA = network_task("dense")
BYTES = {  # of a message, by hand
    "topk": 18 * (4 + 1),  # 18 of 188 numbers, and their places in a byte each
    "random_mask": 18 * 4 + 4,  # and a seed
    "eight_bit": N + 6 * 4,  # a byte each, and a scale for each of six leaves
    "sign": sum(-(-n // 8) for n in (112, 7, 42, 6, 18, 3)) + 6 * 4,
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_by_hand(name: str) -> None:
    """Six nodes on a ring have two neighbours each, from the first round on."""
    played = play(composed(TASK, DATA, named(name), topology=Ring()), DATA, 2)
    for report in played.rounds:
        assert report.traffic == (0, 0, 12 * BYTES[name], 12)
        assert (report.load.at_once, report.load.link) == (12 * BYTES[name], 2 * BYTES[name])


def test_bytes_of_two_vectors() -> None:
    """Gradient tracking tells a model and a direction, cut down one by one."""
    found = play(composed(TASK, DATA, "scaffold", named("topk"), topology=Ring()), DATA, 1)
    assert found.rounds[0].traffic.across == 12 * 2 * BYTES["topk"]


def test_a_code_is_counted_as_long_as_it_is() -> None:
    found = play(composed(TASK, DATA, ("stc", {"share": 0.2}), topology=Ring()), DATA, 3)
    sizes = {r.traffic.across for r in found.rounds}
    assert len(sizes) > 1
    least, most = 37 * 3, 37 * 3 + (N - 37) // 4  # bits of the places
    low, high = (12 * (4 + 5 + -(-bits // 8)) for bits in (least, most))
    assert all(low <= size <= high for size in sizes)


def test_copies_of_those_that_sit_a_round_out_are_kept_up() -> None:
    """Three of six take part: they tell both neighbours, and nobody's copy moves but theirs."""
    recipe = composed(TASK, DATA, named("topk"), topology=Ring(), **sampled(0.5))
    played = play(recipe, DATA, 3)
    for before, after, report in zip(played.states, played.states[1:], played.rounds, strict=False):
        assert report.traffic.across == 3 * 2 * BYTES["topk"]
        for i in range(6):
            one, other = tree.row(before.copies, i), tree.row(after.copies, i)
            assert same(one, other) == (i not in report.ids.tolist())
            asleep = same(tree.row(before.stack, i), tree.row(after.stack, i))
            assert asleep == (i not in report.ids.tolist())


def test_nodes_that_fail_and_rounds_that_are_skipped() -> None:
    recipe = composed(TASK, DATA, named("topk"), topology=Ring())
    played = play(recipe, DATA, 6, faults=Faults(drop=0.5), guard=Guard(min_replies=3))
    assert any(r.skipped for r in played.rounds)
    assert any(0 < len(r.ids) < 6 for r in played.rounds if not r.skipped)
    for before, after, report in zip(played.states, played.states[1:], played.rounds, strict=False):
        assert same(before.copies, after.copies) == bool(report.skipped)


def test_seconds_are_those_of_the_messages() -> None:
    """Two messages leave a node at once at 50 bytes a second; the slowest has 40 examples."""
    clock = Clock(Rate(10.0), Rate(1e9), Rate(50.0), latency=0.5)
    recipe = composed(TASK, DATA, named("topk"), topology=Ring(), clock=clock)
    assert play(recipe, DATA, 1).rounds[0].seconds == pytest.approx(4.0 + 0.5 + 2 * 90 / 50)


def test_a_forecast_knows_the_bytes() -> None:
    raw = {
        "rounds": 3,
        "method": "topk",
        "topology": "ring",
        "participation": {"fraction": 0.5},
        "partition": {"name": "dirichlet", "clients": 6, "min_size": 30},
        "model": {"name": "mlp", "hidden": [8]},
    }
    made = experiment(parse(raw))
    k = int(0.01 * (64 * 8 + 8 + 8 * 10 + 10))
    assert Forecast(made).total(3).bytes == 3 * 3 * 2 * k * (4 + 2)


# -- engines and blocks --------------------------------------------------------------------------


@pytest.mark.parametrize("beside", ["fedavg", "scaffold", "lg_fedavg"])
@pytest.mark.parametrize("name", METHODS)
def test_both_engines(name: str, beside: str) -> None:
    task, data = network_task("conv", torch.float64)
    recipe = composed(task, data, beside, named(name), topology=Ring(), **sampled(0.7))
    one, many = (play(recipe, data, engine=e) for e in ("sequential", "vectorized"))
    assert distance(one.states[-1].stack, many.states[-1].stack) < 1e-9
    assert distance(one.states[-1].copies, many.states[-1].copies) < 1e-9
    assert [r.traffic for r in one.rounds] == [r.traffic for r in many.rounds]


@pytest.mark.parametrize("name", METHODS)
def test_nodes_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many at once as fit: the same bits."""
    recipe = composed(TASK, DATA, named(name), topology=Ring())
    all_ = play(recipe, DATA)
    monkeypatch.setattr(parts_copies, "AT_ONCE", 2 * 4 * N)
    assert same(all_.states[-1], play(recipe, DATA).states[-1])


# -- refusals --------------------------------------------------------------------------------------

SOME = "none may be missed; "


@pytest.mark.parametrize(
    ("methods", "parts", "words"),
    [
        (("topk",), {"topology": Gossip()}, SOME + "use a graph that does not"),
        (("topk",), {"topology": Random(redraw=2)}, SOME + "use a graph that does not"),
        (("topk",), {"topology": Exponential(one_peer=True)}, SOME + "use a graph that does not"),
        (("sign",), {"topology": Ring(link_loss=0.1)}, SOME + "set topology.link_loss = 0"),
        (("stc",), {"clock": Clock(Rate(1.0), Rate(1.0), Rate(1.0), deadline=9.0)}, "deadline out"),
        (("topk",), {"late": Late(1, 2)}, SOME + "set participation.late = 0"),
        ((("topk", {"direction": "down"}),), {}, 'direction = "down" needs a server'),
        (("fedproto", "topk"), {}, "no update of a model to compress"),
        ((("topk", {"consensus_step": 0.5}),), {"topology": "star"}, "consensus_step is for"),
        ((("topk", {"consensus_step": 0.5}),), {"topology": "clusters"}, "consensus_step is for"),
    ],
)
def test_what_is_refused(methods: Any, parts: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        composed(TASK, DATA, *methods, **{"topology": Ring(), **parts})


def test_scaffold_needs_no_feedback_there() -> None:
    """Nothing is lost, since copies are the memory."""
    composed(TASK, DATA, "scaffold", "eight_bit", topology=Ring())
    with pytest.raises(ConfigError, match="set feedback = true"):
        composed(TASK, DATA, "scaffold", "eight_bit")
    one, other = (
        play(composed(TASK, DATA, named("topk", feedback=f), topology=Ring()), DATA)
        for f in (True, False)
    )
    assert same(one.states[-1], other.states[-1])
