"""LG-FedAvg after rounds of FedAvg: what is averaged when, what travels, and what is judged."""

from dataclasses import replace
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
    drafted,
    kept_by,
    network_task,
    play,
    same,
    sampled,
    state_of,
    walk,
)
from interrupted import assert_same_run, raw, whole
from private_factor import PRIVATE_F, TWO

from unalike import rng, tree
from unalike.algorithms.fedavg import FedAvg
from unalike.errors import ConfigError
from unalike.parts.optim import Adam
from unalike.parts.private import SHARED
from unalike.parts.schedule import Participation
from unalike.parts.topology import Ring, Rotating
from unalike.recipe import Recipe, Stage
from unalike.run.configuration.config import parse
from unalike.run.execute import Silent, resume, start
from unalike.tasks import Task

TARGETS, SIZES = (2.0, -1.0), (1, 3)  # of TWO


def lg(warm_start: int, **settings: Any) -> Named:
    return "lg_fedavg", {"warm_start": warm_start, **settings}


def stepped(f: float, g: float, y: float) -> tuple[float, float]:
    """One step of rate 0.1 on 1/2 (g f - y)^2, both gradients at the same point."""
    r = g * f - y
    return f - 0.1 * r * g, g - 0.1 * r * f


def test_the_program() -> None:
    """FedAvg on the whole model, then LG-FedAvg from that model, in as many rounds as one run."""
    task, data = network_task("conv")
    draft = drafted(task, data, lg(3, step="sequential"), "fedprox", rounds=10)
    first, second = draft.program()
    assert (first.rounds, second.rounds) == (3, 7)
    assert (first.start, second.start) == ("fresh", "model")
    assert first.recipe == composed(task, data, "fedprox", rounds=10)
    assert second.recipe == composed(task, data, lg(0, step="sequential"), "fedprox", rounds=10)
    cold = drafted(task, data, lg(0), rounds=10).program()
    assert [stage.rounds for stage in cold] == [10]
    assert isinstance(cold[0].recipe.algorithm, FedAvg)


def test_one_round_of_each_by_hand() -> None:
    """Round 1 averages f and g to 0.9625 and 0.425; round 2 starts there and averages g alone."""
    whole = Recipe(replace(PRIVATE_F, private=SHARED))
    program = (Stage(whole, 1), Stage(Recipe(PRIVATE_F), 2, "model"))
    played = walk(program, TWO, w=at(f=1.0, g=0.5), batch_size=4)
    warm = played.states[1].servers[0].x
    assert (float(warm["f"]), float(warm["g"])) == pytest.approx((0.9625, 0.425), abs=1e-7)
    f, g = [0.9625, 0.9625], 0.425
    for t in (1, 2):
        ends = [stepped(f[k], g, TARGETS[k]) for k in (0, 1)]
        f, g = [end[0] for end in ends], sum(n * e[1] for n, e in zip(SIZES, ends, strict=True)) / 4
        for k in (0, 1):
            assert float(played.kept[t][k]["f"]) == pytest.approx(f[k], abs=1e-7)
        x = played.states[t + 1].servers[0].x
        assert float(x["g"]) == pytest.approx(g, abs=1e-7)
        assert "f" not in x


def run(setting: tuple[Task, Data], *methods: Named, **parts: Any) -> Played:
    """The first four of ten rounds."""
    task, data = setting
    draft = drafted(task, data, *methods, rounds=10, **{**sampled(0.5, 1.5), **parts})
    return walk(draft.program(), data, 4, engine="sequential", batch_size=16)


@pytest.mark.parametrize("network", ["conv", "dense"])
def test_the_first_stage_is_fedavg(network: str) -> None:
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


def test_the_second_stage_is_lg_fedavg_from_that_model() -> None:
    """The same as a run without warm start whose rounds 1 and 2 never happened."""
    task, data = network_task("dense")
    warm = walk(drafted(task, data, lg(2)).program(), data)
    start = warm.states[2].servers[0].x
    other = play(composed(task, data, "lg_fedavg"), data, 0, start)
    state = other.loop.begin(start)
    for t in (2, 3):
        state, _ = other.loop.advance(state, t)
    assert same(state.servers[0].x, warm.x)
    for i in range(data.n_clients):
        assert same(kept_by(other.simulation)[i], kept_by(warm.simulation)[i])


def test_in_turns_after_the_warm_start() -> None:
    """From f = 0.9625 and g = 0.425 of round 1, where both moved together."""
    whole = Recipe(replace(PRIVATE_F, private=SHARED))
    turns = Recipe(replace(PRIVATE_F, step="sequential"))
    program = (Stage(whole, 1), Stage(turns, 1, "model"))
    played = walk(program, TWO, w=at(f=1.0, g=0.5), batch_size=4)
    g = 0.0
    for k, (y, n) in enumerate(zip(TARGETS, SIZES, strict=True)):
        f = 0.9625 - 0.1 * (0.425 * 0.9625 - y) * 0.425
        assert float(played.kept[1][k]["f"]) == pytest.approx(f, abs=1e-7)
        g += n / 4 * (0.425 - 0.1 * (0.425 * f - y) * f)
    assert float(played.x["g"]) == pytest.approx(g, abs=1e-7)


def test_whoever_comes_late_starts_from_the_warm_model() -> None:
    """And is judged by it before: the private leaves of round 2, the shared ones of now."""
    task, data = network_task("dense")
    draft = drafted(task, data, lg(2), participation=Participation(number=2))
    played = walk(draft.program(), data, 3)
    algorithm = draft.algorithm()
    absent = next(i for i in range(6) if i not in played.rounds[2].ids.tolist())
    down = tree.row(played.loop.downs(played.states[3]), 0)
    judged = algorithm.personal(down, state_of(played.simulation, absent))
    warm = played.states[2].servers[0].x
    assert judged is not None
    for name, leaf in judged.items():
        shared = name.startswith("classifier.")
        assert torch.equal(leaf, (played.x if shared else warm)[name])
        assert torch.equal(leaf, warm[name]) == (not shared)
    present = int(played.rounds[2].ids[0])
    own = algorithm.personal(down, state_of(played.simulation, present))
    assert not any(torch.equal(own[k], warm[k]) for k in own if k.endswith("weight"))
    assert algorithm.model(played.server, rng.key(0)) is None


def test_what_travels_in_which_round() -> None:
    """Whole models, then once the private part to all six, then the shared part alone."""
    task, data = network_task("conv")
    draft = drafted(task, data, lg(2), participation=Participation(number=3), rounds=5)
    played = walk(draft.program(), data)
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


@pytest.mark.parametrize("network", ["conv", "dense", "lstm"])
@pytest.mark.parametrize(
    "others", [(), ("fedprox", "fedadam", "aaggff_d")], ids=["alone", "with others"]
)
def test_both_engines(network: str, others: tuple[Named, ...]) -> None:
    """To ten digits in double precision, servers and clients."""
    task, data = network_task(network, torch.float64)
    program = drafted(task, data, lg(2), *others, **sampled(0.5, 1.5)).program()
    a, b = (walk(program, data, engine=e, batch_size=16) for e in ("sequential", "vectorized"))
    assert distance(a.states[-1], b.states[-1]) < 1e-9
    assert kept_by(a.simulation).keys() == kept_by(b.simulation).keys()
    for i, mine in kept_by(a.simulation).items():
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
    composed(task, data, lg(2), topology=Rotating())


def test_noise_on_running_statistics_is_refused() -> None:
    """They are private later, but not in the first stage."""
    task, data = network_task("conv")
    composed(task, data, "lg_fedavg", ("dp", {"delta": 0.01}), **sampled(0.5))
    with pytest.raises(ConfigError, match="sends running statistics"):
        composed(task, data, lg(2), ("dp", {"delta": 0.01}), **sampled(0.5))
