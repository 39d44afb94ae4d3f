"""Phase-shift on four parabolas with minima 0, 4, 8, 12: one step goes half the way.

Two phases, groups {1, 2} and {3, 4}; from w = 1, four rounds, the last of which collects everybody.
"""

from itertools import pairwise

import pytest
import torch
from federations import (
    Played,
    Quadratic,
    at,
    composed,
    distance,
    kept_by,
    network_task,
    play,
    scalars,
)
from phases import InOrder

from unalike import rng, tree
from unalike.algorithms.draft import Draft
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.phase_shift import PhaseShift, PhaseShiftMethod
from unalike.engine.evaluation.server import Evaluation
from unalike.engine.loop import State
from unalike.engine.traffic.ledger import STATISTIC, traffic
from unalike.errors import ConfigError
from unalike.federation.data import TEST
from unalike.parts.optim import Sgd
from unalike.parts.schedule import Participation, Phased
from unalike.parts.topology import Star
from unalike.recipe import Recipe
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import Experiment, experiment

MINIMA = [0.0, 4.0, 8.0, 12.0]

# start and end of every client's round, then the central model after it
TRACE = [
    ([(1, 0.5), (1, 2.5), (1, 4.5), (1, 6.5)], 5.5),
    ([(3.833333, 1.916667), (4.5, 4.25), (5.5, 6.75), (5.5, 8.75)], 3.083333),
    (
        [(3.083333, 1.541667), (3.083333, 3.541667), (4.305556, 6.152778), (4.972222, 8.486111)],
        7.319444,
    ),
    (
        [(5.393519, 2.696759), (6.060185, 5.030093), (7.319444, 7.659722), (7.319444, 9.659722)],
        6.261574,
    ),
]


def shifted(phases: int, sizes: list[int], rounds: int = 4, lr: float = 0.5) -> Played:
    """A run in which every round is one full-batch step."""
    recipe = Recipe(PhaseShift(FedAvg(Quadratic(), Sgd(lr))), schedule=InOrder(phases))
    return play(recipe, scalars(MINIMA, sizes), rounds, at(w=1.0), batch_size=max(sizes))


def test_whole_trace_with_equal_sizes() -> None:
    """Every client's model at the start and the end of every round, and the central one."""
    played = shifted(2, [10] * 4)
    for t, (clients, central) in enumerate(TRACE):
        for k, (start, end) in enumerate(clients):
            got = float(played.kept[t][k].w["w"])
            assert got == pytest.approx(end, abs=1e-6)
            assert 2 * got - MINIMA[k] == pytest.approx(start, abs=2e-6)
        assert played.trace()[t] == pytest.approx(central, abs=1e-6)
    assert [float(s.servers[0].n) for s in played.states] == [0, 20, 20, 20, 40]
    assert [r.ids.tolist() for r in played.rounds] == [[2, 3], [0, 1], [2, 3], [0, 1, 2, 3]]


def test_one_phase_with_unequal_sizes() -> None:
    """Sizes 10 to 40; the minimum of the weighted mean is 8."""
    assert shifted(1, [10, 20, 30, 40]).trace() == pytest.approx([4.5, 6.25, 7.125, 7.5625])


def test_unequal_sizes_in_a_correction() -> None:
    """By hand: N = 70 after round 1, so client 1 keeps 10/80 of its model and client 2 20/90."""
    played = shifted(2, [10, 20, 30, 40], rounds=3)
    w = (30 * 4.5 + 40 * 6.5) / 70
    first = (70 * w + 10 * 0.5) / 80 / 2
    second = ((70 * w + 20 * 2.5) / 90 + 4) / 2
    assert float(played.kept[1][0].w["w"]) == pytest.approx(first, abs=1e-6)
    assert float(played.kept[1][1].w["w"]) == pytest.approx(second, abs=1e-6)
    assert played.trace()[1] == pytest.approx((10 * first + 20 * second) / 30, abs=1e-6)


# The mean of all four models after every round; in the last one that is the collection itself.
VIRTUAL = [3.5, 5.416667, 4.930556, 6.261574]


def test_virtual_mean_of_the_models_in_flight() -> None:
    """(0.5 + 2.5 + 4.5 + 6.5) / 4 and so on, while the central model jumps between the groups."""
    played = shifted(2, [10] * 4)
    virtual = PhaseShift(FedAvg(Quadratic(), Sgd(0.5)), eval_model="virtual_mean")
    for t, want in enumerate(VIRTUAL):
        server, kept = played.states[t + 1].servers[0], [played.kept[t][k] for k in range(4)]
        n = torch.full((4,), 10)
        mean = tree.mean(n / n.sum(), tree.stack([virtual.flying(mine) for mine in kept]))
        assert float(mean["w"]) == pytest.approx(want, abs=1e-6)
        found = virtual.landed(server, mean)
        assert found.x is mean
        assert found.n is server.n
        assert played.simulation.recipe.algorithm.flying(kept[0]) is None  # judged: the central one


def judged(eval_model: str, rounds: int) -> tuple[Experiment, State, Evaluation]:
    """Digits, six of nine clients in three phases, after some of four rounds."""
    raw = {
        "rounds": 4,
        "data": {"name": "digits"},
        "partition": {"name": "dirichlet", "clients": 9, "alpha": 0.5, "min_size": 20},
        "model": {"name": "mlp", "hidden": [8]},
        "participation": {"number": 6},
        "method": {"name": "phase_shift", "phases": 3, "eval_model": eval_model},
    }
    made = experiment(parse(raw))
    state = made.loop.begin(made.w)
    for t in range(rounds):
        state, _ = made.loop.advance(state, t)
    return made, state, made.evaluator(state)


def test_all_sections_judge_the_virtual_mean() -> None:
    """The six active clients' models by size, also those that uploaded nothing; no idle one's."""
    made, state, found = judged("virtual_mean", 3)
    plan = made.recipe.schedule.plan(2, range(4), 9, made.loop.cohorts)
    n = {i: float(made.simulation.sizes[i]) for i in plan.ids.tolist()}
    kept = {i: kept_by(made.simulation)[i].w for i in n}
    mean = {k: sum(n[i] * kept[i][k] for i in n) / sum(n.values()) for k in state.servers[0].x}
    examples, rows = made.federation.examples, made.federation.rows(TEST).order
    x, y = examples.x[rows], examples.y[rows]
    with torch.no_grad():
        out = made.recipe.algorithm.task.logits(mean, x)
    right = float((out.argmax(1) == y).float().mean())
    assert found.spread["global"]["accuracy"]["mean"] == pytest.approx(right, abs=1e-6)
    loss = float(torch.nn.functional.cross_entropy(out, y))
    assert found.spread["global"]["loss"]["mean"] == pytest.approx(loss, rel=1e-5)
    # All test rows are those of the clients, so the mean over rows is that of the local section.
    local = found.spread["local"]["loss"]["weighted_mean"]
    assert local == pytest.approx(loss, rel=1e-5)
    central = judged("central", 3)[2].spread["global"]["loss"]["mean"]
    assert central != pytest.approx(loss, rel=1e-3)


def test_after_the_collection_both_are_the_same() -> None:
    """The virtual mean of the last round is what everybody uploads."""
    virtual, central = (judged(name, 4) for name in ("virtual_mean", "central"))
    assert distance(virtual[1].servers[0].x, central[1].servers[0].x) == 0
    losses = [found.spread["global"]["loss"]["mean"] for _, _, found in (virtual, central)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_momentum_survives_a_correction_but_not_a_reset() -> None:
    """Client 1 is corrected in round 2 and reset in round 3; a correction of size 10/30."""
    for habit in ("keep", "reset"):
        base = FedAvg(Quadratic(), Sgd(0.5, 0.9), keep_optimizer=habit == "keep")
        recipe = Recipe(PhaseShift(base), schedule=InOrder(2))
        played = play(recipe, scalars(MINIMA, [10] * 4), 3, at(w=1.0), batch_size=10)
        start = (20 * 5.5 + 10 * 0.5) / 30
        buffer = 0.9 * 1.0 if habit == "keep" else 0.0  # the gradient of round 1 was 1 - 0
        second = start - 0.5 * (buffer + start)
        assert float(played.kept[1][0].w["w"]) == pytest.approx(second, abs=1e-6)
        third = played.trace()[1] / 2  # one plain step from the download
        assert float(played.kept[2][0].w["w"]) == pytest.approx(third, abs=1e-6)


def test_bytes_of_the_small_run() -> None:
    """Parameters alone: 24, 24, 24 and 32 bytes, 104 against FedAvg's 128."""
    recipe = Recipe(PhaseShift(FedAvg(Quadratic(), Sgd(0.5))), schedule=Phased(2))
    w = {"w": torch.tensor(1.0)}
    played = play(recipe, scalars(MINIMA, [10] * 4), 4, w, batch_size=10)
    bare = []
    for done in played.rounds:
        counts = 4 * 4  # N, downloaded by everybody
        numbers = 2 * STATISTIC * len(done.ids)  # steps and examples
        bare.append(done.traffic.total - counts - numbers)
    assert bare == [24, 24, 24, 32]
    assert sum(bare) / (4 * 8 * 4) == 0.8125
    assert [done.traffic.messages for done in played.rounds] == [6, 6, 6, 8]


# parameters of three networks -> bytes of an ordinary round with 40 clients
BYTES = {
    21_840: {1: 6_988_800, 2: 5_241_600, 4: 4_368_000, 5: 4_193_280, 10: 3_843_840, 20: 3_669_120},
    29_034: {1: 9_290_880, 2: 6_968_160, 4: 5_806_800, 5: 5_574_528, 10: 5_109_984, 20: 4_877_712},
    551_466: {
        1: 176_469_120,
        2: 132_351_840,
        4: 110_293_200,
        5: 105_881_472,
        10: 97_058_016,
        20: 92_646_288,
    },
}
MESSAGES = {1: 80, 2: 60, 4: 50, 5: 48, 10: 44, 20: 42}


def cost(clients: int, phases: int, t: int, rounds: int, parameters: int = 1) -> tuple[int, int]:
    """(messages, bytes of parameters) of round ``t`` by the ledger."""
    plan = Phased(phases).plan(t, range(rounds), clients, rng.key(0))
    answered = plan.ids[plan.reply]
    algorithm = PhaseShift(FedAvg(Quadratic()))
    model = {"w": torch.zeros(1).expand(parameters)}
    down = algorithm.broadcast(algorithm.server_init(model, rng.key(0)))
    sizes = tree.size_bytes(down), tree.size_bytes(algorithm.upload_like(down))
    done = traffic(Star(), None, plan.ids, answered, *sizes, statistics=2)
    extra = clients * tree.size_bytes(down.n) + 2 * STATISTIC * len(answered)
    return done.messages, done.total - extra


@pytest.mark.parametrize("phases", MESSAGES)
def test_messages_and_bytes_of_an_ordinary_round(phases: int) -> None:
    """K downloads and K/n uploads."""
    for parameters, expected in BYTES.items():
        messages, sent = cost(40, phases, 1, 15, parameters)
        assert (messages, sent) == (MESSAGES[phases], expected[phases])


def test_twenty_clients_in_two_phases() -> None:
    """The setting of the combined run."""
    found = [cost(20, 2, 0, 12, p) for p in BYTES]
    assert found == [(30, 2_620_800), (30, 3_484_080), (30, 66_175_920)]
    assert sum(cost(20, 2, t, 12)[0] for t in range(12)) == 370


@pytest.mark.parametrize(
    ("clients", "phases", "rounds", "ratio"),
    [
        (40, 2, 15, 0.766667),
        (40, 4, 15, 0.650000),
        (40, 5, 15, 0.626667),
        (40, 10, 15, 0.580000),
        (40, 20, 15, 0.556667),
        (40, 4, 8, 0.671875),
        (20, 2, 12, 0.770833),
    ],
)
def test_whole_run_ratio_to_fedavg(clients: int, phases: int, rounds: int, ratio: float) -> None:
    """(n + 1) / 2n of an ordinary round, and (n - 1) / 2nR for the last round's collection."""
    total = sum(cost(clients, phases, t, rounds)[0] for t in range(rounds))
    assert total / (2 * clients * rounds) == pytest.approx(ratio, abs=1e-6)
    n = phases
    closed = (n + 1) / (2 * n) + (n - 1) / (2 * n * rounds)
    assert total / (2 * clients * rounds) == pytest.approx(closed, abs=1e-12)


def test_groups_rotate_at_full_participation() -> None:
    """Everybody answers once in n rounds, always with the same group."""
    schedule = Phased(3)
    seen = [schedule.plan(t, range(100), 12, rng.key(5)) for t in range(9)]
    groups = [frozenset(p.ids[p.reply].tolist()) for p in seen]
    assert frozenset.union(*groups[:3]) == frozenset(range(12))
    assert [len(g) for g in groups[:3]] == [4, 4, 4]
    assert groups == groups[:3] * 3
    for before, now in pairwise(seen):
        assert torch.equal(now.role, (before.role + 1) % 3)


def test_partial_participation_moves_through_the_queue() -> None:
    """An active client advances by one position and leaves only after its upload."""
    schedule, n = Phased(4, Participation(0.5)), 40
    before = schedule.plan(0, range(300), n, rng.key(5))
    for t in range(1, 300):
        now = schedule.plan(t, range(301), n, rng.key(5))
        assert len(now.ids) == len(now.ids.unique()) == 20
        assert torch.bincount(now.role).tolist() == [5] * 4
        was = dict(zip(before.ids.tolist(), before.role.tolist(), strict=True))
        is_ = dict(zip(now.ids.tolist(), now.role.tolist(), strict=True))
        assert all(is_[i] == r + 1 for i, r in was.items() if r < 3)
        assert all(is_.get(i, 0) == 0 for i, r in was.items() if r == 3)
        before = now


def test_a_late_plan_does_not_depend_on_earlier_ones() -> None:
    """A resumed run starts in the middle."""
    from unalike.parts import schedule

    plans = [Phased(2, Participation(0.5)).plan(t, range(9999), 8, rng.key(3)) for t in range(700)]
    schedule._queue.cache_clear()
    again = Phased(2, Participation(0.5)).plan(699, range(9999), 8, rng.key(3))
    assert torch.equal(again.ids, plans[699].ids)
    assert torch.equal(again.role, plans[699].role)


def test_every_phase_needs_a_client() -> None:
    """The message names both numbers."""
    with pytest.raises(ConfigError, match="phases = 5 leaves a group without a client, since 4"):
        Phased(5).plan(0, range(1), 4, rng.key(0))


def test_groups_of_three_and_two() -> None:
    """Ten clients in four phases: fixed groups take turns, and each answers every fourth round."""
    plans = [Phased(4).plan(t, range(99), 10, rng.key(1)) for t in range(8)]
    answers = [set(p.ids[p.reply].tolist()) for p in plans]
    assert sorted(map(len, answers[:4])) == [2, 2, 3, 3]
    assert set.union(*answers[:4]) == set(range(10))
    assert answers[4:] == answers[:4]
    for p in plans:
        assert len(p.ids) == 10


@pytest.mark.parametrize(("clients", "phases"), [(7, 3), (10, 4), (5, 2), (4, 4)])
def test_unequal_groups_of_unequal_clients_on_paper(clients: int, phases: int) -> None:
    """The protocol with plain numbers: minima c_k, n_k examples, one step of rate 0.5 on each."""
    rounds, lr = 9, 0.5
    c, sizes = [3.0 * k - 4 for k in range(clients)], [1 + (3 * k) % 5 for k in range(clients)]
    recipe = Recipe(PhaseShift(FedAvg(Quadratic(), Sgd(lr))), schedule=Phased(phases))
    played = play(recipe, scalars(c, sizes), rounds, at(w=1.0), batch_size=99)
    found = played.trace()
    w, behind, own = 1.0, 0, [1.0] * clients
    for t in range(rounds):
        plan = Phased(phases).plan(t, range(rounds), clients, played.loop.cohorts)
        for k, role in zip(plan.ids.tolist(), plan.role.tolist(), strict=True):
            start = (behind * w + sizes[k] * own[k]) / (behind + sizes[k]) if role else w
            own[k] = start - lr * (start - c[k])
        last = [
            k
            for k, r in zip(plan.ids.tolist(), plan.role.tolist(), strict=True)
            if r == phases - 1 or t == rounds - 1
        ]
        behind = sum(sizes[k] for k in last)
        w = sum(sizes[k] * own[k] for k in last) / behind
        assert played.rounds[t].ids.tolist() == sorted(last)
        assert found[t] == pytest.approx(w, abs=1e-6)


@pytest.mark.parametrize(
    ("phases", "reduction", "epochs"),
    [
        (1, 1.0, 8),
        (2, 1.0, 6),
        (4, 0.0, 8),
        (4, 0.5, 6.5),
        (4, 1.0, 5),
        (5, 1.0, 4.8),
        (10, 1.0, 4.4),
        (20, 1.0, 4.2),
        (20, 0.25, 7.05),
    ],
)
def test_epochs_of_the_modes(phases: int, reduction: float, epochs: float) -> None:
    """Eq. 4.3 of the text: T (n + 1) / (2n) at one end, T at the other."""
    bare = Draft(network_task("dense")[0], 40, 3, (1, 4, 4), 4, epochs=8.0)
    method = PhaseShiftMethod(phases=phases, epoch_reduction=reduction)
    assert method.change(bare).epochs == pytest.approx(epochs, rel=1e-12)


def test_epoch_reduction_is_at_equal_work_and_messages() -> None:
    """Three phases: f = 2/3, so that 9 rounds stand for 6 of FedAvg, but for the collection."""
    task, data = network_task("dense")
    plain = play(composed(task, data, "fedavg", rounds=6, epochs=3.0), data, 6)
    settings = {"phases": 3, "epoch_reduction": 1.0}
    ours = play(composed(task, data, ("phase_shift", settings), rounds=9, epochs=3.0), data, 9)
    assert sum(r.worked["samples"] for r in ours.rounds) == sum(
        r.worked["samples"] for r in plain.rounds
    )
    collected = 4  # of six clients, two would have uploaded anyway
    assert sum(r.traffic.messages for r in ours.rounds) - collected == sum(
        r.traffic.messages for r in plain.rounds
    )
