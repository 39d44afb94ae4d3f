"""FedNova with weights other than n_k / n, and with another step of the server.

The parabolas of ``test_scalar_oracles.py``: minima 0 and 10, w = 4, rate 0.1, 2 and 8 steps. Plain
SGD ends at 3.24 and 7.41719674, so the updates by their work are 0.38 and -0.4271495925.
"""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from federations import (
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
from unalike.parts.mixing.aaggff_d import AaggffD
from unalike.parts.mixing.entropy_pool import EntropyPool
from unalike.parts.mixing.nova import Nova

from unalike.algorithms.fedavg import FedAvg
from unalike.cohort import Cohort
from unalike.errors import ConfigError
from unalike.parts.mixing.base import Memoryless
from unalike.parts.mixing.disco import LabelDisco
from unalike.parts.mixing.examples import ByExamples, Uniform
from unalike.parts.optim import Sgd
from unalike.recipe import Recipe

AVERAGES = ["aaggff_d", "aaggff_s", "afl", "feddisco", "fedep", "propfair", "term"]
CLOSE = {"abs": 1e-6, "rel": 1e-7}
TASK, DATA = network_task("dense")


@dataclass(frozen=True)
class Given(Memoryless):
    """Weights that never change."""

    p: tuple[float, ...]

    def weights(self, state: Any, cohort: Cohort) -> tuple[Tensor, Any]:
        return torch.tensor(self.p, dtype=torch.float64), state


def after(p: tuple[float, float], momentum: float = 0.0, **settings: Any) -> float:
    """The model after one round."""
    nova = Nova(momentum, rule=Given(p), **settings)
    recipe = Recipe(FedAvg(Quadratic(), Sgd(0.1, momentum)), nova, Works((2, 8)))
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
    found, *_ = Nova(0.9, rule=Given(p)).weights((), cohort([1, 1], steps=[7, 7]))
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
        ("feddisco", LabelDisco),
        ("fedep", EntropyPool),
        ("aaggff_d", AaggffD),
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
    (_, first), (_, second) = (m.weights(m.init(6), c) for m in (one.mixing, two.mixing))
    assert same(first, second)
    assert one.mixing.logged(first) == two.mixing.logged(second)
    assert composed(TASK, DATA, "fednova", "fedep").mixing.survey


@pytest.mark.parametrize(
    ("rule", "why"), [("qfedavg", "no average's.*step length"), ("fedmgda", "to length one")]
)
def test_weights_of_no_average_are_refused(rule: str, why: str) -> None:
    """With the reason, whoever is named first."""
    for pair in (("fednova", rule), (rule, "fednova")):
        with pytest.raises(
            ConfigError, match=f"'fednova' cannot be combined with '{rule}': .*{why}"
        ):
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
