"""Weights that are learned from round to round, on graphs: a learner for each neighbourhood."""

import time
from typing import Any

import numpy as np
import pytest
import torch
from federations import Quadratic, at, composed, play, scalars
from numpy.typing import NDArray
from weighing import newton_plainly

from unalike.errors import ConfigError
from unalike.parts.graphs import Gossip, Random
from unalike.parts.optim import Sgd
from unalike.parts.topology import Clusters, Complete, Exponential, Ring, Star, Topology

Array = NDArray[np.float64]
LEARNERS = ("aaggff_s", "aaggff_d", "afl")
TARGETS = [0.3, -1.2, 2.0, 0.8, -0.4]
RATE, ROUNDS = 0.25, 6


def played(method: str, topology: Topology, **settings: Any) -> tuple[list[Array], Any]:
    """Scalars that walk towards their targets: all servers' after every round."""
    data = scalars(TARGETS)
    named = (method, settings)
    parts = {"opt": Sgd(RATE), "topology": topology, "rounds": ROUNDS}
    seen = play(composed(Quadratic(), data, named, **parts), data, ROUNDS, at(w=0.5))
    return [np.array([float(s.x["w"]) for s in state.servers]) for state in seen.states], seen


def by_hand(decide: Any) -> list[Array]:
    """The ring: losses of what each has, a step of its own, then its neighbours by its decision."""
    a, n = np.array(TARGETS), len(TARGETS)
    w, losses, found = np.full(n, 0.5), list[Array](), []
    for _ in range(ROUNDS):
        losses.append((w - a) ** 2 / 2)
        stepped = w - RATE * (w - a)
        near = [sorted({(j - 1) % n, j, (j + 1) % n}) for j in range(n)]
        w = np.array([decide(np.array(losses)[:, s]) @ stepped[s] for s in near])
        found.append(w)
    return found


def ascended(losses: Array) -> Array:
    """AFL: ascent on the weights of three, projected onto the simplex by its definition."""
    p = np.full(3, 1 / 3)
    for loss in losses:
        v = p + 0.3 * (loss - loss.mean())
        down = np.sort(v)[::-1]
        excess = (np.cumsum(down) - 1) / np.arange(1, 4)
        p = np.maximum(v - excess[np.flatnonzero(down > excess)[-1]], 0)
    return p


def test_rules_on_a_large_complete_graph_are_quick() -> None:
    """Each of 800 nodes weighs all of them: 640,000 neighbours in a few seconds, not in twenty."""
    data = scalars(list(range(800)))
    made = composed(
        Quadratic(), data, ("term", {"tilt": 0.001}), opt=Sgd(RATE), topology=Complete()
    )
    began = time.process_time()
    play(made, data, 2, at(w=0.5))
    assert time.process_time() - began < 2.5


def test_aaggff_s_on_a_ring_by_hand() -> None:
    found, _ = played("aaggff_s", Ring())
    for ours, theirs in zip(found[1:], by_hand(newton_plainly), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-8)


def test_afl_on_a_ring_by_hand() -> None:
    found, _ = played("afl", Ring(), rate=0.3)
    for ours, theirs in zip(found[1:], by_hand(ascended), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-12)


def test_a_learner_that_forgot_would_give_other_numbers() -> None:
    found, _ = played("aaggff_s", Ring())
    forgetful = by_hand(lambda losses: newton_plainly(losses[-1:]))
    assert np.abs(found[-1] - forgetful[-1]).max() > 1e-4


@pytest.mark.parametrize("method", LEARNERS)
def test_on_a_complete_graph_everybody_is_the_star(method: str) -> None:
    """All learn from the same losses, and average the same models."""
    star, _ = played(method, Star())
    found, _ = played(method, Complete())
    for one, all_ in zip(star, found, strict=True):
        assert all_ == pytest.approx(np.repeat(one, len(TARGETS)), abs=1e-12)


def test_a_learner_keeps_its_neighbours_alone() -> None:
    """A thousand learners of three clients each, not of a thousand."""
    _, seen = played("aaggff_s", Ring())
    assert [m.p.shape for m in seen.states[-1].mixing] == [(3,)] * len(TARGETS)


@pytest.mark.parametrize("method", LEARNERS)
def test_neighbours_behind_lost_links_are_missed_for_a_round(method: str) -> None:
    found, seen = played(method, Ring(link_loss=0.5, seed=1))
    heard = [len(r.mixed[j]) for r in seen.rounds for j in r.mixed]
    assert {1, 2, 3} == set(heard)
    assert np.isfinite(found[-1]).all()
    decisions = torch.stack([m if method == "afl" else m.p for m in seen.states[-1].mixing])
    assert torch.allclose(decisions.sum(1), torch.ones(len(TARGETS), dtype=torch.float64))


@pytest.mark.parametrize("method", LEARNERS)
@pytest.mark.parametrize(
    "topology", [Gossip(), Exponential(one_peer=True), Random(redraw=2)], ids=lambda t: repr(t)[:9]
)
def test_neighbours_that_change_are_refused(method: str, topology: Topology) -> None:
    with pytest.raises(ConfigError, match="the same neighbours in every round"):
        played(method, topology)


@pytest.mark.parametrize("method", LEARNERS)
def test_servers_of_clusters_are_refused(method: str) -> None:
    with pytest.raises(ConfigError, match="must see the losses of all clients"):
        played(method, Clusters(2, 2))
