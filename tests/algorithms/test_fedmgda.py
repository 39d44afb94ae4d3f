"""FedMGDA+: a direction along which nobody's loss rises."""

import numpy as np
import pytest
import torch
from federations import Quadratic, at, cohort, composed, play, scalars
from hypothesis import given
from hypothesis import strategies as st
from weighing import CLOSE, UPDATES, N, plain, weigh

from unalike import tree
from unalike.algorithms.fedmgda import FedMgda
from unalike.parts.optim import Sgd

GRAM = (UPDATES @ UPDATES.T).tolist()


def test_around_equal_weights() -> None:
    """Shares within 0.1 of 1/3."""
    p = weigh(FedMgda(epsilon=0.1, centre="equal"), gram=GRAM)
    share = p * UPDATES.norm(dim=1)
    assert plain(share) == pytest.approx([0.386474, 0.233333, 0.380193], **CLOSE)
    assert plain(p @ UPDATES) == pytest.approx([0.242279, 0.305902], **CLOSE)
    assert torch.allclose(weigh(FedMgda(epsilon=0.1, centre="equal", lr=2.0), gram=GRAM), 2 * p)


def test_around_the_sizes() -> None:
    """Sizes 10, 20, 30, shares within 0.1 of 1/6, 2/6, 3/6: the least norm by trying a fine grid.

    The first and the second meet their bounds, 1/6 + 0.1 and 2/6 - 0.1; the third gets the rest.
    """
    p = weigh(FedMgda(epsilon=0.1), gram=GRAM)
    share = p * UPDATES.norm(dim=1)
    assert plain(share) == pytest.approx([4 / 15, 7 / 30, 1 / 2], abs=1e-9)
    unit = (UPDATES / UPDATES.norm(dim=1, keepdim=True)).numpy()
    grid = np.array(
        [
            (a, b, 1 - a - b)
            for a in np.linspace(1 / 6 - 0.1, 1 / 6 + 0.1, 201)
            for b in np.linspace(1 / 3 - 0.1, 1 / 3 + 0.1, 201)
            if abs(0.5 - a - b) <= 0.1 + 1e-12
        ]
    )
    best = grid[np.linalg.norm(grid @ unit, axis=1).argmin()]
    assert share.numpy() == pytest.approx(best, abs=2e-3)


def test_equal_sizes_make_both_centres_one() -> None:
    gram = cohort([7, 7, 7], gram=GRAM)
    size, equal = (FedMgda(centre=c).weights((), gram).p for c in ("size", "equal"))
    torch.testing.assert_close(size, equal)


@pytest.mark.parametrize("centre", ["size", "equal"])
def test_without_room_the_weights_are_the_centre(centre: str) -> None:
    p = weigh(FedMgda(epsilon=0.0, centre=centre), gram=GRAM)
    share = torch.tensor(N).double() / 60 if centre == "size" else torch.full((3,), 1 / 3).double()
    assert torch.allclose(p * UPDATES.norm(dim=1), share)


@given(st.integers(0, 1000), st.integers(2, 9), st.integers(1, 6))
def test_the_direction_descends_for_everybody(seed: int, n: int, d: int) -> None:
    """<sum l d, d_i> >= ||sum l d||^2 for all i: what makes the direction common."""
    updates = torch.from_numpy(np.random.default_rng(seed).standard_normal((n, d)))
    p = weigh(FedMgda(epsilon=1.0), n, gram=(updates @ updates.T).tolist())
    step, unit = p @ updates, updates / updates.norm(dim=1, keepdim=True)
    assert ((unit @ step) >= step @ step - 1e-6).all()
    assert float(step.norm()) <= 1 + 1e-9


def test_a_client_that_did_not_move() -> None:
    updates = UPDATES.clone()
    updates[1] = 0
    p = weigh(FedMgda(epsilon=0.1), gram=(updates @ updates.T).tolist())
    assert torch.isfinite(p).all()
    p = weigh(FedMgda(epsilon=0.1), gram=[[0.0] * 3] * 3)
    assert torch.isfinite(p).all()
    assert float(p.sum()) > 0  # buffers are divided by it


def test_in_a_run_it_moves_by_unit_directions() -> None:
    """Two parabolas on either side of the start: the directions cancel, nobody is harmed."""
    data = scalars([0.0, 10.0], [1, 5])
    parts = {"opt": Sgd(0.1)}
    mid = composed(Quadratic(), data, ("fedmgda", {"epsilon": 1.0}), **parts)
    assert play(mid, data, 3, at(w=4.0), batch_size=5).trace() == pytest.approx([4.0] * 3)
    out = play(mid, data, 3, at(w=20.0), batch_size=5).trace()
    assert out == pytest.approx([19.0, 18.0, 17.0])


def test_it_stays_where_somebody_is_content() -> None:
    """At one client's minimum every step would harm it."""
    data = scalars([0.0, 0.5, 8.0])
    recipe = composed(Quadratic(), data, ("fedmgda", {"epsilon": 1.0}), opt=Sgd(0.1))
    assert play(recipe, data, 2, at(w=0.0)).trace() == pytest.approx([0.0, 0.0], abs=1e-9)


def test_lengths_are_those_of_the_uploads() -> None:
    ups = {"a": torch.ones(3, 2, 2), "b": torch.tensor([[1.0], [2.0], [3.0]])}
    assert tree.sqnorms(ups).tolist() == [5.0, 8.0, 13.0]
    assert torch.equal(tree.sqnorms(ups), tree.gram(ups).diagonal())
