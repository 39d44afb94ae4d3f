"""Norm clipping; what all defences share is in test_defences.py."""

import pytest
from federations import Named, composed, distance, network_task, play
from filtering import used

from unalike.algorithms.norm_clip import NormClip
from unalike.tree import Params


def test_norm_clip_at_a_fixed_length() -> None:
    """(3, 4) has length 5 and is halved; the others stay: mean of (1.5, 2), (1, 0), (0, -2)."""
    rows = [[3.0, 4.0], [1.0, 0.0], [0.0, -2.0]]
    assert used(NormClip(bound="fixed", norm=2.5), rows) == pytest.approx([2.5 / 3, 0.0])


def test_norm_clip_at_the_median_length() -> None:
    """Lengths 5, 1, 2: the bound is 2, so (3, 4) becomes (1.2, 1.6)."""
    rows = [[3.0, 4.0], [1.0, 0.0], [0.0, -2.0]]
    assert used(NormClip(), rows) == pytest.approx([2.2 / 3, -0.4 / 3])


def test_norm_clip_leaves_the_weights_alone() -> None:
    """0.5 (1.2, 1.6) + 0.25 (1, 0) + 0.25 (0, -2)."""
    rows = [[3.0, 4.0], [1.0, 0.0], [0.0, -2.0]]
    assert used(NormClip(), rows, [0.5, 0.25, 0.25]) == pytest.approx([0.85, 0.3])


def test_no_bound_is_the_weighted_mean() -> None:
    rows = [[3.0, 4.0], [1.0, 0.0], [0.0, -2.0]]
    assert used(NormClip(bound="fixed", norm=1e300), rows, [0.5, 0.25, 0.25]) == pytest.approx(
        [1.75, 1.5]
    )


def test_clipping_zero_updates() -> None:
    """All of length zero: the median is zero too, and nothing becomes NaN."""
    assert used(NormClip(), [[0.0, 0.0]] * 3) == [0.0, 0.0]


def trained(method: Named) -> Params:
    task, data = network_task("dense")
    return play(composed(task, data, method), data, 3).x


def test_a_large_bound_is_fedavg_with_its_weights() -> None:
    loose = ("norm_clip", {"bound": "fixed", "norm": 1e30})
    assert distance(trained("fedavg"), trained(loose)) < 1e-6
    assert distance(trained("fedavg"), trained("norm_clip")) > 1e-4


def test_an_idle_norm_is_refused() -> None:
    task, data = network_task("dense")
    with pytest.raises(ValueError, match="norm belongs to"):
        composed(task, data, ("norm_clip", {"norm": 2.0}))
