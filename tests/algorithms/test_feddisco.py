"""FedDisco's weights: printed numbers, limits, cohorts, and the case without an answer."""

import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from federations import (
    Data,
    asked,
    cohort,
    composed,
    distance,
    federation,
    network_task,
    play,
    sampled,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.special import rel_entr
from torch import Tensor

from unalike.algorithms.feddisco import FedDisco, discrepancies
from unalike.errors import ConfigError, RunError
from unalike.parts.mixing.disco import Disco, by_sum
from unalike.parts.mixing.questions import LabelCounts
from unalike.parts.topology import Clusters, Complete, Ring, Rotating, Star

SHARE = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
D = torch.tensor([0.1, 0.4, 0.9], dtype=torch.float64)
COUNTS = torch.tensor([[100] * 5, [400, 50, 50, 0, 0], [0, 0, 0, 250, 250]])
UNIFORM = torch.full((5,), 0.2, dtype=torch.float64)
Q = COUNTS / COUNTS.sum(1, keepdim=True).double()


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (0.5, 0.1, (0.733333, 0.266667, 0)),
        (0.5, 0.0, (0.818182, 0.181818, 0)),
        (0.1, 0.0, (0.569767, 0.302326, 0.127907)),
        (0.9, 0.0, (1, 0, 0)),
        (0.9, 0.1, (0.927273, 0.072727, 0)),
    ],
)
def test_rule(a, b, expected):
    """From shares and discrepancies."""
    p, none = Disco(a, b)(SHARE, D)
    assert p.tolist() == pytest.approx(expected, abs=1e-6)
    assert not none


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("kl", (0, 0.970406, 0.916291)),
        ("l1", (0, 1.2, 1.2)),  # 0.6 + 3 x 0.1 + 2 x 0.2, 3 x 0.2 + 2 x 0.3
        ("l2", (0, 0.678233, 0.547723)),
        ("cosine", (0, 0.449518, 0.367544)),  # 1 - 0.2 / (|q| 5^-1/2)
    ],
)
def test_discrepancies(kind, expected):
    """Of label distributions from the uniform one, KL in nats."""
    assert discrepancies(Q, UNIFORM, kind).tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (0.541667, 0.220203, 0.238130)),
        ({"discrepancy": "l2"}, (0.630741, 0.137138, 0.232121)),
        ({"normalise": "never"}, (1, 0, 0)),
    ],
)
def test_weights_from_label_counts(settings, expected):
    """Only KL is divided by its sum; dividing L2 as well, or not dividing KL, shows here."""
    assert weights(COUNTS, **settings).tolist() == pytest.approx(expected, abs=1e-6)


def weights(counts: Tensor, sizes: list[float] | None = None, **settings) -> Tensor:
    """Through the method, as a run has it."""
    rule = change(counts.shape[1], **settings)
    sizes = counts.sum(1).tolist() if sizes is None else sizes
    who = cohort(sizes, survey={"label_counts": counts.float()})
    return rule.weights(rule.init(len(counts)), who)[0]


def change(classes: int, **settings) -> FedDisco:
    task, data = network_task("dense")
    data = Data(replace(data.examples, classes=classes), data.rows)
    recipe = composed(task, data, ("feddisco", settings))
    assert isinstance(recipe.mixing, FedDisco)
    return recipe.mixing


def test_normalised_divergence():
    """Divided by the sum; zeros stay zeros."""
    d = by_sum(discrepancies(Q, UNIFORM, "kl"))
    assert d.tolist() == pytest.approx((0, 0.514341, 0.485659), abs=1e-6)
    assert by_sum(torch.zeros(3)).tolist() == [0, 0, 0]


def test_everybody_alike_is_not_divided_by_rounding():
    """Seven classes of three: shares that are no exact binary numbers."""
    counts = torch.full((4, 7), 3)
    assert (
        discrepancies(counts / counts.sum(1, keepdim=True), torch.full((7,), 1 / 7), "kl").max()
        < 1e-6
    )
    p = weights(counts, [10.0, 20.0, 30.0, 40.0])
    assert p.tolist() == pytest.approx([0.2 / 1.4, 0.3 / 1.4, 0.4 / 1.4, 0.5 / 1.4])


def test_all_over_the_cohort():
    """Shares, the sum of d and the weights are those of the clients that answered."""
    survey = {"label_counts": COUNTS.float()}
    rule = FedDisco()
    some, *_ = rule.weights(rule.init(3), cohort([500, 500], [0, 2], n=3, survey=survey))
    # d = (0, 1): u = (0.5 + 0.1, max(0, 0.5 - 0.5 + 0.1))
    assert some.tolist() == pytest.approx([0.6 / 0.7, 0.1 / 0.7])
    whole, *_ = rule.weights(rule.init(3), cohort([500] * 3, survey=survey))
    assert some[1] / some[0] != pytest.approx(float(whole[2] / whole[0]), abs=1e-2)


def test_given_reference():
    """The labels of an imbalanced test set; they need not sum to one."""
    reference = [4, 0.5, 0.5, 2.5, 2.5]
    r = np.array(reference) / 10
    d = np.array([rel_entr(q, r).sum() for q in Q.numpy()])
    u = np.maximum(1 / 3 - 0.5 * d / d.sum() + 0.1, 0)
    assert weights(COUNTS, reference=reference).tolist() == pytest.approx(u / u.sum(), abs=1e-9)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("size", (0.5, 0.3, 0.2)), ("one_hot_min_d", (1.0, 0, 0))],
)
def test_all_zero(policy, expected):
    """The formula gives nobody a weight: a policy does, and the round is counted and noted."""
    p, none = Disco(10, 0, policy)(SHARE, D)
    assert none
    assert p.tolist() == pytest.approx(expected)


def test_all_zero_is_noted():
    """In that round, and not where somebody has a weight; the discrepancies are recorded."""
    rule = FedDisco(a=50.0, b=0.0, normalise="never")
    far = {"label_counts": torch.eye(5)[:3] * 10}
    found = rule.weights((), cohort([10] * 3, survey=far))
    assert found.note == "every client's weight was zero, so they were weighted by sizes"
    assert found.logged["d"].tolist() == pytest.approx([np.log(5)] * 3)
    near = {"label_counts": torch.full((3, 5), 2.0)}
    assert rule.weights((), cohort([10] * 3, survey=near)).note == ""


def test_all_zero_as_an_error():
    """In one sentence, with the range of the discrepancies."""
    with pytest.raises(RunError, match=r"from 0\.1 to 0\.9 are too large for a = 10 and b = 0"):
        Disco(10, 0, "error")(SHARE, D)


def test_a_single_client_has_no_other_rule():
    """1 - 5 x 3 is below zero: the policy decides, as it does for many."""
    one, three = torch.ones(1), torch.full((1,), 3.0)
    with pytest.raises(RunError, match="too large for a = 5 and b = 0"):
        Disco(5, 0, "error")(one, three)
    p, none = Disco(5, 0)(one, three)
    assert p.tolist() == [1]
    assert none
    p, none = Disco(0.1, 0, "error")(one, three)
    assert p.tolist() == [1]
    assert not none


def test_a_zero_that_rounding_hides():
    """0.3 - 3 x 0.1 and the like are zero in arithmetic, about 1e-17 in floating point."""
    share = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    d = torch.tensor([0.1, 0.1, 0.4 / 3], dtype=torch.float64)
    hidden = (share - 2.9999999999999996 * d).clamp(min=0)
    assert 0 < float(hidden.sum()) < 1e-12
    p, none = Disco(2.9999999999999996, 0)(share, d)
    assert none
    assert p.tolist() == share.tolist()


@given(
    st.lists(st.lists(st.integers(0, 20), min_size=4, max_size=4), min_size=1, max_size=6),
    st.floats(0, 3),
    st.floats(0, 1),
    st.sampled_from(["kl", "l1", "l2", "cosine"]),
    st.sampled_from(["kl", "always", "never"]),
)
def test_weights_are_a_distribution(counts, a, b, kind, normalise):
    """Single-label clients and absent classes included; no client is favoured for its number."""
    table = torch.tensor([c if sum(c) else [1, 0, 0, 0] for c in counts])
    rule = FedDisco(a=a, b=b, discrepancy=kind, normalise=normalise)
    sizes = table.sum(1).tolist()
    survey = {"label_counts": table.float()}
    p, *_ = rule.weights(rule.init(len(table)), cohort(sizes, survey=survey))
    assert torch.isfinite(p).all()
    assert (p >= 0).all()
    assert float(p.sum()) == pytest.approx(1)
    back = {"label_counts": table.flip(0).float()}
    q, *_ = rule.weights(rule.init(len(table)), cohort(sizes[::-1], survey=back))
    assert torch.allclose(p, q.flip(0), atol=1e-9)


@given(st.floats(0, 2), st.floats(0, 1))
def test_more_discrepancy_never_weighs_more(a, b):
    """At equal sizes."""
    p, _ = Disco(a, b)(torch.full((3,), 1 / 3, dtype=torch.float64), D)
    assert p[0] >= p[1] - 1e-12
    assert p[1] >= p[2] - 1e-12


@pytest.mark.parametrize("topology", [Star(), Clusters(2, 2), Ring(), Complete(), Rotating()])
def test_without_a_and_b_it_is_fedavg(topology):
    """To the last bit but rounding."""
    task, data = network_task("dense")
    plain, disco = (
        play(composed(task, data, m, topology=topology, **sampled(0.5)), data)
        for m in ("fedavg", ("feddisco", {"a": 0.0, "b": 0.0}))
    )
    assert distance(plain.states[-1].servers, disco.states[-1].servers) < 1e-7


def test_a_large_b_weighs_all_alike():
    """u tends to b."""
    p, _ = Disco(0.5, 1e9)(SHARE, D)
    assert p.tolist() == pytest.approx([1 / 3] * 3, abs=1e-6)


@pytest.mark.parametrize("beside", ["fedprox", "scaffold", "fedadam", "lg_fedavg"])
def test_goes_with_other_methods(beside):
    """It replaces n_k / n and nothing else."""
    task, data = network_task("dense")
    played = play(composed(task, data, beside, "feddisco"), data, 2)
    expected = weights(played.states[0].survey["label_counts"], [float(n) for n in data.rows.sizes])
    assert torch.allclose(played.rounds[-1].weights.double(), expected, atol=1e-6)


def test_survey_is_counted_once():
    """Four bytes for every class of every client."""
    task, data = network_task("dense")
    played = play(composed(task, data, "feddisco"), data, 2)
    assert played.loop.asked.up == played.loop.asked.total == 4 * 3 * data.n_clients
    plain = play(composed(task, data, "fedavg"), data, 2)
    assert [r.traffic for r in played.rounds] == [r.traffic for r in plain.rounds]


def test_ten_thousand_clients_are_asked_quickly():
    """Survey and one round of weights: five seconds at the very most."""
    data = federation((2,), [3] * 10_000)
    task, _ = network_task("dense")
    recipe = composed(task, data, "feddisco")
    begun = time.process_time()
    played = play(recipe, data, 0)
    survey = played.states[0].survey
    p, *_ = recipe.mixing.weights(recipe.mixing.init(10_000), cohort([3.0] * 10_000, survey=survey))
    assert time.process_time() - begun < 5
    assert float(p.sum()) == pytest.approx(1)
    assert torch.equal(survey["label_counts"].sum(1), torch.full((10_000,), 3.0))


def test_counts_of_absent_classes():
    """Zeros for what a client does not have."""
    assert asked(LabelCounts(), np.array([2, 2, 4]), 6).tolist() == [0, 0, 2, 0, 1, 0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reference": [1.0, 0.0]}, "infinite"),
        ({"reference": [-1.0, 2.0]}, "at least 0"),
        ({"reference": [0.0, 0.0], "discrepancy": "l1"}, "not all of them zero"),
        ({"a": -1.0}, "greater than or equal to 0"),
        ({"discrepancy": "js"}, "'kl', 'l1', 'l2' or 'cosine'"),
    ],
)
def test_bad_settings(settings, message):
    """Said when the method is configured."""
    with pytest.raises(ValidationError, match=message):
        FedDisco(**settings)


def test_reference_of_other_length():
    """One share for each class."""
    with pytest.raises(ConfigError, match="gives 2 shares, but there are 3 classes"):
        change(3, reference=[0.5, 0.5])


def test_discrepancies_are_in_the_record_of_a_round():
    """One of each client that answered, in the order of the clients."""
    task, data = network_task("dense")
    played = play(composed(task, data, "feddisco", **sampled(0.5)), data, 2)
    counts = played.states[0].survey["label_counts"].double()
    for done in played.rounds:
        q = counts[done.ids] / counts[done.ids].sum(1, keepdim=True)
        d = by_sum(discrepancies(q, torch.full((3,), 1 / 3, dtype=torch.float64), "kl"))
        torch.testing.assert_close(done.logged["d"], d)
