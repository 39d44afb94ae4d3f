"""The least client size: who gives, who gets, and what happens to label mixes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unalike.federation.partition.minimum import top_up


@given(
    owner=st.lists(st.integers(0, 9), min_size=20, max_size=120),
    classes=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_sizes_are_cut_to_one_level_and_filled_to_the_least(
    owner: list[int], classes: int, seed: int
) -> None:
    before = np.array(owner)
    labels = np.random.default_rng(seed).integers(0, classes, len(before))
    after = top_up(before, labels, 10, 2, np.random.default_rng(0))
    old, new = np.bincount(before, minlength=10), np.bincount(after, minlength=10)
    assert new.min() >= 2
    assert (new[old < 2] == 2).all()
    givers = new < old
    # A client keeps what it had unless it is among the largest, and givers end up level.
    assert not givers.any() or np.ptp(new[givers]) <= 1
    assert not givers.any() or (old[~givers & (old >= 2)] <= new[givers].min() + 1).all()


def test_large_enough_clients_are_left_alone() -> None:
    owner = np.arange(30) % 3
    assert top_up(owner, owner, 3, 10, np.random.default_rng(0)) is owner


def test_givers_keep_their_label_mix() -> None:
    labels = np.repeat([0, 1, 2], [600, 300, 100])
    after = top_up(np.zeros(1000, int), labels, 2, 500, np.random.default_rng(0))
    assert np.bincount(labels[after == 0]).tolist() == [300, 150, 50]


def test_a_filled_client_gets_more_of_its_own_class() -> None:
    owner = np.array([0] * 40 + [1, 2])
    labels = np.array([0, 1] * 20 + [1, 0])
    after = top_up(owner, labels, 3, 5, np.random.default_rng(0))
    assert labels[after == 1].tolist() == [1] * 5
    assert labels[after == 2].tolist() == [0] * 5


def test_the_owner_vector_given_is_not_changed() -> None:
    owner = np.zeros(10, int)
    top_up(owner, owner, 5, 2, np.random.default_rng(0))
    assert not owner.any()
