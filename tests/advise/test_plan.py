"""What a tournament can afford."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from unalike.advise.plan import SLACK, Cost, field_sizes, last_rung, rungs, survivors


def test_half_of_each_kind_goes_on():
    assert [survivors(n) for n in (1, 2, 3, 8, 9)] == [1, 1, 2, 4, 5]
    assert field_sizes(8, 4) == [12, 6, 4]  # 8+4, 4+2, 2+1 and the baseline


@given(
    seconds=st.floats(1, 1e4),
    start=st.floats(0, 2),
    each=st.floats(0.001, 5),
    seeds=st.integers(1, 6),
    rounds=st.integers(1, 300),
)
def test_rounds_double_within_time_and_the_file(seconds, start, each, seeds, rounds):
    sizes = [12, 7, 5]
    plan = rungs(seconds, Cost(start, each), sizes, seeds, rounds)
    assert plan
    assert all(b == 2 * a for a, b in pairwise(plan))
    assert plan[-1] <= rounds
    early = min(2, seeds)
    runs = [(12 + 5) * early, (7 + 5 * 4) * early, 5 * seeds]  # with rungs and rates
    cost = sum(n * (start + SLACK * each * r) for n, r in zip(runs, plan, strict=False))
    assert cost <= seconds * (1 + 1e-9) or plan[0] == 1  # there is no smaller tournament


def test_more_time_never_means_fewer_rounds():
    plans = [rungs(s, Cost(0.1, 0.05), [12, 7, 5], 3, 200) for s in (1, 30, 60, 600)]
    assert plans == sorted(plans)
    assert plans[-1][-1] > plans[0][-1]


@given(
    seconds=st.floats(-5, 1e4),
    start=st.floats(0, 2),
    each=st.floats(0.001, 5),
    seeds=st.integers(1, 6),
    planned=st.integers(1, 50),
)
def test_time_that_is_left_goes_into_rounds_first(seconds, start, each, seeds, planned):
    found = last_rung(seconds, Cost(start, each), 4, seeds, planned, 300)
    assert planned <= found <= max(planned, 300)
    if found > planned:
        assert 4 * seeds * (start + SLACK * each * found) <= seconds * (1 + 1e-9)
