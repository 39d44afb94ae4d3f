"""The one descent: plain, penalised, shifted, in turns, continued; on numbers that can be followed.

Task: 1/2 (g f x - y)^2 with x = 1, y = 2, from f = 1, g = 0.5, at rate 0.1, all rows alike.
"""

from typing import Any

import pytest
import torch
from federations import Product, at, scalars

from unalike import rng, tree
from unalike.algorithms.fedprox import Proximal
from unalike.batches import Batches
from unalike.draws import alone, draw
from unalike.parts.descent import Descent, Loss, Penalised, Step, begin, descend
from unalike.parts.optim import Adam, Sgd
from unalike.parts.representation.private import Private

TASK = Product(names=("f", "g"))
RATE = torch.tensor(1.0, dtype=torch.float64)
FIRST = Private(("f",))


def data(steps: int) -> Batches:
    """So many minibatches of one row."""
    examples = scalars([[1.0, 2.0]], [steps]).examples
    n = torch.tensor([steps])
    found = draw(
        torch.arange(steps),
        n,
        torch.zeros(1, dtype=torch.long),
        budget=n,
        epochs=torch.ones(1),
        batch_size=1,
        keys=rng.key(0)[None],
    )
    ((own, extent),) = alone(found)
    return Batches(examples.x, examples.y, own, rng.key(1), extent)


def ended(steps: int, objective: Any = None, opt: Any = None, **more: Any) -> Descent:
    """Where a descent from (1, 0.5) ends."""
    objective, opt = objective or Loss(TASK), opt or Sgd(0.1)
    return descend(objective, opt, at(f=1.0, g=0.5), {}, data(steps), RATE, **more)


def numbers(end: Descent) -> tuple[float, float]:
    """(f, g)."""
    return float(end.theta["f"]), float(end.theta["g"])


def test_plain() -> None:
    """e = g f - y = -1.5, then -1.5 + ...: both from the same point."""
    f, g = 1.0, 0.5
    for _ in range(3):
        e = g * f - 2
        f, g = f - 0.1 * e * g, g - 0.1 * e * f
    assert numbers(ended(3)) == pytest.approx((f, g), abs=1e-12)


def test_penalised() -> None:
    """The coefficient and the anchor are given: pull 3 towards (2, 2)."""
    given = (torch.tensor(3.0), at(f=2.0, g=2.0))
    f, g = 1.0, 0.5
    for _ in range(3):
        e = g * f - 2
        f, g = f - 0.1 * (e * g + 3 * (f - 2)), g - 0.1 * (e * f + 3 * (g - 2))
    end = ended(3, Penalised(TASK, Proximal(3.0)), given=given)
    assert numbers(end) == pytest.approx((f, g), abs=1e-6)


def test_shifted() -> None:
    """(0.3, -0.7) is added to every gradient."""
    f, g = 1.0, 0.5
    for _ in range(3):
        e = g * f - 2
        f, g = f - 0.1 * (e * g + 0.3), g - 0.1 * (e * f - 0.7)
    assert numbers(ended(3, shift=at(f=0.3, g=-0.7))) == pytest.approx((f, g), abs=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_in_turns_and_shifted(momentum: float) -> None:
    """f first; g at the new f; each with its part of the shift and a momentum of its own."""
    f, g, m, v = 1.0, 0.5, 0.0, 0.0
    for _ in range(3):
        m = momentum * m + (g * f - 2) * g + 0.3
        f -= 0.1 * m
        v = momentum * v + (g * f - 2) * f - 0.7
        g -= 0.1 * v
    end = ended(3, opt=Sgd(0.1, momentum), shift=at(f=0.3, g=-0.7), turns=FIRST)
    assert numbers(end) == pytest.approx((f, g), abs=1e-12)
    assert len(end.opt) == 2


@pytest.mark.parametrize("turns", [None, FIRST])
@pytest.mark.parametrize("opt", [Sgd(0.1, 0.9, nesterov=True), Adam(0.1)])
def test_a_state_is_continued(opt: Any, turns: Any) -> None:
    """Two and three steps are five."""
    first = ended(2, opt=opt, turns=turns)
    rest = descend(Loss(TASK), opt, first.theta, {}, data(3), RATE, state=first.opt, turns=turns)
    whole = ended(5, opt=opt, turns=turns)
    assert all(map(torch.equal, tree.leaves(rest), tree.leaves(whole)))


def test_the_state_before_the_first_step() -> None:
    """Is what a descent begins with: no steps leave it as it is."""
    theta = at(f=1.0, g=0.5)
    for turns in (None, FIRST):
        state = begin(Adam(0.1), theta, turns)
        end = descend(Loss(TASK), Adam(0.1), theta, {}, data(2).epochs(1, 2), RATE, turns=turns)
        assert all(map(torch.equal, tree.leaves(end.opt), tree.leaves(state)))
        assert numbers(end) == (1.0, 0.5)


def test_a_rate_scales_the_step() -> None:
    """Half the rate is half the way in one step."""
    one, half = (
        descend(Loss(TASK), Sgd(0.1), at(f=1.0, g=0.5), {}, data(1), torch.tensor(r)).theta
        for r in (1.0, 0.5)
    )
    for k, start in at(f=1.0, g=0.5).items():
        assert float(half[k] - start) == pytest.approx(float(one[k] - start) / 2)


def test_equal_steps_are_found_in_a_table() -> None:
    """Made of the same settings, they are one; of others, not."""
    steps = {Step(Loss(TASK), Sgd(0.1)): 1, Step(Penalised(TASK, Proximal(1.0)), Sgd(0.1)): 2}
    assert steps[Step(Loss(Product(names=("f", "g"))), Sgd(0.1))] == 1
    assert Step(Loss(TASK), Sgd(0.2)) not in steps
    assert Step(Loss(TASK), Sgd(0.1), FIRST) not in steps
    assert Step(Penalised(TASK, Proximal(2.0)), Sgd(0.1)) not in steps
