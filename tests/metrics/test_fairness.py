"""The spread of a metric over clients: worked numbers, limits and invariances."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unalike.errors import DataError
from unalike.metrics.fairness import gini, summarise, summarise_all

VALUES = np.array([0.9, 0.5, 0.8, 0.7, 0.6])


def test_gini_oracle():
    assert gini(VALUES) == pytest.approx(0.114286, abs=1e-6)


def test_gini_limits():
    assert gini([0.3] * 7) == pytest.approx(0, abs=1e-15)
    assert gini([0, 0, 0, 1]) == pytest.approx(3 / 4)
    assert gini([0, 0, 0]) == 0
    assert np.isnan(gini([]))
    assert np.isnan(gini([-0.1, 0.5]))
    assert gini([5e-324, 1e-323]) == pytest.approx(1 / 6)


positive = arrays(float, st.integers(1, 40), elements=st.floats(1e-3, 1e3))


@given(values=positive, scale=st.floats(1e-6, 1e6))
def test_gini_is_the_mean_difference_and_has_no_scale(values, scale):
    definition = np.abs(values[:, None] - values).sum() / (2 * len(values) ** 2 * values.mean())
    assert gini(values) == pytest.approx(definition, abs=1e-9)
    assert gini(scale * values) == pytest.approx(gini(values), abs=1e-9)
    assert -1e-12 <= gini(values) < 1


def test_summary_by_hand():
    s = summarise(VALUES, [10, 20, 30, 20, 20])
    assert s.clients == 5
    assert s.undefined == 0
    assert s.mean == pytest.approx(0.7)
    assert s.weighted_mean == pytest.approx((9 + 10 + 24 + 14 + 12) / 100)
    assert s.std == pytest.approx(np.sqrt(0.02))
    assert (s.median, s.min, s.max) == pytest.approx((0.7, 0.5, 0.9))
    assert (s.worst10, s.best10, s.parity_gap) == pytest.approx((0.5, 0.9, 0.4))
    assert s.gini == pytest.approx(0.114286, abs=1e-6)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (9, 1), (19, 1), (20, 2), (30, 3), (70, 7), (99, 9)])
def test_size_of_the_worst_and_best_group(n, k):
    s = summarise(np.arange(n), np.ones(n))
    assert s.worst10 == pytest.approx(np.arange(k).mean())
    assert s.best10 == pytest.approx(np.arange(n - k, n).mean())


def test_groups_are_weighted_by_size():
    values = np.linspace(0, 1, 20)
    sizes = np.ones(20)
    sizes[[0, 19]] = 3
    s = summarise(values, sizes)
    assert s.worst10 == pytest.approx((3 * values[0] + values[1]) / 4)
    assert s.best10 == pytest.approx((3 * values[19] + values[18]) / 4)


def test_of_a_loss_the_largest_are_the_worst():
    s = summarise(VALUES, np.ones(5), higher_is_better=False)
    assert (s.worst10, s.best10, s.parity_gap) == pytest.approx((0.9, 0.5, 0.4))


def test_undefined_clients_are_left_out_and_counted():
    values = np.concatenate([VALUES, [np.nan, np.nan]])
    s = summarise(values, [1, 1, 1, 1, 1, 0, 4])
    assert s.undefined == 2
    assert s.as_dict() == summarise(VALUES, np.ones(5)).as_dict() | {"undefined": 2}


def test_no_client_has_a_value():
    s = summarise([np.nan, np.nan], [0, 3]).as_dict()
    assert (s.pop("clients"), s.pop("undefined")) == (0, 2)
    assert all(np.isnan(v) for v in s.values())


def test_the_dict_is_plain():
    json.dumps(summarise(VALUES, np.ones(5)).as_dict())


@given(sizes=st.permutations(range(1, 21)), worst=st.integers(0, 19))
def test_equal_values_rank_by_size_whatever_the_order(sizes, worst):
    """One client at 0 and nineteen at 1: the second of the worst two is the smallest of these."""
    values = np.ones(20)
    values[worst] = 0
    smallest, largest = 1 + (sizes[worst] == 1), 20 - (sizes[worst] == 20)
    assert summarise(values, sizes).worst10 == pytest.approx(smallest / (smallest + sizes[worst]))
    flipped = summarise(1 - values, sizes)
    assert flipped.best10 == pytest.approx(sizes[worst] / (largest + sizes[worst]))


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 99)), min_size=1))
def test_groups_bound_the_mean(clients):
    s = summarise(*zip(*clients, strict=True))
    tolerance = 1e-12
    assert s.min - tolerance <= s.worst10 <= s.weighted_mean + tolerance
    assert s.weighted_mean - tolerance <= s.best10 <= s.max + tolerance


@pytest.mark.parametrize(
    ("values", "sizes", "message"),
    [
        ([0.1, 0.2], [1], r"same clients, got shapes \(2,\) and \(1,\)"),
        ([0.1, np.inf], [1, 1], "client 1 has an infinite value"),
        ([0.1, 0.2], [1, 0], "client 1 has a value but size 0"),
        ([0.1, 0.2], [-1, 1], "client 0 has a value but size -1"),
        ([0.1, 0.2], [1, np.nan], "client 1 has a value but size nan"),
    ],
)
def test_bad_input_is_named(values, sizes, message):
    with pytest.raises(DataError, match=message):
        summarise(values, sizes)


def alone(v, m, higher):
    """One metric by NumPy's own functions."""
    undefined, (v, m) = int(np.isnan(v).sum()), (a[~np.isnan(v)] for a in (v, m))
    if not len(v):
        return {"clients": 0, "undefined": undefined}
    k, order = max(1, len(v) // 10), np.lexsort((m, v))
    groups = [np.average(v[g], weights=m[g]) for g in (order[:k], order[-k:])]
    worst, best = groups if higher else groups[::-1]
    return {
        "clients": len(v),
        "undefined": undefined,
        "mean": v.mean(),
        "weighted_mean": np.average(v, weights=m),
        "std": v.std(),
        "median": np.median(v),
        "min": v.min(),
        "max": v.max(),
        "worst10": worst,
        "best10": best,
        "parity_gap": groups[1] - groups[0],
        "gini": gini(v),
    }


@pytest.mark.parametrize("n", [1, 2, 9, 20, 137, 1000])
def test_many_metrics_at_once_are_each_to_the_last_bit(n):
    drawn = np.random.default_rng(n)
    sizes = drawn.integers(1, 50, n)
    metrics = {name: drawn.random(n) for name in ("accuracy", "loss", "f1")}
    metrics["auroc"] = np.where(drawn.random(n) < 0.3, np.nan, drawn.random(n))
    metrics["ece"] = np.where(np.isnan(metrics["auroc"]), np.nan, np.round(drawn.random(n), 1))
    metrics["mce"] = np.full(n, np.nan)
    metrics["top5"] = np.ones(n)
    found = summarise_all(metrics, sizes, lambda name: name != "loss")
    assert list(found) == list(metrics)
    for name, values in metrics.items():
        wanted = alone(values, sizes, name != "loss")
        got = found[name].as_dict()
        assert {k: got[k] for k in wanted} == wanted
        assert all(type(v) in (int, float) for v in got.values())
        assert summarise(values, sizes, name != "loss").as_dict() == pytest.approx(got, nan_ok=True)
