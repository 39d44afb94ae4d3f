"""SCAFFOLD on parabolas, one for each client, and on networks at the edge of its settings.

Where a number stands alone it was computed apart from this package. The other oracle is algorithm 1
on plain numbers, with what client i counts among all clients, pi_i, in line 17.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from federations import (
    Named,
    Quadratic,
    Works,
    at,
    composed,
    distance,
    network_task,
    play,
    same,
    sampled,
    scalars,
    state_of,
)
from torch import Tensor

from unalike import tree
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.scaffold import Scaffold
from unalike.cohort import Cohort
from unalike.errors import ConfigError
from unalike.parts.mixing.base import Memoryless, Mixing, Weighed
from unalike.parts.mixing.examples import ByExamples, Uniform
from unalike.parts.optim import Sgd
from unalike.parts.schedule import Participation, Sampled
from unalike.parts.topology import Rotating, Star
from unalike.recipe import Recipe

TWO = scalars([0.0, 10.0])
CLOSE = {"abs": 1e-6, "rel": 1e-7}


@dataclass(frozen=True)
class Listed(Memoryless):
    """Weights that are written down, normalised over the cohort."""

    pi: tuple[float, ...]

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """Its rows of the list."""
        p = torch.tensor(self.pi, dtype=torch.float64)[cohort.ids]
        return Weighed(p / p.sum(), state)


def by_hand(
    minima: Sequence[float],
    pi: Sequence[float],
    steps: Sequence[int],
    cohorts: Sequence[Sequence[int]],
    lr: float,
    x: float = 4.0,
    rate: float = 1.0,
) -> tuple[list[float], list[float], list[float]]:
    """(x and c after every round, all c_i in the end) by algorithm 1 with option II."""
    c, own, trace, variates = 0.0, [0.0] * len(minima), [], []
    for cohort in cohorts:
        moved, changed = [], []
        for i in cohort:
            y = x
            for _ in range(steps[i]):
                y -= lr * ((y - minima[i]) - own[i] + c)
            new = own[i] - c + (x - y) / (steps[i] * lr)
            moved.append(y - x)
            changed.append(new - own[i])
            own[i] = new
        share = [pi[i] / sum(pi[k] for k in cohort) for i in cohort]
        x += rate * sum(p * d for p, d in zip(share, moved, strict=True))
        c += sum(pi[i] * d for i, d in zip(cohort, changed, strict=True))
        trace.append(x)
        variates.append(c)
    return trace, variates, own


def test_two_steps_each_for_three_rounds() -> None:
    """The model and the server's control variate."""
    recipe = Recipe(Scaffold(Quadratic(), 2, Sgd(0.1)), schedule=Works((2, 2)))
    played = play(recipe, TWO, 3, at(w=4.0))
    assert played.trace() == pytest.approx([4.19, 4.3439, 4.468559], **CLOSE)
    c = [float(s.servers[0].c["w"]) for s in played.states[1:]]
    assert c == pytest.approx([-0.95, -0.7695, -0.623295], **CLOSE)


FIVE = [0.0, 10.0, 3.0, -4.0, 8.0]
SIZES = [1, 2, 3, 4, 5]
RULES: dict[str, tuple[Mixing, list[float]]] = {
    "the plain mean": (Uniform(), [0.2] * 5),
    "by examples": (ByExamples(), [n / 15 for n in SIZES]),
    "as listed": (Listed((0.1, 0.3, 0.2, 0.1, 0.3)), [0.1, 0.3, 0.2, 0.1, 0.3]),
}


@pytest.mark.parametrize("fraction", [1.0, 0.4])
@pytest.mark.parametrize("rule", RULES)
def test_whole_trace_of_the_algorithm(rule: str, fraction: float) -> None:
    """Model and all control variates; c = sum pi_i c_i is an invariant, whoever takes part."""
    mixing, pi = RULES[rule]
    algorithm = Scaffold(Quadratic(), 5, Sgd(0.1), server_lr=0.7)
    recipe = Recipe(algorithm, mixing, Sampled(Participation(fraction), 2.0))
    played = play(recipe, scalars(FIVE, SIZES), 12, at(w=4.0), batch_size=1)
    steps, cohorts = [2 * n for n in SIZES], [r.ids.tolist() for r in played.rounds]
    trace, variates, own = by_hand(FIVE, pi, steps, cohorts, 0.1, rate=0.7)
    assert played.trace() == pytest.approx(trace, **CLOSE)
    found = [float(s.servers[0].c["w"]) for s in played.states[1:]]
    assert found == pytest.approx(variates, **CLOSE)
    kept = [float(state_of(played.simulation, i).c["w"]) for i in range(5)]
    assert kept == pytest.approx(own, **CLOSE)
    assert found[-1] == pytest.approx(sum(p * c for p, c in zip(pi, kept, strict=True)), abs=1e-6)


def test_it_finds_the_optimum_where_fedavg_drifts() -> None:
    """Many rounds of unequal work: its fixed point is the mean of the minima."""
    steps = Works((1, 4))
    drift = play(Recipe(FedAvg(Quadratic(), Sgd(0.3)), schedule=steps), TWO, 60, at(w=4.0))
    fixed = play(Recipe(Scaffold(Quadratic(), 2, Sgd(0.3)), schedule=steps), TWO, 60, at(w=4.0))
    assert drift.trace()[-1] > 7
    assert fixed.trace()[-1] == pytest.approx(5.0, abs=1e-4)


@pytest.mark.parametrize("pi", [(0.8, 0.2), (0.25, 0.75)])
def test_weights_move_the_fixed_point(pi: tuple[float, float]) -> None:
    """sum pi_i (w - m_i) = 0 at w = 10 pi_2; unequal work does not pull it away."""
    recipe = Recipe(Scaffold(Quadratic(), 2, Sgd(0.3)), Listed(pi), Works((1, 4)))
    assert play(recipe, TWO, 80, at(w=4.0)).trace()[-1] == pytest.approx(10 * pi[1], abs=1e-4)


def test_weights_move_the_fixed_point_with_some_of_the_clients() -> None:
    """0.1 x 0 + 0.3 x 10 + 0.2 x 3 + 0.1 x (-4) + 0.3 x 8 = 5.6; the plain mean is 3.4."""
    listed, _ = RULES["as listed"]
    schedule = Sampled(Participation(0.4), 1.0)
    recipe = Recipe(Scaffold(Quadratic(), 5, Sgd(0.2)), listed, schedule)
    played = play(recipe, scalars(FIVE, SIZES), 120, at(w=4.0), batch_size=1)
    assert played.trace()[-1] == pytest.approx(5.6, abs=1e-3)


def test_two_vectors_travel_each_way() -> None:
    """The upload holds the model's change under the name that wrappers look for."""
    algorithm = Scaffold(Quadratic(), n_clients=2)
    down = algorithm.broadcast(algorithm.server_init(at(w=4.0), torch.tensor(0)))
    up = algorithm.upload_like(down)
    assert up.delta.keys() == up.dc.keys() == {"w"}


def run(*methods: Named, rounds: int, **parts: Any) -> dict[str, Tensor]:
    """The model after some rounds of a network, client by client."""
    task, data = network_task("conv")
    recipe = composed(task, data, *methods, rounds=rounds, **{**sampled(0.5, 1.5), **parts})
    return play(recipe, data, rounds, engine="sequential", batch_size=16).x


def test_the_first_round_is_fedavg() -> None:
    """All control variates are zero; with running statistics, which have none."""
    one, other = (run(m, rounds=1) for m in (("scaffold", {"averaging": "size"}), "fedavg"))
    assert all(torch.equal(one[k], other[k]) for k in one)
    two, other = (run(m, rounds=3) for m in (("scaffold", {"averaging": "size"}), "fedavg"))
    assert distance(two, other) > 1e-4
    assert tree.leaves(two)


def test_the_sizes_of_steps_are_in_the_variate() -> None:
    """A halved rate in round 2 halves the way, and K eta with it: c_i stays a mean gradient."""
    from unalike.recipe import Decay

    decay = Decay("exponential", 0.5, 1)
    recipe = Recipe(Scaffold(Quadratic(), 1, Sgd(0.1)), schedule=Works((1,)), decay=decay)
    played = play(recipe, scalars([10.0]), 2, at(w=4.0))
    # Round 1: g = -6 = c_1, w = 4.6, c = -6. Round 2: g - c_1 + c = -5.4, w = 4.6 + 0.05 x 5.4.
    assert played.trace() == pytest.approx([4.6, 4.87])
    assert float(played.server.c["w"]) == pytest.approx(-5.4)


def test_momentum_on_the_server_with_some_of_the_clients() -> None:
    """FedAvgM: m <- 0.5 m + mean of y_i - x, x <- x + 0.7 m; c moves as it does without."""
    parts = {"opt": Sgd(0.1), **sampled(0.4, 2.0)}
    data, momentum = scalars(FIVE, SIZES), ("fedavgm", {"lr": 0.7, "momentum": 0.5})
    recipe = composed(Quadratic(), data, "scaffold", momentum, **parts)
    played = play(recipe, data, 8, at(w=4.0), batch_size=1)
    x, m, c, own, trace = 4.0, 0.0, 0.0, [0.0] * 5, []
    for cohort in (r.ids.tolist() for r in played.rounds):
        moved, changed = [], []
        for i in cohort:
            y = x
            for _ in range(2 * SIZES[i]):
                y -= 0.1 * ((y - FIVE[i]) - own[i] + c)
            changed.append((x - y) / (2 * SIZES[i] * 0.1) - c)
            moved.append(y - x)
            own[i] += changed[-1]
        m = 0.5 * m + sum(moved) / len(moved)
        x, c = x + 0.7 * m, c + sum(changed) / 5
        trace.append(x)
    assert played.trace() == pytest.approx(trace, **CLOSE)
    assert float(played.server.c["w"]) == pytest.approx(c, **CLOSE)
    plain = play(composed(Quadratic(), data, "scaffold", **parts), data, 1, at(w=4.0), batch_size=1)
    assert played.rounds[0].traffic == plain.rounds[0].traffic  # moments stay on the server


def test_servers_whose_step_is_not_to_be_replaced() -> None:
    """Two rates for one step; no server at all."""
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match="leave server_lr out and set lr there"):
        composed(task, data, ("scaffold", {"server_lr": 0.5}), "fedadam")
    with pytest.raises(ConfigError, match="gradient tracking, and another step"):
        composed(task, data, "scaffold", "fedadam", topology="ring")


def test_momentum_is_refused() -> None:
    """Option II reads the gradients from the length of the way."""
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match="derived for plain SGD"):
        composed(task, data, "scaffold", opt=Sgd(0.1, 0.9))


def test_a_server_that_moves_hands_its_variate_on() -> None:
    """The same model as on a star, bit for bit; the server's state travels once a round."""
    task, data = network_task("dense")
    star, rotating = (
        play(composed(task, data, "scaffold", topology=t), data, 4) for t in (Star(), Rotating())
    )
    assert same(star.x, rotating.x)
    assert same(star.server.c, rotating.server.c)
    state = tree.size_bytes(star.server)
    assert [done.traffic.across for done in rotating.rounds] == [0, state, state, state]


def test_weights_of_a_survey_move_the_optimum() -> None:
    """Minima 0 and 10. Client 1 has both labels, client 2 only one: FedDisco gives 6/7 and 1/7.

    d = (0, ln 2), divided by the sum (0, 1); u = (0.5 + 0.1, 0.5 - 0.5 + 0.1). So w ends at 10/7.
    """
    data = scalars([0.0, 10.0], [4, 4])
    y = torch.tensor([0, 1, 0, 1, 0, 0, 0, 0])
    data = data._replace(examples=replace(data.examples, y=y))
    recipe = composed(Quadratic(), data, "scaffold", "feddisco", opt=Sgd(0.3))
    assert play(recipe, data, 80, at(w=4.0)).trace()[-1] == pytest.approx(10 / 7, abs=1e-4)
