"""The skew of a partition in sentences."""

import numpy as np
import pytest

from unalike.advise.words import in_words
from unalike.federation.feature_skew import FeatureSkew
from unalike.federation.skew import measure


def counts(classes_each: int, clients: int = 10, rows: int = 40) -> np.ndarray:
    """Every client holds the same number of rows of its own few neighbouring classes."""
    table = np.zeros((clients, 10), int)
    for k in range(clients):
        table[k, [(k + i) % 10 for i in range(classes_each)]] = rows // classes_each
    return table


def features(*p: float) -> FeatureSkew:
    """Of clients of one size, with these p-values."""
    return FeatureSkew(np.full(len(p), 0.25), np.array(p), np.ones(len(p)))


@pytest.mark.parametrize(
    ("p", "sentence"),
    [
        ((), "Feature skew is not measured on these data."),
        ((0.4, 0.6), "No feature skew beyond chance (MMD 0.250 at equal labels)."),
        ((0.001, 0.6), "MMD 0.250 at equal labels): 1 of 2 clients differs from the others"),
        ((0.001, 0.002), "Feature skew (MMD 0.250 at equal labels): all clients differ from"),
    ],
)
def test_feature_skew_by_its_p_values(p, sentence):
    assert sentence in in_words(measure(counts(5)), features(*p))[2]


@pytest.mark.parametrize(
    ("classes_each", "emd", "kind"),
    [
        (1, "1.800", "Strong"),
        (2, "1.600", "Strong"),
        (5, "1.000", "Moderate"),
        (8, "0.400", "Weak"),
    ],
)
def test_label_skew_by_its_emd(classes_each, emd, kind):
    labels, sizes, _ = in_words(measure(counts(classes_each)), features())
    assert labels.startswith(f"{kind} label skew (EMD {emd}")  # t of ten equal classes: 2 - t/5
    assert sizes.startswith("Little quantity skew (Gini 0.000, 40 to 40 ")


def test_two_classes_cannot_reach_the_bounds_of_ten():
    labels = in_words(measure(np.array([[10, 0], [0, 10]])), features())[0]
    assert "equal classes is 1.000" in labels
    assert labels.startswith("Label skew of 100% of the maximum")


@pytest.mark.parametrize(
    ("sizes", "kind"),
    [([1, 1, 2, 2], "Little"), ([1, 1, 2, 4], "Quantity"), ([0, 0, 0, 20], "Strong")],
)
def test_quantity_skew_by_its_gini(sizes, kind):
    table = np.array([[s + 1, s + 1] for s in sizes]) * 5
    assert in_words(measure(table), features())[1].startswith(kind)
