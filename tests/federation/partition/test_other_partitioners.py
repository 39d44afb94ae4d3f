"""Mixed, shards, quantity, NIID-1, NIID-2 and natural partitions."""

from typing import Any

import numpy as np
import pytest

from unalike.errors import ConfigError, DataError
from unalike.federation import skew
from unalike.federation.partition.base import Partitioner
from unalike.federation.partition.mixed import Mixed
from unalike.federation.partition.natural import Natural, client_names
from unalike.federation.partition.niid1 import Niid1
from unalike.federation.partition.niid2 import Niid2
from unalike.federation.partition.quantity import Quantity
from unalike.federation.partition.shards import Shards

BALANCED = np.arange(60_000) % 10


def table(partitioner: Partitioner, labels: np.ndarray = BALANCED, seed: int = 0) -> np.ndarray:
    owner = partitioner.assign(labels, 10, np.random.default_rng(seed))
    return np.bincount(owner * 10 + labels, minlength=partitioner.clients * 10).reshape(-1, 10)


class TestMixed:
    """Groups with different concentrations."""

    def test_sizes_are_equal_and_the_groups_differ_in_skew(self) -> None:
        counts = table(Mixed(clients=10, sizes=[2, 8], alphas=[50, 0.5]))
        distance = skew.emd_per_client(counts)
        assert (counts.sum(axis=1) == 6000).all()
        assert distance[:2].max() < distance[2:].min()

    def test_a_class_vector_starves_the_skewed_group(self) -> None:
        sizes = table(Mixed(mode="per_class_vector")).sum(axis=1)
        assert sizes[5:].mean() / 60_000 == pytest.approx(0.5 / (5 * 50.5), rel=0.5)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"sizes": [5, 5], "clients": 20}, "add up to 10 and clients is 20; set clients = 10"),
            ({"sizes": [10]}, "got 1 sizes and 2 alphas"),
            ({"sizes": [10, 0]}, "at least 1 client"),
            ({"alphas": [1.0, 0.0]}, "an alpha above 0"),
            ({"alphas": [1.0, 1e308]}, r"an alpha above 0, up to 1e\+12"),
        ],
    )
    def test_inconsistent_groups_are_refused(self, given: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            Mixed(**given)


class TestShards:
    """The pathological partition."""

    def test_strided_clients_hold_classes_half_the_range_apart(self) -> None:
        counts = table(Shards(clients=100, assignment="strided"))
        classes = [set(np.flatnonzero(row)) for row in counts]
        assert classes == [{k // 20, k // 20 + 5} for k in range(100)]
        assert (counts.sum(axis=1) == 600).all()

    def test_strided_shards_are_consecutive_rows_sorted_by_label(self) -> None:
        labels = np.array([1, 0, 1, 0, 1, 0, 1, 0])
        owner = Shards(clients=2, assignment="strided").assign(labels, 2, np.random.default_rng(0))
        assert owner.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]

    def test_random_clients_hold_few_classes_in_varying_pairs(self) -> None:
        counts = table(Shards(clients=100))
        assert ((counts > 0).sum(axis=1) <= 2).all()
        assert len({tuple(np.flatnonzero(row)) for row in counts}) > 10

    def test_more_shards_than_examples_is_refused(self) -> None:
        with pytest.raises(
            DataError, match="15 examples cannot be cut into 20 shards; use at most 1"
        ):
            table(Shards(clients=10), np.arange(15) % 10)


class TestQuantity:
    """Size skew with iid labels."""

    @pytest.mark.parametrize("law", ["dirichlet", "power", "lognormal"])
    def test_sizes_differ_and_labels_do_not(self, law: str) -> None:
        counts = table(Quantity(law=law, spread=1.0, min_size=200))
        measured = skew.measure(counts)
        assert measured.gini > 0.2
        assert measured.emd < 0.1

    def test_power_law_sizes(self) -> None:
        sizes = np.sort(table(Quantity(law="power", spread=1.0)).sum(axis=1))[::-1]
        assert sizes == pytest.approx(sizes[0] / np.arange(1, 11), abs=1.5)


class TestNiid:
    """The two partitions of FedDisco in both readings."""

    @pytest.mark.parametrize(("reading", "least"), [("latent", 40), ("feddisco", 10)])
    def test_niid1_least_size_of_each_reading(self, reading: str, least: int) -> None:
        partitioner = Niid1(reading=reading, alpha=0.001)
        assert table(partitioner, np.zeros(500, int)).sum(axis=1).min() == least

    def test_niid1_follows_the_dirichlet_draw(self) -> None:
        assert skew.emd(table(Niid1(), seed=1)) == pytest.approx(0.939986, abs=1e-3)

    def test_niid1_of_feddisco_closes_full_clients(self) -> None:
        counts = table(Niid1(reading="feddisco"), seed=1)
        assert (counts[np.cumsum(counts, axis=1) - counts >= 6000] == 0).all()

    def test_niid1_says_when_forty_are_too_many(self) -> None:
        with pytest.raises(DataError, match="10 clients of at least 40 need 400"):
            table(Niid1(), np.arange(300) % 10)

    def test_niid2_of_feddisco_makes_all_clients_equal(self) -> None:
        counts = table(Niid2(reading="feddisco"))
        assert (counts.sum(axis=1) == 10_000).all()
        assert (counts[-1] == 1000).all()
        assert [np.flatnonzero(row).tolist() for row in counts[:-1]] == [
            [0, 1], [2, 3], [4, 5], [6, 7], [8, 9]
        ]  # fmt: skip

    def test_niid2_draws_the_unbiased_client_at_random(self) -> None:
        counts = table(Niid2())
        assert counts[-1].sum() == 10_000
        assert np.ptp(counts[-1]) > 10
        assert ((counts[:-1] > 0).sum(axis=1) == 2).all()


class TestNatural:
    """Clients that come with the data."""

    groups = np.repeat([0, 1, 3, 4], [5, 1, 2, 9])
    labels = np.zeros(17, int)

    def assign(self, **given: Any) -> np.ndarray:
        return Natural(**given).assign(self.labels, 1, np.random.default_rng(0), self.groups)

    def test_each_group_is_a_client_and_gaps_are_closed(self) -> None:
        assert np.array_equal(self.assign(), np.repeat([0, 1, 2, 3], [5, 1, 2, 9]))

    def test_the_smallest_groups_are_joined_to_the_wanted_number(self) -> None:
        assert np.array_equal(self.assign(clients=3), np.repeat([0, 1, 1, 2], [5, 1, 2, 9]))
        assert np.array_equal(self.assign(clients=2), np.repeat([0, 0, 0, 1], [5, 1, 2, 9]))

    def test_small_groups_are_joined_until_large_enough(self) -> None:
        owner = self.assign(min_size=4, small="join")
        assert np.bincount(owner).tolist() == [8, 9]

    def test_small_groups_are_refused_by_default(self) -> None:
        with pytest.raises(DataError, match="2 of 4 clients have fewer than min_size = 3"):
            self.assign(min_size=3)

    def test_joining_never_gives_fewer_clients_than_asked_for(self) -> None:
        with pytest.raises(DataError, match="set clients lower or to 0"):
            self.assign(min_size=4, small="join", clients=3)

    def test_more_clients_than_groups_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="have 4 groups and clients is 5"):
            self.assign(clients=5)

    def test_data_without_groups_are_refused(self) -> None:
        with pytest.raises(DataError, match="no natural clients"):
            Natural().assign(self.labels, 1, np.random.default_rng(0))

    def test_groups_of_another_length_are_refused(self) -> None:
        with pytest.raises(DataError, match="each of the 17 examples, got 2"):
            Natural().assign(self.labels, 1, np.random.default_rng(0), np.zeros(2, int))

    def test_names_follow_the_groups(self) -> None:
        names = client_names(self.assign(clients=3), self.groups, ("a", "b", "unused", "d", "e"))
        assert names == ("a", "b+d", "e")

    def test_a_hundred_thousand_groups(self) -> None:
        groups = np.arange(300_000) % 100_000
        labels = np.zeros(300_000, int)
        owner = Natural(min_size=5, small="join").assign(
            labels, 1, np.random.default_rng(0), groups
        )
        assert np.bincount(owner).min() == 6


@pytest.mark.parametrize("groups", [[2, 8], [5, 5], [8, 2]])
def test_mixed_clients_near_iid_stay_so(groups):
    """The classes come out even at the cost of the skewed: alpha = 50 keeps a Dirichlet's EMD."""
    near, skewed, free = [], [], []
    for seed in range(20):
        draw = np.random.default_rng(seed)
        table = Mixed(clients=10, sizes=groups, alphas=[50.0, 0.5]).table(np.full(10, 600), draw)
        assert (table.sum(0) == 600).all()
        assert (table.sum(1) == 600).all()
        emd = np.abs(table / 600 - 0.1).sum(1)
        near.append(emd[: groups[0]].mean())
        skewed.append(emd[groups[0] :].mean())
        free.append(np.abs(draw.dirichlet(np.full(10, 50.0), groups[0]) - 0.1).sum(1).mean())
    assert np.mean(near) == pytest.approx(np.mean(free), rel=0.1)
    assert np.mean(skewed) > 5 * np.mean(near)
