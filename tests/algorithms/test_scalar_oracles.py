"""FedAvg and FedNova on two parabolas whose minima are at 0 and 10.

Both clients weigh the same, the start is w = 4, the learning rate 0.1. The numbers were computed
apart from this package; the comment beside a short one says how.
"""

import pytest
from federations import Quadratic, Works, at, cohort, play, scalars
from weighing import nova

from unalike.algorithms.fedavg import FedAvg
from unalike.parts.mixing.base import Mixing
from unalike.parts.mixing.examples import ByExamples
from unalike.parts.objective import Term
from unalike.parts.optim import Sgd
from unalike.recipe import Recipe

TWO = scalars([0.0, 10.0])
CLOSE = {"abs": 1e-6, "rel": 1e-7}


def after(
    steps: tuple[int, int], momentum: float = 0.0, mixing: Mixing | None = None, **parts: Term
) -> float:
    """The model after one round in which the clients take so many steps."""
    algorithm = FedAvg(Quadratic(), Sgd(0.1, momentum), **parts)
    recipe = Recipe(algorithm, mixing or ByExamples(), Works(steps))
    return play(recipe, TWO, 1, at(w=4.0)).trace()[0]


def alone(client: int, steps: int, momentum: float = 0.0, **parts: Term) -> float:
    """The same client's model at the end of its own training."""
    recipe = Recipe(FedAvg(Quadratic(), Sgd(0.1, momentum), **parts), schedule=Works((steps,)))
    return play(recipe, scalars([10.0 * client]), 1, at(w=4.0)).trace()[0]


def test_local_models_without_momentum() -> None:
    """4 x 0.9^2, and 10 - 6 x 0.9^8."""
    assert alone(0, 2) == pytest.approx(3.24, **CLOSE)
    assert alone(1, 8) == pytest.approx(7.417197, **CLOSE)


def test_fedavg_and_fednova_without_momentum() -> None:
    """FedAvg follows the busy client, FedNova does not."""
    assert after((2, 8)) == pytest.approx(5.328598, **CLOSE)
    assert after((2, 8), mixing=nova()) == pytest.approx(4.117874, **CLOSE)


def test_local_models_with_momentum() -> None:
    """The momentum buffer starts empty in every round."""
    assert alone(0, 2, 0.9) == pytest.approx(2.88, **CLOSE)
    assert alone(1, 8, 0.9) == pytest.approx(13.319341, **CLOSE)


def test_fednova_with_momentum_in_both_readings_of_tau_eff() -> None:
    """tau_eff = sum p a (paper) and sum p tau (with a proximal term)."""
    assert after((2, 8), 0.9) == pytest.approx(8.099671, **CLOSE)
    assert after((2, 8), 0.9, nova(0.9)) == pytest.approx(3.509815, **CLOSE)
    assert after((2, 8), 0.9, nova(0.9, effective="steps")) == pytest.approx(3.845084, **CLOSE)


@pytest.mark.parametrize(("momentum", "expected"), [(0.0, 4.409510), (0.9, 5.029160)])
def test_equal_steps_make_fednova_fedavg(momentum: float, expected: float) -> None:
    """Whatever the reading of tau_eff would be without momentum."""
    assert after((5, 5), momentum) == pytest.approx(expected, **CLOSE)
    assert after((5, 5), momentum, nova(momentum)) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize(
    ("steps", "normaliser"),
    [(2, 2.9), (5, 13.1441), (8, 28.742049), (10, 41.381060), (100, 910.002391), (1875, 18660.0)],
)
def test_momentum_normaliser(steps: int, normaliser: float) -> None:
    """Beside a client of one step (a = 1), weight ratios are the inverse ratio of normalisers."""
    p, *_ = nova(0.9).weights((), cohort([1, 1], steps=[steps, 1]))
    assert float(p[1] / p[0]) == pytest.approx(normaliser, rel=1e-6)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_normaliser_is_the_way_along_a_constant_slope(rho: float, nesterov: bool) -> None:
    """Seven steps of rate 1 along a gradient of 1, beside a client of one step."""
    opt, w = Sgd(1.0, rho, nesterov=nesterov), at(w=0.0)
    state, ways = opt.init(w), []
    for _ in range(7):
        w, state = opt.update(at(w=1.0), state, w)
        ways.append(-float(w["w"]))
    p, *_ = nova(rho, nesterov=nesterov).weights((), cohort([1, 1], steps=[7, 1]))
    assert float(p[1] / p[0]) == pytest.approx(ways[6] / ways[0], rel=1e-6)


def test_fednova_normaliser_in_single_precision() -> None:
    """Clients report their steps as 32-bit numbers."""
    c = cohort([1, 1], steps=[1875, 1])
    c = c._replace(stats={k: v.float() for k, v in c.stats.items()})
    p, *_ = nova(0.9).weights((), c)
    assert float(p[1] / p[0]) == pytest.approx(18660.0, rel=1e-5)


def test_fednova_finds_the_optimum_where_fedavg_drifts() -> None:
    """From the optimum, one goes 10 times as far to the busy client's side as to the other's."""
    steps, algorithm = Works((1, 10)), FedAvg(Quadratic(), Sgd(1e-3))
    drift = play(Recipe(algorithm, schedule=steps), TWO, 20, at(w=5.0)).trace()[-1]
    fixed = play(Recipe(algorithm, nova(), steps), TWO, 20, at(w=5.0)).trace()[-1]
    assert drift > 5.4
    assert fixed == pytest.approx(5.0, abs=0.005)
