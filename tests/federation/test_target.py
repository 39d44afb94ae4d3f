"""From a wanted EMD to settings, and back to the EMD of the partition they make."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from partitions import table

from unalike import rng
from unalike.errors import ConfigError
from unalike.federation import skew, target
from unalike.federation.build import federate
from unalike.federation.partition.dirichlet_emd import emd_dirichlet
from unalike.federation.partition.limit_label import emd_limit_label
from unalike.federation.partition.limit_label_q import emd_limit_label_q
from unalike.federation.partition.q_sampler import emd_q_sampler
from unalike.parts.augmentation.transform import ClassBalance, distance

PUBLISHED_LIMIT_LABEL = {
    0.4: [(1, 0.222222), (2, 0.25), (3, 0.285714), (4, 0.333333),
          (5, 0.4), (6, 0.5), (7, 0.666667), (8, 1)],
    0.8: [(1, 0.444444), (2, 0.5), (3, 0.571429), (4, 0.666667), (5, 0.8), (6, 1)],
    1.0: [(1, 0.555556), (2, 0.625), (3, 0.714286), (4, 0.833333), (5, 1)],
    1.2: [(1, 0.666667), (2, 0.75), (3, 0.857143), (4, 1)],
    1.4: [(1, 0.777778), (2, 0.875), (3, 1)],
    1.6: [(1, 0.888889), (2, 1)],
}  # fmt: skip
PUBLISHED_LIMIT_LABEL_Q = {
    0.8: [(1, 0.5), (2, 0.6), (3, 0.7), (4, 0.8), (5, 0.9), (6, 1)],
    1.0: [(1, 0.6), (2, 0.7), (3, 0.8), (4, 0.9), (5, 1)],
    1.2: [(1, 0.7), (2, 0.8), (3, 0.9), (4, 1)],
    1.4: [(1, 0.8), (2, 0.9), (3, 1)],
    1.6: [(1, 0.9), (2, 1)],
}
PUBLISHED_ALPHA = {  # for a mean EMD of 0.4, 0.8, 1.0, 1.2, 1.4, 1.6
    10: [3.03, 0.614, 0.319, 0.160, 0.065, 0.005],
    20: [3.22, 0.664, 0.354, 0.187, 0.088, 0.025],
    40: [3.32, 0.689, 0.372, 0.201, 0.098, 0.034],
}


@pytest.mark.parametrize(
    ("t", "f", "classes", "emd"),
    [
        (2, 0.9, 10, 1.44),
        (1, 1.0, 10, 1.8),
        (3, 1.0, 10, 1.4),
        (2, 0.86, 10, 1.376),
        (2, 1.0, 62, 1.935484),
        (2, 0.9, 62, 1.741935),
        (20, 1.0, 100, 1.6),
    ],
)
def test_closed_form_of_limit_label(t: int, f: float, classes: int, emd: float) -> None:
    assert emd_limit_label(t, f, classes) == pytest.approx(emd, abs=1e-6)


@pytest.mark.parametrize(("q", "emd"), [(0.5, 0.8), (0.8, 1.4), (0.05, 0.1)])
def test_closed_form_of_the_q_sampler(q: float, emd: float) -> None:
    assert emd_q_sampler(q, 10) == pytest.approx(emd)
    assert emd_limit_label_q(1, q, 10) == pytest.approx(emd)


@pytest.mark.parametrize("emd", PUBLISHED_LIMIT_LABEL)
def test_every_setting_of_limit_label(emd: float) -> None:
    found = [(s.t, s.f) for s in target.settings_for(emd, "limit_label", 20, 10)]
    assert [t for t, _ in found] == [t for t, _ in PUBLISHED_LIMIT_LABEL[emd]]
    assert [f for _, f in found] == pytest.approx(
        [f for _, f in PUBLISHED_LIMIT_LABEL[emd]], abs=1e-6
    )


@pytest.mark.parametrize("emd", PUBLISHED_LIMIT_LABEL_Q)
def test_every_setting_of_limit_label_q(emd: float) -> None:
    found = [(s.t, s.q) for s in target.settings_for(emd, "limit_label_q", 20, 10)]
    assert [t for t, _ in found] == [t for t, _ in PUBLISHED_LIMIT_LABEL_Q[emd]]
    assert [q for _, q in found] == pytest.approx([q for _, q in PUBLISHED_LIMIT_LABEL_Q[emd]])


@pytest.mark.parametrize(
    ("emd", "values"), [(0.1, [0.15, 0.05]), (0.2, [0.2, 0.0]), (0.8, [0.5]), (0.0, [0.1])]
)
def test_both_branches_of_the_q_sampler(emd: float, values: list[float]) -> None:
    found = target.settings_for(emd, "q_sampler", 20, 10)
    assert [s.q for s in found] == pytest.approx(values)
    assert found[0].q == pytest.approx(emd / 2 + 1 / 10)  # the published inverse comes first


@pytest.mark.parametrize(
    ("alpha", "clients", "emd"),
    [
        (0.5, 10, 0.8619),
        (0.5, 16, 0.8827),
        (0.5, 20, 0.8898),
        (0.5, 40, 0.9032),
        (0.1, 10, 1.3152),
        (0.1, 16, 1.3557),
        (0.1, 20, 1.3694),
        (1.0, 10, 0.659),
        (5.0, 10, 0.315),
        (20.0, 10, 0.160),
        (50.0, 10, 0.101),
    ],
)
def test_mean_emd_of_the_dirichlet(alpha: float, clients: int, emd: float) -> None:
    assert emd_dirichlet(alpha, clients, 10) == pytest.approx(emd, abs=2.5e-3)


@pytest.mark.parametrize("clients", PUBLISHED_ALPHA)
def test_published_concentrations_have_the_mean_emd(clients: int) -> None:
    for alpha, emd in zip(PUBLISHED_ALPHA[clients], (0.4, 0.8, 1.0, 1.2, 1.4, 1.6), strict=True):
        assert emd_dirichlet(alpha, clients, 10) == pytest.approx(emd, abs=4e-3)


@pytest.mark.parametrize(("clients", "supremum"), [(10, 1.62), (20, 1.71), (40, 1.755)])
def test_the_dirichlet_supremum(clients: int, supremum: float) -> None:
    assert target.reachable("dirichlet", clients, 10) == pytest.approx((0, supremum))
    assert emd_dirichlet(1e-6, clients, 10) == pytest.approx(supremum, abs=1e-3)
    with pytest.raises(ConfigError, match=f"use above 0 and below {supremum}"):
        target.settings_for(supremum + 0.01, "dirichlet", clients, 10)


@pytest.mark.parametrize("sampler", target.TARGETED)
@pytest.mark.parametrize("emd", [0.4, 1.1, 1.6])
def test_each_setting_makes_a_partition_of_the_wanted_emd(sampler: str, emd: float) -> None:
    for found in target.settings_for(emd, sampler, 20, 10):
        assert skew.emd(table(found)) == pytest.approx(emd, rel=0.005)


@pytest.mark.parametrize("sampler", target.TARGETED)
@pytest.mark.parametrize("emd", [1.1, 1.4, 1.65])
def test_fedaug_can_work_on_every_partition_that_is_offered(sampler: str, emd: float) -> None:
    """Every client has an example of every class, and all of them reach FedAug's target.

    A split may take the only example of a class from a client of ten; what is left of it is even.
    """
    (x, y), balance = (np.zeros((6000, 1)), np.arange(6000) % 10), ClassBalance(target=0.8)
    for found in target.settings_for(emd, sampler, 20, 10):
        assert table(found, y).min() >= 1
        for counts in (federate((x, y), found, seed=s).counts for s in range(3)):
            for own in counts:
                labels = np.repeat(np.arange(10), own)
                again = balance.repeats(labels, 10, rng.key(0))
                after = np.bincount(np.concatenate([labels, labels[again]]), minlength=10)
                assert distance(after) <= 0.8 + 10 / after.sum()


@given(
    emd=st.floats(0, 1.98),
    clients=st.integers(1, 40),
    classes=st.integers(2, 12),
    sampler=st.sampled_from(["limit_label", "limit_label_q"]),
)
def test_inverses_undo_the_closed_forms(
    emd: float, clients: int, classes: int, sampler: str
) -> None:
    assume(sampler == "limit_label" or math.gcd(clients, classes) > 1)
    low, high = target.reachable(sampler, clients, classes)
    assume(low <= emd <= high)
    for found in target.settings_for(emd, sampler, clients, classes):
        assert found.t * clients % classes == 0
        reached = (
            emd_limit_label(found.t, found.f, classes)
            if sampler == "limit_label"
            else emd_limit_label_q(found.t, found.q, classes)
        )
        assert reached == pytest.approx(emd, abs=1e-8)


def test_only_label_counts_that_can_be_dealt_are_offered() -> None:
    assert [s.t for s in target.settings_for(0.4, "limit_label", 5, 10)] == [2, 4, 6, 8]
    assert target.reachable("limit_label", 5, 10) == pytest.approx((0, 1.6))


@pytest.mark.parametrize(
    ("emd", "sampler", "clients", "message"),
    [
        (
            1.7,
            "limit_label",
            5,
            "limit_label: an EMD of 1.7 .*5 clients and 10 classes; use 0 to 1.6",
        ),
        (-0.1, "emd", 20, "use 0 to 1.8"),
        (1.9, "q_sampler", 20, "use 0 to 1.8"),
        (0.5, "q_sampler", 15, "multiple of 10, got 15; nearest valid: 10 and 20"),
        (
            0.5,
            "limit_label",
            7,
            "always 0, not 0.5, since no fewer labels than all 10 .*such as 10",
        ),
        (0.0, "limit_label_q", 7, "no fewer labels than all 10 can be split evenly among 7 client"),
        (0.5, "limit_label", 1, "always 0, not 0.5, since one client holds all"),
        (0.5, "dirichlet", 1, "always 0, not 0.5, since one client holds all"),
        (0.0, "dirichlet", 10, "use above 0 and below 1.62"),
        (1e-6, "dirichlet", 10, r"outside 1e-06 to 1e\+06; use an EMD above 0.000"),
        (float("nan"), "emd", 10, "use 0 to 1.8"),
        (0.5, "limit_labels", 10, "did you mean 'limit_label'"),
        (0.5, "iid", 10, "valid names are dirichlet, emd"),
    ],
)
def test_unreachable_targets_name_what_can_be_reached(
    emd: float, sampler: str, clients: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        target.settings_for(emd, sampler, clients, 10)


def test_one_class_has_no_label_skew() -> None:
    with pytest.raises(ConfigError, match="2 classes"):
        target.reachable("emd", 10, 1)


@pytest.mark.parametrize(
    ("sampler", "clients"), [("limit_label", 7), ("limit_label", 1), ("dirichlet", 1)]
)
def test_no_skew_is_reached_where_nothing_else_is(sampler: str, clients: int) -> None:
    (found,) = target.settings_for(0.0, sampler, clients, 10)
    assert skew.emd(table(found, np.arange(700) % 10)) == 0


def test_few_examples_cost_the_purest_settings_what_they_keep_for_others() -> None:
    """One example of each class kept for all: 1.8 - 2 x 9 x 10 / 600 = 1.5."""
    labels = np.arange(600) % 10
    (found,) = target.settings_for(1.8, "limit_label", 10, 10)
    assert skew.emd(table(found, labels)) == pytest.approx(1.5)
    pure = found.model_copy(update={"keep_one": False})
    assert skew.emd(table(pure, labels)) == pytest.approx(1.8)
