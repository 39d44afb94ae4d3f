"""Deployed, fine-tuning goes on with what each site has kept, as in the simulation."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from deployed import Deployed, Without, simulated

from unalike.deploy.wire.messages import Message
from unalike.engine.course import Course
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import assemble
from unalike.run.experiment.live import Experiment
from unalike.run.experiment.program import guard_of, program
from unalike.run.experiment.shape import Shape
from unalike.run.experiment.task import task
from unalike.tree import Params

NORMED = {"model": {"name": "mlp", "hidden": [8], "batch_norm": True}}
TUNED = {"name": "finetune", "rounds": 2}
METHODS: dict[str, dict[str, Any]] = {
    "fedbn": {**NORMED, "method": "fedbn", "plus": [TUNED]},
    "statistics": {**NORMED, "run": {"buffers": "local"}, "method": TUNED},
    "lg_fedavg": {"method": {"name": "lg_fedavg", "warm_start": 1}, "plus": [TUNED]},
    "scaffold": {"method": "scaffold", "plus": ["fedper", TUNED]},
    "ditto": {"method": "ditto", "plus": [TUNED]},
    "apfl": {"method": {"name": "apfl", "adapt": "step"}, "plus": [TUNED]},
}


def raw(name: str) -> dict[str, Any]:
    """Two of five sites in the method's two or three rounds, all of them in the two after it."""
    return {
        "rounds": 5,
        "seed": 3,
        "data": {"name": "digits"},
        "model": {"name": "mlp", "hidden": [8]},
        "participation": {"number": 2},
        "local": {"epochs": 1, "batch_size": 16, "lr": 0.1},
        **METHODS[name],
    }


def simulation(name: str) -> Experiment:
    config = parse(raw(name))
    data = simulated(config.seed)
    return assemble(config, data, task(config, data.examples))


def judged(made: Experiment, i: int) -> Params:
    """A client's model in the last stage."""
    found: Params = made.simulation.states.get(torch.tensor([i])).mine
    return {k: x[0] for k, x in found.items()}


def assert_same(made: Experiment, far: Deployed) -> None:
    """Every site has the simulated client's model."""
    for i, name in enumerate(far.agreed.names):
        own = far.exchange.sites[name].kept_state.get().mine
        wanted = judged(made, i)
        assert own.keys() == wanted.keys()
        for k, x in wanted.items():
            assert torch.allclose(x, own[k], atol=1e-5), (name, k)


def restart(far: Deployed) -> None:
    """All sites are other processes now, with what their folders hold."""
    for name in far.agreed.names:
        far.exchange.sites[name] = far.site(name)
        far.exchange.sessions[name] += 1


@pytest.mark.parametrize("restarts", [(), (2, 3, 4)])
@pytest.mark.parametrize("name", METHODS)
def test_sites_go_on_with_their_own_models(
    name: str, restarts: tuple[int, ...], tmp_path: Path
) -> None:
    """The traffic is the simulation's, too; sites may be started again at any time."""
    near, far = simulation(name), Deployed(raw(name), tmp_path)
    a, b = near.course.begin(), far.course.begin()
    for t in range(near.course.rounds):
        if t in restarts:
            restart(far)
        a, one, before = near.course.advance(a, t)
        b, two, sent = far.course.advance(b, t)
        assert not far.heard
        assert one.ids.tolist() == two.ids.tolist()
        assert (one.traffic, before) == (two.traffic, sent)
    assert_same(near, far)
    one, two = near.evaluator(a.state), far.judge(b.state)
    for metric, values in two.clients["local"].items():
        x, y = (torch.tensor(v) for v in (one.clients["local"][metric], values))
        assert torch.allclose(x, y, atol=1e-5, equal_nan=True), metric


def test_a_coordinator_that_is_started_again_does_not_begin_the_stage_anew(tmp_path: Path) -> None:
    """It tells the sites where the run is; they are there already."""
    near, far = simulation("fedbn"), Deployed(raw("fedbn"), tmp_path)
    a, b = near.course.begin(), far.course.begin()
    for t in range(near.course.rounds):
        if t == 4:
            restart(far)
            far.course.enter(b.stage, b.model)
        a, _, _ = near.course.advance(a, t)
        b, _, _ = far.course.advance(b, t)
    assert_same(near, far)


def test_an_answer_that_was_lost_is_not_gone_on_with(tmp_path: Path) -> None:
    """The site has trained in the method's last round, and nobody has heard of it."""
    config = parse(raw("fedbn"))
    near, far = simulation("fedbn"), Deployed(raw("fedbn"), tmp_path)
    stages, _ = program(config, task(config, near.federation.examples), Shape.of(near.federation))
    plan = stages[0].recipe.schedule.plan(2, range(3), 5, near.loop.cohorts)
    lost = int(plan.ids[0])
    course = Course(
        stages,
        Without(near.simulation, {lost: range(2, 3)}),
        config.seed,
        guard_of(config, stages),
        near.simulation.w,
    )
    ask, name = far.exchange.ask, far.agreed.names[lost]

    def deaf(
        questions: Mapping[str, Message], seconds: float
    ) -> Iterator[tuple[str, Message | str]]:
        for site, m in ask(questions, seconds):
            train = questions[site].kind == "train" and questions[site].note["round"] == 2
            yield site, "it is silent" if site == name and train else m

    far.exchange.ask = deaf  # type: ignore[method-assign]
    a, b = course.begin(), far.course.begin()
    for t in range(5):
        a, one, _ = course.advance(a, t)
        b, two, _ = far.course.advance(b, t)
        assert one.ids.tolist() == two.ids.tolist()
    assert far.heard == [(name, "it is silent")]
    assert_same(near, far)


def test_who_was_away_in_a_whole_stage_cannot_go_on_with_what_it_left(tmp_path: Path) -> None:
    """After a warm start nobody has told it with what LG-FedAvg began; the others go on."""
    far = Deployed(raw("lg_fedavg"), tmp_path)
    b = far.course.begin()
    for t in range(5):
        if t == 1:
            away = far.exchange.sites.pop("north")
        if t == 4:
            far.exchange.sites["north"] = away
            far.exchange.sessions["north"] += 1
            far.heard.clear()
        b, done, _ = far.course.advance(b, t)
    ((name, why),) = far.heard
    assert name == "north"
    assert "was away during all of stage 2, and stage 3 continues with what it would" in why
    assert len(done.ids) == 4
