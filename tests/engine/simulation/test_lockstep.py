"""Runs whose clients train in the same calls are the runs they would be alone."""

import signal
import threading
from dataclasses import replace
from typing import Any

import pytest
import torch

from unalike import tree
from unalike.engine.simulation import lockstep
from unalike.recipe import Recipe
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.rounds import rounds
from unalike.run.side_by_side import side_by_side

SETTINGS: dict[str, Any] = {
    "rounds": 3,
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet", "clients": 8, "alpha": 0.5},
    "model": {"name": "mlp", "hidden": [12]},
    "local": {"batch_size": 16, "lr": 0.1},
    "participation": {"number": 4},
    "engine": {"kind": "vectorized", "traced": False},
}
CLOSE = 1e-5  # of single precision after three rounds
METHODS = {
    "fedavg": {},
    "scaffold": {},
    "superfed_mm": {"start": 0.3},
    "feddisco": {},
    "fedaug": {"target": 0.5},
    "phase_shift": {},
    "aaggff_d": {},
    "lg_fedavg": {},
    "apfl": {},
    "fedevg": {"judge_epochs": 1},
    "fedcvae": {"judge_epochs": 1},
    "fedcgan": {"judge_epochs": 1},
}


def made(seed: int, **changes: Any) -> Any:
    """A run, ready to begin."""
    return experiment(parse({**SETTINGS, "seed": seed, **changes}))


def played(run: Any) -> tuple[list[torch.Tensor], list[dict[str, Any]]]:
    """What the server has in the end, and all records."""
    steps = list(rounds(run))
    server = tree.leaves(steps[-1].progress.state.stack)
    return server, [step.record for step in steps]


def distance(a: list[torch.Tensor], b: list[torch.Tensor]) -> float:
    """The largest difference of two numbers."""
    return max(float((one - other).abs().max()) for one, other in zip(a, b, strict=True))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:fedaug leaves")
def test_every_run_is_as_it_is_alone(method, monkeypatch):
    calls = list[int]()
    one = lockstep.together
    monkeypatch.setattr(
        lockstep,
        "together",
        lambda sim, plan, *a: calls.append(len(plan.ids)) or one(sim, plan, *a),
    )
    chosen = {"method": {"name": method, **METHODS[method]}}
    seeds = 3 if method == "fedavg" else 2
    several = side_by_side([made(seed, **chosen) for seed in range(seeds)], played)
    assert max(calls) >= 4 * seeds, "clients of all runs share a call"
    for seed, (server, records) in enumerate(several):
        alone, written = played(made(seed, **chosen))
        assert distance(server, alone) < CLOSE
        assert [r["clients"] for r in records] == [r["clients"] for r in written]
        assert [r["samples"] for r in records] == [r["samples"] for r in written]
    assert distance(several[0][0], several[1][0]) > 1e-3, "seeds differ"


def test_datasets_may_differ():
    noisy = {"shift": [{"name": "label_noise", "kind": "symmetric", "ratio": 0.4}]}
    runs = [{}, noisy, noisy]
    several = side_by_side([made(s, **change) for s, change in enumerate(runs)], played)
    for seed, (change, (server, _)) in enumerate(zip(runs, several, strict=True)):
        assert distance(server, played(made(seed, **change))[0]) < CLOSE


def test_runs_of_different_lengths_and_kinds():
    kinds = [
        {"rounds": 2},
        {},
        {"local": {**SETTINGS["local"], "decay": "exponential", "decay_rate": 0.5}},
        {"data": {"name": "breast_cancer"}},
        {"method": {"name": "fedprox", "mu": 0.5}},
        {"topology": {"name": "ring"}},
    ]
    several = side_by_side([made(s, **change) for s, change in enumerate(kinds)], played)
    for seed, (change, (server, records)) in enumerate(zip(kinds, several, strict=True)):
        alone, written = played(made(seed, **change))
        assert distance(server, alone) < CLOSE
        assert len(records) == len(written)


def test_a_learning_rate_that_depends_on_the_number_of_rounds():
    local = {**SETTINGS["local"], "decay": "cosine"}
    several = side_by_side([made(n, rounds=n, local=local) for n in (2, 4)], played)
    for n, (server, _) in zip((2, 4), several, strict=True):
        assert distance(server, played(made(n, rounds=n, local=local))[0]) < CLOSE


def test_one_dataset_may_begin_as_another_does():
    """As views of the same memory, of which a shorter one comes first."""
    half, whole = (made(seed).simulation for seed in range(2))
    all_of_them = whole.examples
    half.examples = replace(all_of_them, x=all_of_them.x[:900], y=all_of_them.y[:900])
    half.x, half.y = half.x[:900], half.y[:900]
    joint = lockstep.Lockstep([half, whole])
    assert joint._offset(whole) == 900


def test_runs_that_cannot_be_compared_train_by_themselves(monkeypatch):
    """A part of a user's own may raise anything where it is asked whether it equals another."""

    class Stubborn(frozenset[str]):
        def __eq__(self, other: object) -> bool:
            raise TypeError("no two are comparable")

        __hash__ = frozenset.__hash__

    monkeypatch.setattr(Recipe, "needs", Stubborn())
    several = side_by_side([made(seed) for seed in range(2)], played)
    for seed, (server, _) in enumerate(several):
        assert distance(server, played(made(seed))[0]) == 0


def test_a_run_that_fails_does_not_hold_the_others_up():
    ended = list[int]()

    def broken(run: Any) -> int:
        for step in rounds(run):
            if run.config.seed == 1 and step.round == 2:
                raise ValueError("of its own")
        ended.append(run.config.seed)
        return run.config.seed

    with pytest.raises(ValueError, match="of its own"):
        side_by_side([made(seed) for seed in range(3)], broken)
    assert sorted(ended) == [0, 2]


def test_what_fails_for_all_is_said_to_all(monkeypatch):
    def fails(*_: Any) -> Any:
        raise MemoryError("too many clients")

    monkeypatch.setattr(lockstep, "together", fails)
    with pytest.raises(MemoryError, match="too many clients"):
        side_by_side([made(seed) for seed in range(2)], played)


def test_runs_end_when_they_are_interrupted():
    """Ctrl-C comes to the thread that began them, while they train or wait."""
    last = list[int]()

    def long(run: Any) -> None:
        now = 0
        try:
            for step in rounds(run):
                now = step.round
                if run.config.seed == 0 and now == 2:
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        finally:
            last.append(now)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it behind "&"
    try:
        with pytest.raises(KeyboardInterrupt):
            side_by_side([made(seed, rounds=300) for seed in range(2)], long)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(last) == 2, "both have ended"
    assert max(last) < 300


def test_no_runs():
    assert side_by_side([], played) == []
