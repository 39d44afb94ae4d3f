"""Clients that drop out, straggle or send garbage, the same ones for the same seed."""

from typing import Any

import pytest
import torch
from federations import composed, distance, federation, network_task, play, same, sampled

from unalike.engine.faults import Faults
from unalike.engine.server.guard import Guard


def run(faults: Faults, seed: int = 0, rounds: int = 4, name: str = "fedavg", **options: Any):
    """A faulty run with everybody planned."""
    task, data = network_task("dense")
    recipe = composed(task, data, name, **sampled(1.0))
    return play(recipe, data, rounds, faults=faults, seed=seed, **options)


def test_no_faults_change_nothing() -> None:
    """Bit for bit."""
    task, data = network_task("dense")
    assert not Faults().any
    assert same(run(Faults()).x, play(composed(task, data, "fedavg"), data).x)


@pytest.mark.parametrize(
    "faults",
    [Faults(drop=0.5), Faults(straggle=0.5), Faults(garbage=0.5), Faults(0.3, 0.3, 0.1, 0.3)],
)
def test_the_same_seed_has_the_same_faults(faults: Faults) -> None:
    """And another seed has others."""
    assert faults.any
    a, b, c = (run(faults, seed) for seed in (0, 0, 1))
    assert same(a.x, b.x)
    assert [r.ids.tolist() for r in a.rounds] == [r.ids.tolist() for r in b.rounds]
    assert not same(a.x, c.x)


def test_dropping_out_costs_a_download_and_no_upload() -> None:
    """A client that never answers is missing from the cohort, not from the plan."""
    played = run(Faults(drop=0.5), rounds=20)
    size = played.rounds[0].traffic.down // 6
    answered = [len(r.ids) for r in played.rounds]
    for done, n in zip(played.rounds, answered, strict=True):
        assert done.traffic.down == 6 * size
        assert done.traffic.up == n * (size + 8)
        assert done.traffic.messages == 6 + n
        assert not done.rejected
    assert 40 < sum(answered) < 80


def test_chances_are_what_they_say() -> None:
    """A thousand clients, once."""
    from federations import Quadratic, at, scalars

    from unalike.algorithms.fedavg import FedAvg
    from unalike.parts.optim import Sgd
    from unalike.recipe import Recipe

    recipe, data = Recipe(FedAvg(Quadratic(), Sgd(0.1))), scalars([1.0] * 1000, [10] * 1000)
    dropped = play(recipe, data, 1, at(w=0.0), faults=Faults(drop=0.3), batch_size=10)
    assert 630 < len(dropped.rounds[0].ids) < 770
    mad = play(recipe, data, 1, at(w=0.0), faults=Faults(garbage=0.2), batch_size=10)
    assert 140 < len(mad.rounds[0].rejected) < 260
    slow = play(recipe, data, 1, at(w=0.0), faults=Faults(straggle=1.0), batch_size=10)
    share = slow.rounds[0].worked["samples"] / 10_000
    assert share == pytest.approx(0.55, abs=0.03)  # between 0.1 and 1, uniformly


def test_who_fails_does_not_depend_on_what_else_fails_or_on_the_method() -> None:
    """Separate draws of the same client's key."""
    a = run(Faults(drop=0.4))
    b = run(Faults(drop=0.4, straggle=0.7, garbage=0.0))
    c = run(Faults(drop=0.4), name="scaffold")
    ids = [r.ids.tolist() for r in a.rounds]
    assert ids == [r.ids.tolist() for r in b.rounds] == [r.ids.tolist() for r in c.rounds]


def test_stragglers_do_a_part_but_at_least_something() -> None:
    """Even of one example."""
    task, _ = network_task("dense")
    data = federation(sizes=(1, 1, 40))
    recipe = composed(task, data, "fednova", **sampled(1.0))
    played = play(recipe, data, 5, faults=Faults(straggle=1.0, least_work=0.01))
    assert all(torch.isfinite(r.weights).all() for r in played.rounds)
    assert all(3 <= r.worked["samples"] < 42 for r in played.rounds)


@pytest.mark.parametrize(("kind", "refused"), [("nan", True), ("huge", True), ("zero", False)])
def test_kinds_of_garbage(kind: Any, refused: bool) -> None:
    """The guard sees what is wild; silence in disguise it cannot see."""
    played = run(Faults(garbage=0.4, kind=kind), rounds=6)
    assert any(r.rejected for r in played.rounds) == refused
    assert all(torch.isfinite(v).all() for v in played.x.values())


def test_noise_in_place_of_an_update() -> None:
    """Standard normal numbers, refused only by a narrow guard."""
    loose, narrow = (
        run(Faults(garbage=0.3, kind="noise"), guard=Guard(explode=e)) for e in (1e6, 5.0)
    )
    assert not any(r.rejected for r in loose.rounds)
    assert any(r.rejected for r in narrow.rounds)
    clean = run(Faults())
    assert distance(clean.x, narrow.x) < distance(clean.x, loose.x)


def test_everybody_may_drop_out() -> None:
    """The round is skipped and says how much was done: nothing."""
    played = run(Faults(drop=1.0))
    nothing = dict.fromkeys(("samples", "gradients", "looked", "padding"), 0.0)
    assert all(r.worked.items() >= nothing.items() for r in played.rounds)
    assert all(r.skipped for r in played.rounds)
    assert all(r.traffic.up == 0 for r in played.rounds)
    assert same(played.states[0], played.states[-1])


@pytest.mark.parametrize("name", ["phase_shift", "aaggff_d", "fedep", "fedevg", "lg_fedavg"])
def test_methods_live_with_faults(name: str) -> None:
    """Ten rounds of everything at once."""
    played = run(Faults(0.3, 0.3, 0.1, 0.2), rounds=10, name=name)
    assert any(not r.skipped for r in played.rounds)
    server = played.server
    leaves = server.x.values() if isinstance(server.x, dict) else [server.x]
    assert all(torch.isfinite(v).all() for v in leaves)


def test_both_engines_have_the_same_faults() -> None:
    """Faults are drawn outside the engine."""
    faults = Faults(0.3, 0.3, 0.1, 0.2)
    a, b = (run(faults, engine=e) for e in ("sequential", "vectorized"))
    assert [r.ids.tolist() for r in a.rounds] == [r.ids.tolist() for r in b.rounds]
    assert distance(a.x, b.x) < 1e-5
