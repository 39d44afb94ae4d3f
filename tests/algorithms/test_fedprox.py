"""FedProx: the proximal term, the heuristic for its strength, and rounds with it."""

import pytest
import torch
from federations import (
    Quadratic,
    Works,
    at,
    cohort,
    composed,
    distance,
    network_task,
    play,
    scalars,
)

from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.fedprox import AdaptiveProximal, FedProx, Fixed, Proximal
from unalike.parts.objective import Nothing
from unalike.parts.optim import Sgd
from unalike.recipe import Recipe


def test_pull() -> None:
    """mu / 2 times the squared distance, over all leaves."""
    w = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(3.0)}
    x = {"a": torch.tensor([0.0, 0.0]), "b": torch.tensor(1.0)}
    term = Proximal(0.5)
    assert float(term(term.init().coefficient, w, x)) == pytest.approx(0.25 * (1 + 4 + 4))
    assert isinstance(term.update(term.init(), cohort([1.0])), Fixed)
    assert Nothing()(torch.zeros(()), w, x) == 0.0


def adaptive(**settings: float) -> AdaptiveProximal:
    return AdaptiveProximal(FedProx(adaptive=True, **settings))


def strengths(
    losses: list[float], mu: float = 0.3, step: float = 0.1, patience: int = 5
) -> list[float]:
    """mu after every round with such a loss."""
    term = adaptive(mu=mu, step=step, patience=patience)
    state, out = term.init(), []
    for loss in losses:
        state = term.update(state, cohort([1.0, 3.0], loss=[loss, loss]))
        out.append(round(float(state.coefficient), 6))
    return out


def test_a_rise_raises_it() -> None:
    """At once, by one step each time."""
    assert strengths([1.0, 1.1, 1.2, 1.0]) == [0.3, 0.4, 0.5, 0.5]


def test_five_falls_in_a_row_lower_it() -> None:
    """The first loss is no fall, a rise starts the count anew, and after a change too."""
    assert strengths([9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5, 0.2]) == [0.3] * 5 + [0.2] * 5 + [0.1]
    falls = [9, 8, 7, 6, 5, 5.5, 5, 4, 3, 2, 1]
    assert strengths(falls) == [0.3] * 5 + [0.4] * 5 + [0.3]


def test_an_equal_loss_is_neither_rise_nor_fall() -> None:
    """It leaves mu alone, and five falls with it in between are not in a row."""
    assert strengths([1.0] * 8) == [0.3] * 8
    assert strengths([9, 8, 7, 6, 6, 5, 4, 3, 2, 1]) == [0.3] * 9 + [0.2]


def test_it_never_becomes_negative() -> None:
    """From zero, and from less than a step."""
    assert strengths([3, 2, 1], mu=0.05, patience=1) == [0.05, 0.0, 0.0]


def test_the_loss_is_weighed_by_size() -> None:
    """Three quarters of the examples are the second client's."""
    term = adaptive(mu=0.0)
    state = term.update(term.init(), cohort([1.0, 3.0], loss=[4.0, 8.0]))
    assert float(state.loss) == pytest.approx(7.0)


def test_the_state_keeps_its_types() -> None:
    """So that a stored one can be restored into a fresh one."""
    term = adaptive(mu=0.1)
    state = term.init()
    later = term.update(term.update(state, cohort([1.0], loss=[2.0])), cohort([1.0], loss=[3.0]))
    assert [v.dtype for v in later] == [v.dtype for v in state]
    assert [v.shape for v in later] == [v.shape for v in state]


# -- in a round: two parabolas with minima at 0 and 10, w = 4, rate 0.1 ---------------------------


@pytest.mark.parametrize(
    ("mu", "locals_", "mean"),
    [(0.1, (2.394203, 6.408695), 4.401449), (1.0, (2.655360, 6.016960), 4.336160)],
)
def test_fedprox(mu: float, locals_: tuple[float, float], mean: float) -> None:
    """Five steps each; the pull is mu (w - x), so the term has the factor one half."""
    for client in (0, 1):
        assert trained([10.0 * client], mu) == pytest.approx(locals_[client], abs=1e-6)
    assert trained([0.0, 10.0], mu) == pytest.approx(mean, abs=1e-6)


def trained(minima: list[float], mu: float) -> float:
    """The model after one round of five steps each."""
    algorithm = FedAvg(Quadratic(), Sgd(0.1), Proximal(mu))
    recipe = Recipe(algorithm, schedule=Works((5.0,) * len(minima)))
    return play(recipe, scalars(minima), 1, at(w=4.0)).trace()[0]


def test_no_pull_is_fedavg() -> None:
    task, data = network_task("dense")
    plain, still = (
        play(composed(task, data, m), data, 3).x for m in ("fedavg", ("fedprox", {"mu": 0.0}))
    )
    assert distance(plain, still) < 1e-7
