"""Corrections over families of tests, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.compare.statistics.family import hardest, holm

NAN = float("nan")


def test_holm_by_hand():
    # 0.01 x 4 = 0.04; 0.02 x 3 = 0.06; 0.03 x 2 = 0.06; 0.5 x 1.
    assert holm([0.02, 0.5, 0.01, 0.03]).p == pytest.approx([0.06, 0.5, 0.04, 0.06])
    assert holm([0.02, 0.5, 0.01, 0.03]).times == pytest.approx([3, 1, 4, 2])
    assert holm([0.9, 0.8]).p.tolist() == [1.0, 1.0]
    assert holm([NAN, 0.01]).p == pytest.approx([NAN, 0.01], nan_ok=True)
    assert holm([]).p.tolist() == []


def test_weights_are_parts_of_alpha_by_hand():
    # p / w: 0.05, 0.02, 0.2; so 0.004 x 1 / 0.2, then 0.03 x 0.8 / 0.6, then 0.04 x 1.
    found = holm([0.03, 0.004, 0.04], [0.6, 0.2, 0.2])
    assert found.p == pytest.approx([0.04, 0.02, 0.04])
    assert holm([0.03, NAN, 0.04], [0.6, 0.2, 0.2]).p == pytest.approx(
        [0.04, NAN, 0.04], nan_ok=True
    )


def test_a_p_of_zero_stays_zero_and_knows_its_step():
    found = holm([0.0, 0.04])
    assert found.p.tolist() == [0.0, 0.04]
    assert found.times.tolist() == [2.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_holm_is_monotone_and_never_below_the_raw_values(p):
    adjusted, times = holm(p)
    assert (adjusted >= p).all()
    assert ((adjusted >= 0) & (adjusted <= 1)).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()
    assert adjusted.min() == pytest.approx(min(1.0, min(p) * len(p)))
    assert np.minimum(1, times * p) == pytest.approx(adjusted)


def test_families_beside_each_other_are_corrected_apart():
    both = holm([[0.01, 0.03], [NAN, 0.03]]).p
    assert both == pytest.approx(np.array([[0.02, 0.03], [NAN, 0.03]]), nan_ok=True)


def test_a_leader_is_as_sure_as_over_its_hardest_rival():
    p = np.array([[NAN, 0.01, 0.04], [0.2, NAN, NAN], [NAN, NAN, NAN]])
    assert hardest(p, np.array([0, 1, 2])) == pytest.approx([0.04, 0.2, NAN], nan_ok=True)
