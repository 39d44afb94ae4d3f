"""Stages as one sequence of rounds: where each begins, what that costs, and resuming in between."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from autoencoders import vae
from federations import (
    GUARD,
    Data,
    composed,
    drafted,
    federation,
    kept_by,
    network_task,
    play,
    same,
    sampled,
)
from interrupted import DieAfter, Killed, assert_same_run, raw

from unalike import rng, tree
from unalike.algorithms.draft import Draft
from unalike.engine.course import Course, Progress
from unalike.engine.simulation.simulate import Simulation
from unalike.engine.traffic.ledger import Traffic
from unalike.errors import ConfigError
from unalike.parts.topology import Rotating
from unalike.recipe import Decay, Program, Stage
from unalike.run.configuration.config import Config, parse
from unalike.run.execute import resume, start

HALF = sampled(0.5, 1.5)
WARM = 2, 3  # rounds of FedAvg, and of LG-FedAvg after it


def course(program: Program, data: Data) -> tuple[Course, Simulation]:
    """A program over clients of its own."""
    first = program[0].recipe
    w = first.algorithm.task.init(rng.key(7))
    simulation = Simulation(first, data.examples, data.rows, w, data.n_clients)
    return Course(program, simulation, 0, GUARD, w), simulation


def warm(network: str, **parts: Any) -> tuple[Draft, Data]:
    """LG-FedAvg after some rounds of FedAvg."""
    task, data = network_task(network)
    method = ("lg_fedavg", {"warm_start": WARM[0]})
    return drafted(task, data, method, rounds=sum(WARM), batch_size=8, **{**HALF, **parts}), data


def gone(stages: Course, upto: int) -> tuple[list[Progress], list[Any], list[Traffic]]:
    """(where it was after each round, the rounds, what was sent before each)."""
    progress, seen, done, before = stages.begin(), [], [], []
    for t in range(upto):
        progress, report, sent = stages.advance(progress, t)
        seen.append(progress)
        done.append(report)
        before.append(sent)
    return seen, done, before


@pytest.mark.parametrize("network", ["conv", "dense"])
def test_a_warm_start_is_two_runs_put_together(network: str) -> None:
    """FedAvg, then LG-FedAvg whose first round has the next number: bit for bit."""
    draft, data = warm(network)
    stages, simulation = course(draft.program(), data)
    seen, done, _ = gone(stages, 5)
    task = draft.task
    first = play(composed(task, data, "fedavg", rounds=5, **HALF), data, 2)
    for t in (0, 1):
        assert same(seen[t].state, first.states[t + 1])
        assert torch.equal(done[t].ids, first.rounds[t].ids)
        assert done[t].traffic == first.rounds[t].traffic
    lg = play(composed(task, data, "lg_fedavg", rounds=5, **HALF), data, 0, first.x)
    state = lg.loop.begin(first.x)
    for t in (2, 3, 4):
        state, report = lg.loop.advance(state, t)
        assert same(seen[t].state, state)
        assert torch.equal(done[t].ids, report.ids)
        assert torch.equal(done[t].weights, report.weights)
        assert done[t].traffic == report.traffic
    assert same(kept_by(simulation), kept_by(lg.simulation))
    assert [p.stage for p in seen] == [0, 0, 1, 1, 1]
    assert [p.model is None for p in seen] == [True, True, False, False, False]
    assert same(seen[4].model, first.x)


def test_the_rounds_of_a_course_are_numbered_through() -> None:
    draft, data = warm("dense")
    stages, _ = course(draft.program(), data)
    assert stages.rounds == 5
    assert stages.spans == [range(2), range(2, 5)]
    assert [stages.stage_of(t) for t in range(5)] == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("network", ["conv", "dense"])
def test_the_opening_of_a_stage_is_the_private_part_to_everybody(network: str) -> None:
    """Six clients get the leaves that no download brings them, whoever is in the cohort."""
    draft, data = warm(network)
    _, _, before = gone(course(draft.program(), data)[0], 5)
    w, head = draft.task.init(rng.key(7)), draft.task.network.head
    private = sum(4 * v.numel() for k, v in w.items() if not k.startswith(head))
    assert private > 0
    assert before == [*[Traffic()] * 2, Traffic(down=6 * private, messages=6), *[Traffic()] * 2]


def test_an_opening_goes_to_clients_that_take_turns_as_the_server() -> None:
    """The server of the moment is one of the six, but somebody has to hold the model anyway."""
    draft, data = warm("dense", topology=Rotating())
    _, _, before = gone(course(draft.program(), data)[0], 3)
    assert before[2].messages == 6


LATENT = ("latent_disco", {"a": 0.3})


def measured(**parts: Any) -> tuple[Draft, Data]:
    """A VAE by FedAvg, then weights that it measured."""
    data = federation(dtype=torch.float64)
    return drafted(vae(), data, LATENT, rounds=3, batch_size=8, **{**HALF, **parts}), data


def test_a_fresh_stage_begins_with_the_first_weights() -> None:
    """The model before gives it an encoder, and nothing else; that is asked for and paid then."""
    draft, data = measured()
    stages, _ = course(draft.program(), data)
    seen, done, before = gone(stages, 6)
    assert [p.stage for p in seen] == [0, 0, 0, 1, 1, 1]
    assert same(stages.first(1, seen[3].model), stages.w)
    assert same(seen[3].model, seen[2].state.servers[0].x)
    encoder = {k: v for k, v in stages.w.items() if k.startswith("encoder.")}
    asked = 6 * (tree.size_bytes(encoder) + 4)
    assert before[3] == Traffic(6 * tree.size_bytes(encoder), 6 * 4, 0, 12)
    assert [b.total for b in before] == [0, 0, 0, asked, 0, 0]
    assert seen[0].state.survey == {}
    assert seen[3].state.survey["latent"].shape == (6, 1)
    assert not torch.equal(done[0].weights, done[3].weights)


def test_the_rate_decays_through_stages_that_share_the_rounds() -> None:
    """(1 + cos(pi t / 5)) / 2 in all five."""
    first, second = warm("dense", decay=Decay("cosine", rounds=5))[0].program()
    rates = [*(first.recipe.decay(t) for t in (0, 1)), *(second.recipe.decay(t) for t in (2, 3, 4))]
    assert rates == pytest.approx([1.0, 0.904508, 0.654508, 0.345492, 0.095492], abs=1e-6)


def test_the_rate_decays_anew_where_training_starts_afresh() -> None:
    """(1 + cos(pi t / 3)) / 2 in the first three rounds, and again in the last three."""
    first, second = measured(decay=Decay("cosine", rounds=3))[0].program()
    for recipe, span in ((first.recipe, range(3)), (second.recipe, range(3, 6))):
        assert [recipe.decay(t) for t in span] == pytest.approx([1.0, 0.75, 0.25])


def test_what_waits_for_a_round_waits_again_where_training_starts_afresh() -> None:
    """SuPerFed mixes from a third of its rounds on."""
    task, data = vae(), federation()
    draft = drafted(task, data, ("superfed_mm", {"start": 0.34}), LATENT, rounds=3)
    assert [stage.recipe.algorithm.start for stage in draft.program()] == [1, 4]  # type: ignore[attr-defined]


def test_a_stage_without_a_model_is_the_last() -> None:
    """Its clients hold whole models, each another one."""
    task, data = network_task("dense")
    lg, avg = (composed(task, data, name, rounds=2) for name in ("lg_fedavg", "fedavg"))
    stages, _ = course((Stage(lg, 1), Stage(avg, 1, "model")), data)
    with pytest.raises(ConfigError, match="leaves no shared model cannot be followed by another"):
        gone(stages, 2)


# Nothing kept and then something; something of one kind in both stages; nothing at all; what was
# kept goes on.
TUNED = {"name": "finetune", "rounds": 3}
STAGED: dict[str, dict[str, Any]] = {
    "lg_fedavg": {"method": {"name": "lg_fedavg", "warm_start": 3}},
    "latent_disco+scaffold": {
        "rounds": 3,
        "method": {"name": "latent_disco", "a": 0.1},
        "plus": ["scaffold"],
    },
    "latent_disco": {"rounds": 3, "method": {"name": "latent_disco", "a": 0.1}},
    "fedbn+finetune": {
        "model": {"name": "mlp", "hidden": [8], "batch_norm": True},
        "method": "fedbn",
        "plus": [TUNED],
    },
    "lg_fedavg+scaffold+finetune": {
        "method": {"name": "lg_fedavg", "warm_start": 1},
        "plus": ["scaffold", TUNED],
    },
    "ditto+finetune": {"method": "ditto", "plus": [TUNED]},
}
AUTOENCODER = {
    "model": {"name": "vae", "hidden": [8]},
    "local": {"epochs": 0.2, "batch_size": 32, "lr": 1e-3},
}


def staged(name: str, states: str, folder: Path) -> Config:
    """Six rounds in two stages, two of six clients in each, a checkpoint after every round."""
    settings = {**(AUTOENCODER if "latent_disco" in name else {}), **STAGED[name]}
    made = raw(folder, {**settings, "participation": {"number": 2}, "engine": {"states": states}})
    return parse({**made, "run": {**made["run"], "checkpoint_every": 1}})


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The uninterrupted runs, each made when first asked for."""

    @cache
    def ask(name: str, states: str) -> Path:
        return start(staged(name, states, tmp_path_factory.mktemp("runs") / "run"))

    return ask


MOMENTS = [(2, "memory"), (4, "memory"), (5, "memory"), (4, "disk")]
LATER = [pytest.param(rounds, "disk", marks=pytest.mark.slow) for rounds in (2, 5)]


@pytest.mark.parametrize(("rounds", "states"), [*MOMENTS, *LATER])
@pytest.mark.parametrize("name", STAGED)
def test_a_run_killed_in_either_stage_ends_the_same(
    name: str, rounds: int, states: str, reference: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """The round before it is the last that was saved: in the first stage, its end, the second."""
    folder = tmp_path / "killed"
    with pytest.raises(Killed):
        start(staged(name, states, folder), DieAfter(rounds))
    resume(folder)
    assert_same_run(reference(name, states), folder)
