"""Metrics of all clients at once against scikit-learn and torchmetrics, client by client."""

import time
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.errors import DataError
from unalike.metrics import auroc as auroc_module
from unalike.metrics import classification
from unalike.metrics.classification import per_client, pooled

MULTICLASS = ["accuracy", "top5", "loss", "precision", "recall", "f1", "auroc", "ece", "mce", "n"]
BINARY = [name for name in MULTICLASS if name != "top5"]


def draw(seed, n=400, clients=12, classes=7, ties=False, dtype=torch.float64):
    """Ragged clients, some with one class only, the last without rows."""
    rng = np.random.default_rng(seed)
    sizes = rng.dirichlet(np.full(clients - 1, 0.7))
    owner = rng.choice(clients - 1, n, p=sizes)
    labels = rng.integers(0, classes, n)
    labels[owner % 3 == 0] = owner[owner % 3 == 0] % classes
    logits = rng.normal(size=(n, classes))
    logits[np.arange(n), labels] += 1.0
    if ties:
        logits = np.round(logits)
    return (
        torch.tensor(logits, dtype=dtype),
        torch.tensor(labels),
        torch.tensor(owner),
        clients,
    )


def softmax(logits):
    return torch.softmax(logits, 1).numpy()


def sklearn_multiclass(logits, labels):
    from sklearn import metrics as sk

    classes = logits.shape[1]
    y, p = labels.numpy(), softmax(logits)
    hat = p.argmax(1)
    # sums taken in different orders must tie again, else the reference depends on rounding
    score = np.round(p, 10)
    areas = [
        sk.roc_auc_score(y == c, score[:, c]) for c in range(classes) if 0 < (y == c).sum() < len(y)
    ]
    macro = {"average": "macro", "zero_division": 0}
    return {
        "accuracy": sk.accuracy_score(y, hat),
        "loss": sk.log_loss(y, p, labels=range(classes)),
        "precision": sk.precision_score(y, hat, **macro),
        "recall": sk.recall_score(y, hat, **macro),
        "f1": sk.f1_score(y, hat, **macro),
        "auroc": np.mean(areas) if areas else np.nan,
        "n": len(y),
    }


def sklearn_binary(logits, labels):
    from sklearn import metrics as sk

    y, z = labels.numpy(), logits.numpy()
    hat = (z > 0).astype(int)
    p = 1 / (1 + np.exp(-z))
    macro = {"average": "macro", "zero_division": 0}
    return {
        "accuracy": sk.accuracy_score(y, hat),
        "loss": sk.log_loss(y, p, labels=[0, 1]),
        "precision": sk.precision_score(y, hat, **macro),
        "recall": sk.recall_score(y, hat, **macro),
        "f1": sk.f1_score(y, hat, **macro),
        "auroc": sk.roc_auc_score(y, z) if 0 < y.sum() < len(y) else np.nan,
        "n": len(y),
    }


def assert_agrees(found, reference, client):
    for name, expected in reference.items():
        got = float(found[name][client])
        assert got == pytest.approx(expected, rel=1e-7, abs=1e-9, nan_ok=True), (name, client)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_multiclass_agrees_with_scikit_learn(seed, ties):
    logits, labels, owner, clients = draw(seed, ties=ties)
    found = per_client(logits, labels, owner, clients)
    assert list(found) == MULTICLASS
    for k in owner.unique().tolist():
        mine = owner == k
        assert_agrees(found, sklearn_multiclass(logits[mine], labels[mine]), k)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_binary_agrees_with_scikit_learn(seed, ties):
    logits, labels, owner, clients = draw(seed, classes=2, ties=ties)
    logits = logits[:, 1] - logits[:, 0]
    found = per_client(logits, labels, owner, clients, binary=True)
    assert list(found) == BINARY
    for k in owner.unique().tolist():
        mine = owner == k
        assert_agrees(found, sklearn_binary(logits[mine], labels[mine]), k)


def test_multiclass_agrees_with_torchmetrics():
    from torchmetrics.functional import classification as tm

    logits, labels, owner, clients = draw(5, dtype=torch.float32)
    found = per_client(logits, labels, owner, clients)
    for k in owner.unique().tolist():
        x, y = logits[owner == k], labels[owner == k]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of classes without positives
            areas = tm.multiclass_auroc(x.softmax(1), y, 7, average="none")
        present = torch.bincount(y, minlength=7)
        areas = areas[(present > 0) & (present < len(y))]
        reference = {
            "accuracy": tm.multiclass_accuracy(x, y, 7, average="micro"),
            "top5": tm.multiclass_accuracy(x, y, 7, average="micro", top_k=5),
            "precision": tm.multiclass_precision(x, y, 7),
            "recall": tm.multiclass_recall(x, y, 7),
            "f1": tm.multiclass_f1_score(x, y, 7),
            "auroc": areas.mean() if len(areas) else torch.tensor(np.nan),
            "ece": tm.multiclass_calibration_error(x, y, 7, n_bins=15, norm="l1"),
            "mce": tm.multiclass_calibration_error(x, y, 7, n_bins=15, norm="max"),
        }
        for name, expected in reference.items():
            assert float(found[name][k]) == pytest.approx(float(expected), abs=2e-6, nan_ok=True), (
                name,
                k,
            )


def test_binary_agrees_with_torchmetrics():
    from torchmetrics.functional import classification as tm

    logits, labels, owner, clients = draw(6, classes=2, dtype=torch.float32)
    logits = logits[:, 1] - logits[:, 0]
    found = per_client(logits, labels, owner, clients, binary=True)
    for k in owner.unique().tolist():
        z, y = logits[owner == k], labels[owner == k]
        two = torch.stack([torch.sigmoid(-z), torch.sigmoid(z)], 1)
        assert float(found["accuracy"][k]) == pytest.approx(float(tm.binary_accuracy(z, y)))
        for name, norm in (("ece", "l1"), ("mce", "max")):
            expected = tm.multiclass_calibration_error(two, y, 2, n_bins=15, norm=norm)
            assert float(found[name][k]) == pytest.approx(float(expected), abs=2e-6)
        if 0 < y.sum() < len(y):
            assert float(found["auroc"][k]) == pytest.approx(float(tm.binary_auroc(z, y)), abs=1e-6)


def test_a_hand_made_client():
    logits = torch.tensor([[2.0, 0, 0], [0, 2.0, 0], [2.0, 0, 0], [0, 2.0, 0]])
    labels = torch.tensor([0, 1, 1, 1])
    found = pooled(logits, labels)
    assert found["accuracy"] == 0.75
    assert found["precision"] == pytest.approx((1 / 2 + 1) / 2)  # class 2 occurs nowhere
    assert found["recall"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    # class 0 scores high, low, high, low against labels 1,0,0,0: 2 wins, 1 tie of 3 pairs
    assert found["auroc"] == pytest.approx((2.5 / 3 + 2.5 / 3) / 2)
    assert found["n"] == 4


def test_clients_without_rows_are_undefined():
    logits, labels, owner, clients = draw(0)
    found = per_client(logits, labels, owner, clients + 2)
    assert all(torch.isnan(v[clients - 1 :]).all() for n, v in found.items() if n != "n")
    assert found["n"][clients - 1 :].tolist() == [0, 0, 0]


@pytest.mark.parametrize("options", [{}, {"binary": True}, {"auroc": False}])
@pytest.mark.parametrize("per_batch", [None, 4])
def test_no_rows_at_all(options, per_batch):
    logits = torch.zeros(0) if options.get("binary") else torch.zeros(0, 7)
    nothing = torch.zeros(0, dtype=torch.int64)
    found = per_client(logits, nothing, nothing, 3, per_batch=per_batch, **options)
    assert all(v.shape == (3,) for v in found.values())
    assert found["n"].sum() == 0
    assert found["accuracy"].isnan().all()


def test_a_client_of_one_class_has_accuracy_but_no_auroc():
    found = per_client(
        torch.tensor([1.0, -1.0, 2.0, 0.5]),
        torch.tensor([1, 1, 0, 1]),
        torch.tensor([0, 0, 1, 1]),
        2,
        binary=True,
    )
    assert found["accuracy"].tolist() == [0.5, 0.5]
    assert found["auroc"].isnan().tolist() == [True, False]
    assert found["auroc"][1] == 0.0


def test_top5_is_left_out_with_five_classes():
    logits, labels, owner, clients = draw(0, classes=5)
    assert "top5" not in per_client(logits, labels, owner, clients)
    logits, labels, owner, clients = draw(0, classes=6)
    assert "top5" in per_client(logits, labels, owner, clients)


def test_equal_logits_rank_by_class_number():
    found = pooled(torch.zeros(8, 8), torch.arange(8))
    assert found["accuracy"] == 1 / 8
    assert found["top5"] == 5 / 8
    assert found["auroc"] == 0.5
    assert found["loss"] == pytest.approx(np.log(8))


def test_auroc_can_be_left_out():
    rows = draw(2)
    without, classes = per_client(*rows, auroc=False), per_client(*rows)
    assert set(classes) - set(without) == {"auroc"}
    assert all(torch.equal(without[n].nan_to_num(-1), classes[n].nan_to_num(-1)) for n in without)


def test_binary_takes_a_column_and_any_type_of_label():
    logits, labels, owner, clients = draw(1, classes=2)
    z = logits[:, 1]
    expected = per_client(z, labels, owner, clients, binary=True)
    for x, y in ((z[:, None], labels), (z, labels.bool()), (z, labels.float())):
        found = per_client(x, y, owner.int(), clients, binary=True)
        assert all(torch.equal(found[n].nan_to_num(-1), expected[n].nan_to_num(-1)) for n in found)


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[1e4, -1e4], [-1e4, 1e4]])
    found = pooled(logits, torch.tensor([0, 0]))
    assert found["loss"] == pytest.approx(1e4)
    assert found["ece"] == pytest.approx(0.5)
    found = pooled(torch.tensor([1e4, -1e4]), torch.tensor([0, 0]), binary=True)
    assert found["loss"] == pytest.approx(5e3)


def test_saturated_probabilities_still_rank():
    """In float32 all three probabilities round to 1, yet their order is perfect."""
    logits, labels = torch.tensor([30.0, 40.0, 50.0]), torch.tensor([0, 1, 1])
    assert pooled(logits, labels, binary=True)["auroc"] == 1.0
    two = torch.stack([torch.zeros(3), logits], 1)
    assert pooled(two, labels)["auroc"] == 1.0


def test_half_precision_is_computed_in_full():
    logits, labels, owner, clients = draw(3)
    half = logits.half()
    found = per_client(half, labels, owner, clients)
    expected = per_client(half.float(), labels, owner, clients)
    assert all(torch.equal(found[n].nan_to_num(-1), expected[n].nan_to_num(-1)) for n in found)


def test_inputs_are_left_alone():
    logits, labels, owner, clients = draw(3)
    before = logits.clone(), labels.clone(), owner.clone()
    per_client(logits, labels, owner, clients)
    assert all(torch.equal(a, b) for a, b in zip(before, (logits, labels, owner), strict=True))


@given(seed=st.integers(0, 10**6), binary=st.booleans())
@settings(max_examples=25, deadline=None)
def test_order_of_rows_is_of_no_effect(seed, binary):
    logits, labels, owner, clients = draw(seed, n=60, clients=5, classes=2 if binary else 6)
    logits = logits[:, 0] if binary else logits
    p = torch.randperm(60, generator=torch.Generator().manual_seed(seed))
    a = per_client(logits, labels, owner, clients, binary=binary)
    b = per_client(logits[p], labels[p], owner[p], clients, binary=binary)
    for name in a:
        torch.testing.assert_close(a[name], b[name], equal_nan=True, rtol=1e-12, atol=1e-12)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_a_client_is_judged_as_if_alone(seed):
    logits, labels, owner, clients = draw(seed, n=60, clients=5)
    together = per_client(logits, labels, owner, clients)
    for k in owner.unique().tolist():
        alone = pooled(logits[owner == k], labels[owner == k])
        for name, value in alone.items():
            assert float(together[name][k]) == pytest.approx(value, abs=1e-12, nan_ok=True)


def test_sample_weighted_means_are_the_pooled_ones():
    logits, labels, owner, clients = draw(8)
    found = per_client(logits, labels, owner, clients)
    whole = pooled(logits, labels)
    for name in ("accuracy", "top5", "loss"):
        mean = (found[name].nan_to_num() * found["n"]).sum() / found["n"].sum()
        assert float(mean) == pytest.approx(whole[name])


def test_chunks_change_nothing(monkeypatch):
    rows = draw(4)
    whole = per_client(*rows)
    monkeypatch.setattr(classification, "ENTRIES_AT_ONCE", 50)
    monkeypatch.setattr(auroc_module, "PAIRS_AT_ONCE", 37)
    parts = per_client(*rows)
    for name in whole:
        torch.testing.assert_close(parts[name], whole[name], equal_nan=True, rtol=0, atol=1e-14)


def test_ten_thousand_clients_take_seconds():
    g = torch.Generator().manual_seed(0)
    n, clients, classes = 200_000, 10_000, 62
    logits = torch.randn(n, classes, generator=g)
    labels = torch.randint(classes, (n,), generator=g)
    owner = torch.randint(clients, (n,), generator=g)
    start = time.perf_counter()
    per_client(logits, labels, owner, clients)
    assert time.perf_counter() - start < 10  # about 1 s on an idle core


def rows_with(**changes):
    rows = {
        "logits": torch.zeros(4, 3),
        "labels": torch.tensor([0, 1, 2, 0]),
        "owner": torch.tensor([0, 0, 1, 1]),
        "n_clients": 2,
    }
    return rows | changes


NAN_ROW = torch.tensor([[0.0, 0, 0], [0, 0, 0], [0, float("nan"), 0], [0, 0, float("inf")]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": torch.tensor([0, 1, 2, 3])}, "label 3 of client 1 is not a class from 0 to 2"),
        ({"labels": torch.tensor([0, -100, 2, 0])}, "label -100 of client 0 .* drop the rows"),
        ({"labels": torch.tensor([0, 0.5, 2, 0])}, "label 0.5 of client 0"),
        ({"labels": torch.tensor([0, np.nan, 2, 0])}, "label nan of client 0"),
        ({"labels": torch.tensor([0, 1, 2])}, r"labels must give one class .* 4 rows .* \(3,\)"),
        ({"owner": torch.tensor([0, 0, 1])}, r"owner must give one client .* 4 rows, got .*\(3,\)"),
        ({"owner": torch.tensor([0, 0, 1, 2])}, "owner must name clients 0 to 1, got 2 in row 3"),
        ({"owner": torch.tensor([-1, 0, 1, 1])}, "owner must name clients 0 to 1, got -1 in row 0"),
        ({"owner": torch.zeros(4)}, "owner must hold integers, got torch.float32"),
        ({"n_clients": 0}, "n_clients must be at least 1, got 0"),
        ({"logits": NAN_ROW}, r"client 1 has non-finite logits \(2 rows of 1 clients\)"),
        ({"logits": torch.zeros(4)}, "logits must be .rows, classes."),
        ({"logits": torch.zeros(4, 5, 3)}, "flatten sequences first"),
        ({"logits": torch.zeros(4, 3, dtype=torch.int64)}, "logits must be floating point"),
        ({"binary": True}, "binary task takes one logit per row"),
        ({"binary": True, "logits": torch.zeros(4)}, "label 2 of client 1 .* from 0 to 1"),
    ],
)
def test_bad_rows_are_named(changes, message):
    with pytest.raises(DataError, match=message):
        per_client(**rows_with(**changes))


@pytest.mark.parametrize("most", [0, 1 << 20])
@pytest.mark.parametrize("seed", range(4))
def test_areas_are_counted_pair_by_pair(monkeypatch, seed, most):
    """All pairs of a positive and a negative, halves for ties: integers, so the same bits."""
    monkeypatch.setattr(auroc_module, "MANY", most)
    monkeypatch.setattr(auroc_module, "PAIRS_AT_ONCE", 500)
    logits, labels, owner, clients = draw(seed, n=300, ties=True, dtype=torch.float32)
    logits = logits - logits.logsumexp(1, keepdim=True)  # a class is scored by its probability
    zero = torch.zeros(len(logits), dtype=torch.float64)
    for order in (torch.arange(300), torch.argsort(owner, stable=True)):
        given = logits[order], zero, labels[order], owner[order]
        found = auroc_module.one_vs_rest_auroc(*given, clients)
        for k in range(clients):
            rows, areas = owner == k, []
            for c in range(logits.shape[1]):
                score, positive = logits[rows, c], labels[rows] == c
                gap = score[positive][:, None] - score[~positive]
                if gap.numel():
                    areas.append(float(2 * (gap > 0).sum() + (gap == 0).sum()) / (2 * gap.numel()))
            assert found[k] == sum(areas) / len(areas) if areas else found[k].isnan()


def test_binary_areas_are_counted_pair_by_pair():
    score = torch.tensor([0.5, 0.5, 0.5, -1.0, 2.0, 0.5, 3.0, 3.0])
    positive = torch.tensor([1, 0, 1, 0, 0, 1, 1, 1])
    owner = torch.tensor([0, 0, 0, 0, 0, 1, 1, 3])
    found = auroc_module.binary_auroc(score, positive, owner, 5)
    # client 0: positives 0.5 and 0.5 against 0.5 (tie), -1 (win) and 2 (loss)
    assert found[0] == 0.5
    assert found[1:].isnan().all()  # no negatives, no rows, no negatives, no rows
