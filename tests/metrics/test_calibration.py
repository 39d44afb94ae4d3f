"""Calibration errors against numbers worked out apart from this code, and their limits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.errors import ConfigError, DataError
from unalike.metrics.calibration import calibration_errors, ece, mce, pool, reliability
from unalike.metrics.classification import pooled_reliability

CONFIDENCE = torch.tensor(
    [0.95, 0.91, 0.72, 0.71, 0.55, 0.52, 0.35, 0.99, 0.62, 0.43], dtype=torch.float64
)
CORRECT = torch.tensor([1, 1, 1, 0, 1, 0, 0, 1, 0, 1])
HALVES = slice(0, 5), slice(5, 10)
ONE = torch.zeros(10, dtype=torch.int64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("bins", "expected"), [(15, (0.309, 0.62)), (10, (0.219, 0.62))])
def test_oracle(bins, expected, dtype):
    diagram = reliability(CONFIDENCE.to(dtype), CORRECT, ONE, 1, bins)
    assert float(ece(diagram)) == pytest.approx(expected[0], abs=1e-6)
    assert float(mce(diagram)) == pytest.approx(expected[1], abs=1e-6)


def test_oracle_of_the_batch_variant():
    order = torch.tensor([0, 2, 4, 6, 8, 1, 3, 5, 7, 9])  # even positions, then odd ones
    rows = CONFIDENCE[order], CORRECT[order]
    halves = [calibration_errors(*(r[half] for r in rows), ONE[:5], 1) for half in HALVES]
    assert [float(v) for half in halves for v in half] == pytest.approx([0.35, 0.62, 0.38, 0.71])
    found = calibration_errors(*rows, ONE, 1, per_batch=5)
    assert [float(v) for v in found] == pytest.approx([0.365, 0.665], abs=1e-6)


def test_the_last_small_batch_counts_fully():
    found, _ = calibration_errors(CONFIDENCE, CORRECT, ONE, 1, per_batch=9)
    first, _ = calibration_errors(CONFIDENCE[:9], CORRECT[:9], ONE[:9], 1)
    assert float(found) == pytest.approx((float(first) + 0.57) / 2)


def test_batches_do_not_cross_clients():
    """Interleaved clients are cut one by one, a client without rows stays undefined."""
    owner = torch.tensor([0, 2] * 10)
    confidence, correct = CONFIDENCE.repeat_interleave(2), CORRECT.repeat_interleave(2)
    found = calibration_errors(confidence, correct, owner, 3, per_batch=4)
    alone = calibration_errors(CONFIDENCE, CORRECT, ONE, 1, per_batch=4)
    for together, single in zip(found, alone, strict=True):
        assert together[[0, 2]].tolist() == pytest.approx([float(single)] * 2)
        assert together[1].isnan()


def test_a_batch_as_large_as_the_client_is_the_whole():
    whole = calibration_errors(CONFIDENCE, CORRECT, ONE, 1)
    batched = calibration_errors(CONFIDENCE, CORRECT, ONE, 1, per_batch=10)
    assert [float(v) for v in batched] == pytest.approx([float(v) for v in whole])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("bins", [5, 10, 15, 100])
def test_an_upper_edge_belongs_to_its_bin(bins, dtype):
    edges = torch.tensor([i / bins for i in range(1, bins + 1)], dtype=dtype)
    counts = reliability(edges, torch.ones(bins), torch.zeros(bins).long(), 1, bins).counts
    assert counts.tolist() == [[1] * bins]


def test_the_diagram_of_two_clients():
    diagram = reliability(
        torch.tensor([0.1, 0.9, 0.8, 1.0]),
        torch.tensor([True, False, True, True]),
        torch.tensor([0, 1, 1, 1]),
        2,
        bins=2,
    )
    assert diagram.counts.tolist() == [[1, 0], [0, 3]]
    assert diagram.accuracy[0, 0] == 1.0
    assert float(diagram.accuracy[1, 1]) == pytest.approx(2 / 3)
    assert float(diagram.confidence[1, 1]) == pytest.approx(0.9)
    assert diagram.accuracy[0, 1].isnan()
    assert diagram.confidence[1, 0].isnan()


def test_perfectly_calibrated_bins_have_no_error():
    """Bin (0.6, 0.8] holds 10 rows at 0.7, 7 of them right; bin (0.2, 0.4] 10 at 0.3, 3 right."""
    confidence = torch.tensor([0.7] * 10 + [0.3] * 10, dtype=torch.float64)
    correct = torch.tensor([1] * 7 + [0] * 3 + [1] * 3 + [0] * 7)
    errors = calibration_errors(confidence, correct, torch.zeros(20).long(), 1, bins=5)
    assert [float(v) for v in errors] == pytest.approx([0, 0], abs=1e-12)


rows = st.lists(
    st.tuples(st.floats(0, 1), st.booleans(), st.integers(0, 3)), min_size=1, max_size=60
)


@given(rows=rows, bins=st.integers(1, 20), per_batch=st.none() | st.integers(1, 10))
@settings(max_examples=60, deadline=None)
def test_errors_are_ordered_and_bounded(rows, bins, per_batch):
    confidence, correct, owner = (torch.tensor(column) for column in zip(*rows, strict=True))
    low, high = calibration_errors(confidence, correct, owner, 4, bins, per_batch)
    defined = torch.bincount(owner, minlength=4) > 0
    assert torch.equal(~low.isnan(), defined)
    assert torch.equal(~high.isnan(), defined)
    assert (low[defined] >= 0).all()
    assert (low[defined] <= high[defined] + 1e-12).all()
    assert (high[defined] <= 1 + 1e-12).all()


@pytest.mark.parametrize(
    ("confidence", "message"),
    [(1.5, "confidence must lie in 0 to 1, got 1.5 at client 0"), (float("nan"), "got nan")],
)
def test_impossible_confidence_is_named(confidence, message):
    with pytest.raises(DataError, match=message):
        reliability(torch.tensor([0.5, confidence]), torch.ones(2), ONE[:2], 1)


def test_lengths_must_agree():
    with pytest.raises(DataError, match=r"one length, got shapes \(10,\) and \(9,\)"):
        reliability(CONFIDENCE, CORRECT[:9], ONE, 1)
    with pytest.raises(DataError, match="owner must give one client for each of the 10 rows"):
        reliability(CONFIDENCE, CORRECT, ONE[:9], 1)


def test_bins_and_batches_must_be_positive():
    with pytest.raises(ConfigError, match="bins must be at least 1, got 0"):
        reliability(CONFIDENCE, CORRECT, ONE, 1, bins=0)
    with pytest.raises(ConfigError, match="per_batch must be at least 1, got 0"):
        calibration_errors(CONFIDENCE, CORRECT, ONE, 1, per_batch=0)


def test_pooled_clients_are_one_client():
    owner = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 2])
    apart = reliability(CONFIDENCE, CORRECT, owner, 3)
    together = reliability(CONFIDENCE, CORRECT, ONE, 1)
    for found, expected in zip(pool(apart), together, strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)


def test_the_diagram_of_logits_uses_the_predicted_class():
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]])
    diagram = pooled_reliability(logits, torch.tensor([0, 0, 0]), bins=2)
    sure = torch.softmax(logits.double(), 1).amax(1)
    assert diagram.counts.tolist() == [[0, 3]]
    assert float(diagram.accuracy[0, 1]) == pytest.approx(2 / 3)
    assert float(diagram.confidence[0, 1]) == pytest.approx(float(sure.mean()), abs=1e-6)


def test_the_diagram_of_a_binary_task_is_of_both_answers():
    diagram = pooled_reliability(
        torch.tensor([4.0, -4.0]), torch.tensor([1, 1]), binary=True, bins=2
    )
    assert diagram.counts.tolist() == [[0, 2]]
    assert float(diagram.accuracy[0, 1]) == 0.5
