"""LG-FedAvg after rounds of FedAvg: what is averaged when, what travels, and what is judged."""

from pathlib import Path
from typing import Any

import pytest
import torch
from federations import (
    Data,
    Named,
    Played,
    at,
    composed,
    distance,
    kept_by,
    network_task,
    play,
    same,
    sampled,
    state_of,
)
from interrupted import assert_same_run, raw, whole
from private_factor import PRIVATE_F, TWO
from unalike.algorithms.warm_start import WarmStart

from unalike import rng, tree
from unalike.algorithms.fedavg import FedAvg
from unalike.errors import ConfigError
from unalike.parts.optim import Adam
from unalike.parts.schedule import Participation
from unalike.parts.topology import Ring
from unalike.recipe import Recipe
from unalike.run.config import parse
from unalike.run.execute import Silent, resume, start
from unalike.tasks import Task

TARGETS, SIZES = (2.0, -1.0), (1, 3)  # of TWO


def stepped(f: float, g: float, y: float) -> tuple[float, float]:
    """One step of rate 0.1 on 1/2 (g f - y)^2, both gradients at the same point."""
    r = g * f - y
    return f - 0.1 * r * g, g - 0.1 * r * f


def test_one_round_of_each_by_hand() -> None:
    """Round 1 averages f and g to 0.9625 and 0.425; round 2 starts there and averages g alone."""
    played = play(Recipe(WarmStart(PRIVATE_F, 1)), TWO, 3, at(f=1.0, g=0.5), batch_size=4)
    warm = played.states[1].servers[0].x
    assert (float(warm["f"]), float(warm["g"])) == pytest.approx((0.9625, 0.425), abs=1e-7)
    f, g = [0.9625, 0.9625], 0.425
    for t in (1, 2):
        ends = [stepped(f[k], g, TARGETS[k]) for k in (0, 1)]
        f, g = [end[0] for end in ends], sum(n * e[1] for n, e in zip(SIZES, ends, strict=True)) / 4
        for k in (0, 1):
            assert float(played.kept[t][k].private["f"]) == pytest.approx(f[k], abs=1e-7)
            assert bool(played.kept[t][k].own)
        server = played.states[t + 1].servers[0]
        assert float(server.x["g"]) == pytest.approx(g, abs=1e-7)
        assert float(server.x["f"]) == pytest.approx(0.9625, abs=1e-7)
    assert not any(bool(played.kept[0][k].own) for k in (0, 1))


def lg(warm_start: int, **settings: Any) -> Named:
    return "lg_fedavg", {"warm_start": warm_start, **settings}


def run(setting: tuple[Task, Data], *methods: Named, **parts: Any) -> Played:
    """The first four of ten rounds."""
    task, data = setting
    recipe = composed(task, data, *methods, rounds=10, **{**sampled(0.5, 1.5), **parts})
    return play(recipe, data, 4, engine="sequential", batch_size=16)


@pytest.mark.parametrize("network", ["conv", "dense"])
def test_all_rounds_warm_is_fedavg(network: str) -> None:
    """Bit for bit, with a server that remembers and with running statistics."""
    setting, parts = network_task(network), {"server_opt": Adam(0.01)}
    plain = run(setting, "fedavg", **parts)
    for warm_start in (4, 9):
        warm = run(setting, lg(warm_start), **parts)
        assert same(warm.x, plain.x)
        assert [r.traffic for r in warm.rounds] == [r.traffic for r in plain.rounds]
        model = warm.loop.recipe.algorithm.model(warm.server, rng.key(0))
        assert model is not None
        assert same(model, plain.x)


def test_no_round_warm_is_no_other_method() -> None:
    """The very record of before."""
    task, data = network_task("dense")
    recipe = composed(task, data, lg(0))
    assert recipe.algorithm == composed(task, data, "lg_fedavg").algorithm
    assert isinstance(recipe.algorithm, FedAvg)
    cold = play(composed(task, data, lg(0)), data)
    # The mathematics of a warm start of zero rounds is that of none: everybody begins with w.
    zero = play(Recipe(WarmStart(recipe.algorithm, 0)), data)
    assert distance(cold.x, {k: zero.x[k] for k in cold.x}) < 1e-6
    for i, mine in kept_by(zero.simulation).items():
        assert distance(kept_by(cold.simulation)[i], mine.private) < 1e-6


def test_the_second_stage_is_lg_fedavg_from_that_model() -> None:
    """The same as a run without warm start whose rounds 1 and 2 never happened."""
    task, data = network_task("dense")
    parts = sampled(1.0)
    warm = play(composed(task, data, lg(2), **parts), data, 4)
    cold = composed(task, data, "lg_fedavg", **parts)
    start = warm.states[2].servers[0].x
    other = play(cold, data, 0, start)
    state = other.loop.begin(start)
    for t in (2, 3):
        state, _ = other.loop.advance(state, t)
    assert distance(state.servers[0].x, {k: warm.x[k] for k in state.servers[0].x}) < 1e-6
    for i in range(data.n_clients):
        assert distance(kept_by(other.simulation)[i], kept_by(warm.simulation)[i].private) < 1e-6


def test_whoever_comes_late_starts_from_the_warm_model() -> None:
    """And is judged by it before: the private leaves of round 2, the shared ones of now."""
    task, data = network_task("dense")
    recipe = composed(task, data, lg(2), participation=Participation(number=2))
    played = play(recipe, data, 3)
    absent = next(i for i in range(6) if i not in played.rounds[2].ids.tolist())
    down = tree.row(played.loop.downs(played.states[3]), 0)
    judged = recipe.algorithm.personal(down, state_of(played.simulation, absent))
    warm = played.states[2].servers[0].x
    assert judged is not None
    for name, leaf in judged.items():
        shared = name.startswith("classifier.")
        assert torch.equal(leaf, (played.x if shared else warm)[name])
        assert torch.equal(leaf, warm[name]) == (not shared)
    present = int(played.rounds[2].ids[0])
    own = recipe.algorithm.personal(down, state_of(played.simulation, present))
    assert not any(torch.equal(own[k], warm[k]) for k in own if k.endswith("weight"))
    assert recipe.algorithm.model(played.states[2].servers[0], rng.key(0)) is warm
    assert recipe.algorithm.model(played.server, rng.key(0)) is None


def test_what_travels_in_which_round() -> None:
    """Whole models, then once the private part to all six, then the shared part alone."""
    task, data = network_task("conv")
    recipe = composed(task, data, lg(2), participation=Participation(number=3))
    played = play(recipe, data, 5)
    w = task.init(rng.key(7))
    whole = tree.size_bytes(w)
    head = tree.size_bytes({k: v for k, v in w.items() if k.startswith("6.")})
    assert [r.traffic.down for r in played.rounds] == [
        *[3 * whole] * 2,
        3 * head + 6 * (whole - head),
        *[3 * head] * 2,
    ]
    assert [r.traffic.up for r in played.rounds] == [
        *[3 * (whole + 8)] * 2,
        *[3 * (head + 8)] * 3,
    ]
    assert [r.traffic.messages for r in played.rounds] == [6, 6, 9, 6, 6]


@pytest.mark.parametrize("network", ["conv", "dense", "lstm"])
@pytest.mark.parametrize(
    "others", [(), ("fedprox", "fedadam", "aaggff_d")], ids=["alone", "with others"]
)
def test_both_engines(network: str, others: tuple[Named, ...]) -> None:
    """To ten digits in double precision, servers and clients."""
    task, data = network_task(network, torch.float64)
    recipe = composed(task, data, lg(2), *others, **sampled(0.5, 1.5))
    a, b = (play(recipe, data, engine=e, batch_size=16) for e in ("sequential", "vectorized"))
    assert distance(a.states[-1], b.states[-1]) < 1e-9
    assert kept_by(a.simulation).keys() == kept_by(b.simulation).keys()
    assert any(bool(mine.own) for mine in kept_by(a.simulation).values())
    for i, mine in kept_by(a.simulation).items():
        assert bool(mine.own) == bool(kept_by(b.simulation)[i].own)
        assert distance(mine, kept_by(b.simulation)[i]) < 1e-9


class Gone(BaseException):
    """Stands for the process being killed: nothing may catch it."""


class DieAfter(Silent):
    """Kills the run when so many rounds are done."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def round(self, record: dict[str, Any]) -> None:
        """Before the checkpoint of this round."""
        if record["round"] == self.rounds:
            raise Gone


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
@pytest.mark.parametrize("rounds", [3, 4, 5])
def test_a_killed_run_ends_the_same(rounds: int, engine: str, tmp_path: Path) -> None:
    """Before, at and after the change of stages; checkpoints are of rounds 2 and 4."""
    changes = {"method": {"name": "lg_fedavg", "warm_start": 3}, "engine": {"kind": engine}}
    folder = tmp_path / "killed"
    with pytest.raises(Gone):
        start(parse(raw(folder, changes)), DieAfter(rounds))
    assert_same_run(whole(tmp_path / "whole", changes), resume(folder))


@pytest.mark.parametrize("warm_start", [4, 9])
def test_a_start_that_never_ends_is_refused(warm_start: int) -> None:
    """It would be FedAvg under another name."""
    with pytest.raises(ConfigError, match=f"is {warm_start} of 4 rounds"):
        composed(*network_task("dense"), lg(warm_start), rounds=4)


def test_a_ring_is_refused() -> None:
    """There is no server to send the model to everybody."""
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match="warm_start of 'lg_fedavg' needs a server"):
        composed(task, data, lg(2), topology=Ring())


def test_noise_on_running_statistics_is_refused() -> None:
    """They are private later, but not in the first stage."""
    task, data = network_task("conv")
    composed(task, data, "lg_fedavg", ("dp", {"delta": 0.01}), **sampled(0.5))
    with pytest.raises(ConfigError, match="sends running statistics"):
        composed(task, data, lg(2), ("dp", {"delta": 0.01}), **sampled(0.5))
