"""What holds for every partitioner in the table, on ordinary and on nasty input."""

import time
import tracemalloc
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partitions import owners

from unalike.errors import ConfigError, DataError
from unalike.federation.partition import PARTITIONERS, Partitioner
from unalike.federation.partition.base import Labels
from unalike.federation.partition.dirichlet import Dirichlet


class Case(NamedTuple):
    """A partitioner with settings for K clients over M classes."""

    name: str
    settings: dict[str, Any]
    multiple: bool = False  # the number of clients must be a multiple of the classes
    least_classes: int = 1
    per_client: int = 1  # examples that the design needs per client

    def made(self, clients: int, classes: int, **more: Any) -> Partitioner:
        given = {"clients": clients, **self.settings, **more}
        if self.name == "mixed":
            given |= {"sizes": [clients - clients // 2, clients // 2 or 1]}
            given["clients"] = sum(given["sizes"])
        if self.name == "niid2":
            given["clients"] = classes + 1
        if self.name == "natural":
            given["clients"] = 0
        return PARTITIONERS[self.name](**given)


CASES = [
    Case("iid", {}),
    Case("dirichlet", {"alpha": 1e-3}),
    Case("dirichlet", {"alpha": 0.5, "rounding": "truncate"}),
    Case("dirichlet", {"alpha": 1e-3, "balance": True}),
    Case("dirichlet", {"alpha": 1e-3, "per": "client"}),
    Case("dirichlet", {"alpha": 0.3, "per": "client", "prior": "pooled", "size_spread": 2.0}),
    Case("mixed", {"alphas": [50.0, 1e-2]}),
    Case("mixed", {"mode": "per_class_vector"}),
    Case("shards", {}, per_client=2),
    Case("shards", {"assignment": "strided", "shards_per_client": 3}, per_client=3),
    Case("limit_label", {"t": 1, "f": 1.0}, multiple=True),
    Case("limit_label", {"t": 1, "f": 0.3}, multiple=True),
    Case("q_sampler", {"q": 0.7}, multiple=True, least_classes=2),
    Case("q_sampler", {"q": 0.0}, multiple=True, least_classes=2),
    Case("limit_label_q", {"t": 1, "q": 0.9}, multiple=True, least_classes=2),
    Case("emd", {"target": 0.0}, multiple=True),
    Case("emd", {"target": 1.0}, multiple=True, least_classes=2),
    Case("niid1", {"min_size": 1, "alpha": 1e-2}),
    Case("niid1", {"min_size": 1, "reading": "feddisco"}),
    Case("niid2", {}),
    Case("niid2", {"reading": "feddisco"}),
    Case("quantity", {"law": "dirichlet", "spread": 1e-3}),
    Case("quantity", {"law": "power", "spread": 3.0}),
    Case("quantity", {"law": "lognormal", "spread": 50.0}),
    Case("natural", {}),
]


def identity(case: Case) -> str:
    return "-".join([case.name, *map(str, case.settings.values())])


def test_every_partitioner_has_a_case() -> None:
    assert {case.name for case in CASES} == set(PARTITIONERS)


@pytest.mark.parametrize("case", CASES, ids=identity)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_partition_is_exhaustive_large_enough_and_repeatable(case: Case, data: Any) -> None:
    classes = data.draw(st.integers(case.least_classes, 5), "classes")
    clients = data.draw(st.integers(1, 12), "clients") * (classes if case.multiple else 1)
    least = data.draw(st.integers(1, 3), "least")
    partitioner = case.made(clients, classes, min_size=1 if case.name == "natural" else least)
    need = max(partitioner.clients * least, partitioner.clients * case.per_client, 1)
    labels = np.array(
        data.draw(
            st.lists(st.integers(0, classes - 1), min_size=need, max_size=need + 60), "labels"
        )
    )
    groups = np.arange(len(labels)) % 4
    seed = data.draw(st.integers(0, 99), "seed")

    owner, again = (owners(partitioner, labels, classes, seed, groups) for _ in range(2))

    clients = partitioner.clients or len(np.unique(groups))
    held = owner >= 0
    sizes = np.bincount(owner[held], minlength=clients)
    assert owner.dtype == np.int64
    assert owner.shape == labels.shape
    assert owner.min() >= -1
    if case.name == "mixed" and "alphas" in case.settings:  # keeps mixes, not all examples
        assert np.ptp(sizes) == 0
    else:
        assert held.all()
    assert len(sizes) == clients
    assert sizes.min() >= partitioner.min_size
    assert np.array_equal(owner, again)


@pytest.mark.parametrize("case", CASES, ids=identity)
def test_seeds_differ(case: Case) -> None:
    labels = np.arange(600) % 5
    partitioner = case.made(10, 5)
    groups = np.arange(600) % 7
    first, second = (owners(partitioner, labels, 5, seed, groups) for seed in (0, 1))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("case", CASES, ids=identity)
def test_many_clients_of_few_examples_end_quickly(case: Case) -> None:
    if case.name in ("niid2", "natural"):
        pytest.skip("the number of clients follows from the classes or the data")
    clients = 2000
    labels = np.random.default_rng(5).integers(0, 4, clients * max(case.per_client, 1))
    owner = owners(case.made(clients, 4), labels, 4)
    assert np.bincount(owner[owner >= 0], minlength=clients).min() >= 1


@pytest.mark.parametrize("case", CASES, ids=identity)
def test_the_given_labels_are_not_changed(case: Case) -> None:
    labels = np.arange(600) % 5
    owners(case.made(10, 5), labels, 5, groups=np.arange(600) % 7)
    assert np.array_equal(labels, np.arange(600) % 5)


@pytest.mark.parametrize("name", sorted(set(PARTITIONERS) - {"natural"}))
def test_fewer_examples_than_clients_is_refused(name: str) -> None:
    partitioner = PARTITIONERS[name]()
    labels = np.arange(partitioner.clients - 1) % 10
    with pytest.raises(
        DataError, match=rf"{partitioner.clients} clients .* there are {len(labels)}"
    ):
        owners(partitioner, labels)


def test_the_error_names_what_is_possible() -> None:
    with pytest.raises(DataError, match="at most 7 clients or set min_size to at most 30"):
        owners(Dirichlet(clients=10, min_size=40), np.zeros(300, int), 1)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(20), "vector of integers"),
        (np.zeros((4, 5), int), "vector of integers"),
        (np.full(20, 3), "0 to 2 for 3 classes, got 3 to 3"),
        (np.full(20, -1), "got -1 to -1"),
    ],
)
def test_malformed_labels_are_refused(labels: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Labels(labels, 3)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (
            "limit_label",
            {"clients": 25, "t": 3},
            "multiple of 10, got 25; nearest valid: 20 and 30",
        ),
        ("limit_label", {"clients": 7, "t": 5}, "multiple of 2, got 7; nearest valid: 6 and 8"),
        ("limit_label", {"clients": 4, "t": 1}, "multiple of 10, got 4; nearest valid: 10"),
        ("limit_label", {"t": 11}, "t=11 exceeds the 10 classes; use 1 to 10"),
        (
            "limit_label_q",
            {"clients": 12, "t": 2},
            "multiple of 5, got 12; nearest valid: 10 and 15",
        ),
        ("limit_label_q", {"t": 10}, "t=10 must be less than the 10 class.*use 1 to 9"),
        ("q_sampler", {"clients": 15}, "multiple of 10, got 15"),
        ("emd", {"clients": 15}, "multiple of 10, got 15"),
        ("emd", {"target": 1.9}, "1.9 cannot be reached with 10 classes; use 0 to 1.8"),
        ("niid2", {"clients": 5}, "set clients to 3 or 6"),
    ],
)
def test_settings_at_odds_with_the_classes_are_refused(
    name: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        owners(PARTITIONERS[name](**given), np.arange(500) % 10)


def seconds(partitioner: Partitioner, labels: np.ndarray) -> float:
    start = time.perf_counter()
    owners(partitioner, labels)
    return time.perf_counter() - start


def test_a_thousand_skewed_clients_take_under_two_seconds() -> None:
    assert seconds(Dirichlet(alpha=0.05, clients=1000), np.arange(50_000) % 10) < 2


@pytest.mark.parametrize("per", ["class", "client"])
def test_a_hundred_thousand_clients_take_under_thirty_seconds(per: str) -> None:
    partitioner = Dirichlet(alpha=0.05, clients=100_000, per=per)
    assert seconds(partitioner, np.arange(1_000_000) % 10) < 30


def test_memory_is_linear_in_clients_and_examples() -> None:
    tracemalloc.start()
    seconds(Dirichlet(alpha=0.05, clients=100_000), np.arange(200_000) % 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6  # one byte per client and example would be 20,000 MB
