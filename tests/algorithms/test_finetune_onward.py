"""Fine-tuning goes on with the model that each client has: private leaves, or all of its own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from federations import (
    GUARD,
    Named,
    Played,
    distance,
    drafted,
    federation,
    network_task,
    same,
    sampled,
    state_of,
    walk,
)
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unalike import rng, tree
from unalike.algorithms.draft import Draft
from unalike.engine.client.states import OnDisk
from unalike.engine.course import Course
from unalike.engine.simulation.distributed import Distributed
from unalike.engine.simulation.simulate import Simulation
from unalike.engine.transport import Opening
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.representation.private import Private
from unalike.recipe import Program
from unalike.tasks import MultiClass
from unalike.tree import Params, Tree

LR, STEPS, ROUNDS, TUNING = 0.3, 2, 3, 2


def net() -> nn.Module:
    """Running statistics in the body."""
    layers = nn.Flatten(), nn.Linear(16, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)
    made = nn.Sequential(*layers)
    made.head = ("4.",)  # type: ignore[assignment]
    return made.double()


def steps(w: Params, x: Tensor, y: Tensor) -> Params:
    """Plain PyTorch: some steps on all rows at once."""
    module = net().train()
    module.load_state_dict(w, strict=False)
    sgd = torch.optim.SGD(module.parameters(), lr=LR)
    for _ in range(STEPS):
        sgd.zero_grad()
        cross_entropy(module(x), y).backward()
        sgd.step()
    return {k: v.clone() for k, v in module.state_dict().items() if v.is_floating_point()}


STATISTICS = ("2.running_mean", "2.running_var")
CUTS: dict[str, tuple[Named, Callable[[str], bool], dict[str, Any]]] = {
    "fedbn": ("fedbn", lambda name: name.startswith("2."), {}),
    "fedper": ("fedper", lambda name: name.startswith("4."), {}),
    "lg_fedavg": ("lg_fedavg", lambda name: not name.startswith("4."), {}),
    "only statistics": (
        "fedavg",
        lambda name: name in STATISTICS,
        {"private": Private(names=frozenset(STATISTICS))},
    ),
}


@pytest.mark.parametrize("fraction", [1.0, 0.34])
@pytest.mark.parametrize("name", CUTS)
def test_by_plain_pytorch(name: str, fraction: float) -> None:
    """Rounds of two or six of six clients, then two rounds of everybody: weights and statistics."""
    method, private, parts = CUTS[name]
    data = federation(dtype=torch.float64)
    task = MultiClass(Network(net()))
    given = {"opt": Sgd(LR), **sampled(fraction, float(STEPS)), **parts}
    last = "finetune", {"rounds": TUNING}
    draft = drafted(task, data, method, last, rounds=ROUNDS + TUNING, **given)
    w = task.init(rng.key(7))
    played = walk(draft.program(), data, w=w, batch_size=64, engine="sequential")

    rows = [data.rows.of(i) for i in range(data.n_clients)]
    held = [(data.examples.x[r], data.examples.y[r]) for r in rows]
    x = {k: v for k, v in w.items() if not private(k)}
    own = [{k: v for k, v in w.items() if private(k)} for _ in rows]
    seen = set[int]()
    for t in range(ROUNDS):
        who = played.rounds[t].ids.tolist()
        seen |= set(who)
        ends = {i: steps({**x, **own[i]}, *held[i]) for i in who}
        n = sum(len(rows[i]) for i in who)
        x = {k: sum(len(rows[i]) / n * ends[i][k] for i in who) for k in x}  # type: ignore[misc]
        for i, end in ends.items():
            own[i] = {k: end[k] for k in own[i]}
    assert (len(seen) < len(rows)) == (fraction < 1)
    models = [{**x, **o} for o in own]
    for t in range(ROUNDS, ROUNDS + TUNING):
        models = [steps(m, *h) for m, h in zip(models, held, strict=True)]
        for i, wanted in enumerate(models):
            torch.testing.assert_close(played.kept[t][i], wanted, rtol=1e-6, atol=1e-8)
    assert set(played.x) == set(x)  # stays as it was
    torch.testing.assert_close(dict(played.x), x, rtol=1e-6, atol=1e-8)


OWN: dict[str, tuple[Named, ...]] = {
    **{name: (name,) for name in ("lg_fedavg", "fedper", "fedrep", "fedbn", "ditto", "pfedme")},
    "apfl": (("apfl", {"adapt": "step"}),),
    "superfed": (("superfed_mm", {"start": 0.0}),),
    "warm start": (("lg_fedavg", {"warm_start": 1}),),
    "a decoder on the client": (("lg_fedavg", {"local": "autoencoding"}),),
    "scaffold": ("scaffold", "fedper"),
    "fedadam": ("fedadam", "fedrep"),
    "phase-shift": (("phase_shift", {"phases": 2}), "fedbn"),
    "four": ("ditto", ("phase_shift", {"phases": 2}), "scaffold", "lg_fedavg"),
    "sparse": (("topk", {"share": 0.3, "direction": "both"}), "fedper"),
}


PLAIN = {"superfed", "a decoder on the client"}  # without statistics, or whose examples are flat


def made(name: str, rounds: int = 4) -> tuple[Draft, Any]:
    """Some methods, and fine-tuning after them."""
    task, data = network_task("dense" if name in PLAIN else "conv")
    more = ("finetune", {"rounds": 2})
    return drafted(task, data, *OWN[name], more, rounds=rounds, **sampled(0.67, 1.5)), data


class Entered(NamedTuple):
    """A run up to the first round of fine-tuning."""

    played: Played
    w: Params  # the first weights
    kept: list[Tree]  # by every client before fine-tuning
    found: list[Params]  # what every client has before a step of it


def entered(program: Program, data: Any, disk: bool = False, **options: Any) -> Entered:
    """Everything around the moment at which fine-tuning begins."""
    w = program[0].recipe.algorithm.task.init(rng.key(7))
    rounds = sum(stage.rounds for stage in program[:-1])
    kept, found = list[Tree](), list[Params]()

    def watched(simulation: Simulation) -> Simulation:
        begin = simulation.begin

        def begun(opening: Opening) -> None:
            last = opening.stage == len(program) - 1
            if last:
                kept.extend(state_of(simulation, i) for i in range(data.n_clients))
            begin(opening)
            if last:
                found.extend(state_of(simulation, i) for i in range(data.n_clients))

        simulation.begin = begun  # type: ignore[method-assign]
        return simulation

    if disk:
        options["states"] = OnDisk()
    played = walk(program, data, rounds + 1, w, around=watched, **options)
    return Entered(played, w, kept, found)


@pytest.mark.parametrize(
    "options", [{"engine": "sequential"}, {"engine": "vectorized"}, {"disk": True}]
)
@pytest.mark.parametrize("name", OWN)
def test_no_step_leaves_what_clients_were_judged_by(name: str, options: Any) -> None:
    """Bit for bit, statistics too; also for those that never took part."""
    draft, data = made(name)
    program = draft.program()
    run = entered(program, data, **options)
    algorithm = program[-2].recipe.algorithm
    assert algorithm.personal_models
    down = algorithm.broadcast(run.played.states[-2].servers[0])
    assert len(run.kept) == len(run.found) == data.n_clients
    for kept, own in zip(run.kept, run.found, strict=True):
        judged = algorithm.personal(down, kept)
        assert set(own) == set(run.w)
        assert same(own, {k: judged[k] for k in own})  # type: ignore[index]


@pytest.mark.parametrize("name", ["fedbn", "warm start", "ditto", "superfed", "phase-shift"])
def test_every_engine(name: str) -> None:
    """In one call, one by one, traced, on two threads, with states in files."""
    draft, data = made(name)
    stages = draft.program()
    one = walk(stages, data, engine="sequential", traced=False)
    ways: dict[str, dict[str, Any]] = {
        "vectorized": {"engine": "vectorized"},
        "in pieces": {"engine": "vectorized", "chunk": 2},
        "traced": {"engine": "sequential", "traced": True},
        "threads": {"engine": "sequential", "traced": False, "workers": 2},
        "files": {"engine": "sequential", "traced": False, "states": OnDisk()},
    }
    for way, options in ways.items():
        other = walk(stages, data, **options)
        for i in range(data.n_clients):
            a, b = state_of(one.simulation, i), state_of(other.simulation, i)
            if way in ("threads", "files"):
                assert same(a, b), way
            else:
                assert distance(a, b) < 2e-5, way


def test_private_leaves_are_not_the_first_ones() -> None:
    """Fine-tuning that forgot them would begin where FedPer's clients began."""
    draft, data = made("fedper")
    run = entered(draft.program(), data)
    trained = {i for r in run.played.rounds[:-1] for i in r.ids.tolist()}
    for i, own in enumerate(run.found):
        assert torch.equal(own["6.weight"], run.w["6.weight"]) == (i not in trained)


def test_only_what_is_shared_is_sent_once_more() -> None:
    """To all six; then nothing."""
    draft, data = made("fedper")
    played = walk(draft.program(), data)
    size = tree.size_bytes(played.x)
    assert 0 < size < tree.size_bytes(state_of(played.simulation, 0))
    assert [r.traffic.down for r in played.rounds] == [4 * size, 4 * size, 6 * size, 0]
    assert [r.traffic.up for r in played.rounds][2:] == [0, 0]


def test_there_is_no_model_for_strangers() -> None:
    """Neither in the method's rounds nor in those of fine-tuning; after Ditto there is one."""
    for name, whole in (("fedper", False), ("ditto", True)):
        draft, data = made(name)
        played = walk(draft.program(), data)
        algorithm = played.loop.recipe.algorithm
        found = algorithm.model(played.server, rng.key(0))
        assert (found is not None) == whole
        assert algorithm.personal_models


class Alone:
    """The only process of a run."""

    rank, size, local = 0, 1, 1

    def exchange(self, raw: bytes) -> list[bytes]:
        return [raw]


def test_a_stage_that_is_taken_up_again_changes_nothing() -> None:
    """A checkpoint puts clients' states back: they are not made anew from what is there."""
    draft, data = made("fedper")
    program = draft.program()
    first = program[0].recipe
    w = first.algorithm.task.init(rng.key(7))
    simulation = Simulation(first, data.examples, data.rows, w, data.n_clients)
    course = Course(program, Distributed(simulation, Alone()), 0, GUARD, w)  # type: ignore[arg-type]
    progress = course.begin()
    for t in range(3):
        progress, _, _ = course.advance(progress, t)
    course.enter(progress.stage, progress.model)
    assert simulation.states.touched == []
    assert set(state_of(simulation, 0)) == set(w)  # the form of a whole model


def played_after_losses(lost: Callable[[Simulation], Any]) -> Played:
    draft, data = made("fedper")
    return walk(draft.program(), data, engine="sequential", around=lost, traced=False)


def test_work_that_did_not_count_is_not_gone_on_with() -> None:
    """A client whose answer was refused in the method's last round had its old head back."""

    def lost(simulation: Simulation) -> Simulation:
        real = simulation.train

        def train(t: int, *given: Any) -> Any:
            yield from real(t, *given)
            if t == 1:
                simulation.refuse(given[0].ids.tolist()[:1])

        simulation.train = train  # type: ignore[method-assign]
        return simulation

    plain, refused = played_after_losses(lambda s: s), played_after_losses(lost)
    first = int(plain.rounds[1].ids[0])
    for i in range(6):
        a, b = (state_of(p.simulation, i) for p in (plain, refused))
        assert same(a, b) == (i != first)
