"""FedNova with weights other than n_k / n, and with another step of the server.

The parabolas of ``test_scalar_oracles.py``: minima 0 and 10, w = 4, rate 0.1, 2 and 8 steps. Plain
SGD ends at 3.24 and 7.41719674, so the updates by their work are 0.38 and -0.4271495925.
"""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from federations import (
    Handmade,
    Named,
    Quadratic,
    Works,
    at,
    cohort,
    composed,
    distance,
    federation,
    network_task,
    play,
    same,
    scalars,
)
from torch import Tensor
from weighing import nova

from unalike.algorithms.aaggff_d import AAggFFD
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.feddisco import FedDisco
from unalike.algorithms.fedep import EntropyPool
from unalike.algorithms.fednova import Nova
from unalike.batches import Batch
from unalike.cohort import Cohort
from unalike.errors import ConfigError
from unalike.parts.mixing.base import Memoryless, Weighed
from unalike.parts.mixing.examples import ByExamples, Uniform
from unalike.parts.optim import Sgd
from unalike.parts.reach import reach
from unalike.recipe import Decay, Recipe
from unalike.tree import Params

AVERAGES = ["aaggff_d", "aaggff_s", "afl", "feddisco", "fedep", "propfair", "term"]
CLOSE = {"abs": 1e-6, "rel": 1e-7}
TASK, DATA = network_task("dense")


@dataclass(frozen=True)
class Given(Memoryless):
    """Weights that never change."""

    p: tuple[float, ...]

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        return Weighed(torch.tensor(self.p, dtype=torch.float64), state)


def after(p: tuple[float, float], momentum: float = 0.0, **settings: Any) -> float:
    """The model after one round."""
    rule = nova(momentum, rule=Given(p), **settings)
    recipe = Recipe(FedAvg(Quadratic(), Sgd(0.1, momentum)), rule, Works((2, 8)))
    return play(recipe, scalars([0.0, 10.0]), 1, at(w=4.0)).trace()[0]


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        ((0.25, 0.75), 5.464854),  # 4 - 6.5 (0.25 x 0.38 - 0.75 x 0.4271495925)
        ((0.8, 0.2), 3.300576),  # 4 - 3.2 (0.8 x 0.38 - 0.2 x 0.4271495925)
        ((1.0, 0.0), 3.24),  # the first client alone
    ],
)
def test_oracle(p: tuple[float, float], expected: float) -> None:
    """tau_eff = 2 p_1 + 8 p_2."""
    assert after(p) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize(
    ("p", "normaliser", "steps"),
    [((0.25, 0.75), 7.267114, 4.953087), ((0.8, 0.2), 2.030361, 3.218824)],
)
def test_oracle_with_momentum(p: tuple[float, float], normaliser: float, steps: float) -> None:
    """Ends 2.88 and 13.31934112, a = 2.9 and 28.7420489; tau_eff of a or of 2 and 8."""
    assert after(p, 0.9) == pytest.approx(normaliser, **CLOSE)
    assert after(p, 0.9, effective="steps") == pytest.approx(steps, **CLOSE)


@pytest.mark.parametrize(
    ("p", "momentum", "lr", "expected"),
    [
        ((0.5, 0.5), 0.0, 2.0, 4.235748),  # 4 + 2 x 0.117874
        ((0.5, 0.5), 0.9, 0.5, 3.754908),  # 4 - (4 - 3.509815) / 2
        ((0.8, 0.2), 0.0, 0.5, 3.650288),  # 4 - (4 - 3.300576) / 2
    ],
)
def test_step_of_the_server(
    p: tuple[float, float], momentum: float, lr: float, expected: float
) -> None:
    """x <- x - server_lr tau_eff sum p d."""
    assert after(p, momentum, server_lr=lr) == pytest.approx(expected, **CLOSE)


def test_the_whole_step_is_the_default() -> None:
    """And is the formula without it; statistics are averaged, whatever the step."""
    task, data = network_task("conv")
    plain, one, two = (
        play(composed(task, data, ("fednova", settings)), data, 1)
        for settings in ({}, {"server_lr": 1.0}, {"server_lr": 2.0})
    )
    assert same(plain.x, one.x)
    start = plain.states[0].servers[0].x
    for name in task.network.weights:
        torch.testing.assert_close(two.x[name] - start[name], 2 * (one.x[name] - start[name]))
    for name in task.network.buffers:
        torch.testing.assert_close(two.x[name], one.x[name])


@pytest.mark.parametrize("p", [(0.5, 0.5), (0.2, 0.3), (1.5, 1.5), (0.0, 0.0)])
def test_equal_work_leaves_any_weights_as_they_are(p: tuple[float, ...]) -> None:
    """Also those that do not sum to one, as FedEP's over a part of the clients."""
    found, *_ = nova(0.9, rule=Given(p)).weights((), cohort([1, 1], steps=[7, 7]))
    assert found.tolist() == pytest.approx(p)


@pytest.mark.parametrize("rule", AVERAGES)
def test_with_equal_work_it_is_the_rule_alone(rule: str) -> None:
    """FedAvg with those weights, for three rounds."""
    data = federation(sizes=[16] * 6)
    alone, beside = (
        play(composed(TASK, data, *m), data, 3).x for m in ((rule,), ("fednova", rule))
    )
    assert distance(alone, beside) < 1e-6


@pytest.mark.parametrize("rule", AVERAGES)
def test_with_unequal_work_it_is_neither_alone(rule: str) -> None:
    """Both have a say."""
    both = play(composed(TASK, DATA, "fednova", rule), DATA, 2).x
    for name in ("fednova", rule):
        assert distance(play(composed(TASK, DATA, name), DATA, 2).x, both) > 1e-6


@pytest.mark.parametrize(
    ("beside", "rule"),
    [
        ("feddisco", FedDisco),
        ("fedep", EntropyPool),
        ("aaggff_d", AAggFFD),
        (("lg_fedavg", {"weights": "uniform"}), Uniform),
        ("fedprox", ByExamples),
    ],
)
def test_the_weights_are_the_other_methods_in_either_order(beside: Named, rule: type) -> None:
    """Named first or last."""
    one, two = (composed(TASK, DATA, *m).mixing for m in (("fednova", beside), (beside, "fednova")))
    assert one == two
    assert isinstance(one, Nova)
    assert isinstance(one.rule, rule)


def test_what_a_rule_remembers_and_logs_is_kept() -> None:
    """The regret of AAggFF is that of its own decisions."""
    one, two = (composed(TASK, DATA, *m) for m in (("aaggff_d",), ("aaggff_d", "fednova")))
    assert one.needs == two.needs == {"loss"}
    c = cohort([5, 9, 16, 20, 30, 40], loss=[1, 2, 3, 4, 5, 6], steps=[1, 2, 2, 3, 4, 5])
    first, second = (m.weights(m.init(6), c) for m in (one.mixing, two.mixing))
    assert same(first.state, second.state)
    assert first.logged["regret"] == second.logged["regret"]
    assert composed(TASK, DATA, "fednova", "fedep").mixing.survey


@pytest.mark.parametrize("rule", ["qfedavg", "fedmgda"])
def test_weights_of_no_average_are_refused(rule: str) -> None:
    """With the reason, whoever is named first."""
    why = f"'fednova' cannot be combined with '{rule}': .*include a step length"
    for pair in (("fednova", rule), (rule, "fednova")):
        with pytest.raises(ConfigError, match=why):
            composed(TASK, DATA, *pair)


@pytest.mark.parametrize("server", ["fedavgm", "fedadam"])
def test_two_steps_of_one_server_are_refused(server: str) -> None:
    """One of them would do; the default leaves it to the other method."""
    composed(TASK, DATA, "fednova", server)
    for pair in (
        (("fednova", {"server_lr": 0.5}), server),
        (server, ("fednova", {"server_lr": 2})),
    ):
        with pytest.raises(ConfigError, match=r"method\.server_lr of 'fednova' .* leave server_lr"):
            composed(TASK, DATA, *pair)


# -- with a proximal term -----------------------------------------------------------------------


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_reach_is_the_way_along_a_constant_slope_that_is_pulled_back(
    rho: float, nesterov: bool
) -> None:
    """Twelve steps of rate 0.1 along a gradient of 1 + 2 (w - x), in units of the rate."""
    opt, w = Sgd(0.1, rho, nesterov=nesterov), at(w=0.0)
    state, ways = opt.init(w), []
    for _ in range(12):
        w, state = opt.update(at(w=1.0 + 2.0 * float(w["w"])), state, w)
        ways.append(-float(w["w"]) / 0.1)
    tau = torch.arange(1, 13, dtype=torch.float64)
    assert reach(tau, opt, 0.1 * 2.0).tolist() == pytest.approx(ways, rel=1e-6)


@pytest.mark.parametrize("tau", [1, 2, 8, 1875])
def test_reach_in_closed_form(tau: int) -> None:
    """(1 - (1 - eta mu)^tau) / (eta mu); without a pull it is the number of steps."""
    steps = torch.tensor([float(tau)], dtype=torch.float64)
    expected = (1 - 0.98**tau) / 0.02
    assert float(reach(steps, Sgd(0.1), 0.02)) == pytest.approx(expected, rel=1e-10)
    assert float(reach(steps, Sgd(0.1), 1e-9)) == pytest.approx(tau, rel=1e-5)
    assert float(reach(steps, Sgd(0.1))) == tau


class Slope(Handmade):
    """x w: the same gradient everywhere."""

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        return batch.x * w["w"]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_slopes_that_cancel_do_not_move_the_server(momentum: float) -> None:
    """Gradients 3 and -1 on 1 and 3 examples, with 2 and 8 steps and a pull: sum n_k g_k = 0.

    Dividing by the number of steps, as if there were no pull, would move it.
    """
    data = scalars([3.0, -1.0], [1, 3])
    methods = (("fednova", {}), ("fedprox", {"mu": 2.0}))
    made = composed(Slope(), data, *methods, opt=Sgd(0.1, momentum))
    made = replace(made, schedule=Works((2, 8)))
    assert play(made, data, 3, at(w=1.0), batch_size=3).trace() == pytest.approx([1.0] * 3)
    wrong = replace(made, mixing=nova(momentum))
    assert abs(play(wrong, data, 1, at(w=1.0), batch_size=3).trace()[0] - 1.0) > 0.05


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_parabolas_with_a_pull_by_hand(rate: float) -> None:
    """Minima 0 and 10, w = 4, mu = 1: w_k comes to rest at (c + 4) / 2, by 1 - 2 eta a step.

    a_k = (1 - (1 - eta)^tau_k) / eta, with eta the rate of that round.
    """
    data, eta = scalars([0.0, 10.0]), 0.1 * rate
    made = composed(
        Quadratic(), data, "fednova", ("fedprox", {"mu": 1.0}), opt=Sgd(0.1), decay=Halved(rate)
    )
    made = replace(made, schedule=Works((2, 8)))
    rest, tau = (2.0, 7.0), (2, 8)
    ends = [r + (4 - r) * (1 - 2 * eta) ** t for r, t in zip(rest, tau, strict=True)]
    a = [(1 - (1 - eta) ** t) / eta for t in tau]
    step = sum((4 - w) / n for w, n in zip(ends, a, strict=True)) / 2
    expected = 4 - sum(a) / 2 * step
    assert play(made, data, 1, at(w=4.0)).trace() == pytest.approx([expected], abs=1e-6)


@dataclass(frozen=True)
class Halved(Decay):
    """The same factor in every round."""

    factor: float = 0.5

    def __init__(self, factor: float) -> None:
        object.__setattr__(self, "factor", factor)

    def __call__(self, t: int) -> float:
        return self.factor


def test_a_pull_that_changes_is_refused() -> None:
    """The server would have to know it in every round."""
    with pytest.raises(ConfigError, match="strength of a proximal term in every round"):
        composed(TASK, DATA, "fednova", ("fedprox", {"adaptive": True}))


def test_no_pull_is_no_change() -> None:
    """Bit for bit."""
    one, two = (
        play(composed(TASK, DATA, "fednova", *m), DATA, 2).x
        for m in ((), (("fedprox", {"mu": 0.0}),))
    )
    assert distance(one, two) < 1e-6
