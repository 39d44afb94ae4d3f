"""Mixed, shards, quantity, NIID-1, NIID-2 and natural partitions."""

from typing import Any

import numpy as np
import pytest
from partitions import BALANCED, in_order, owners, table

from unalike.errors import ConfigError, DataError
from unalike.federation import skew
from unalike.federation.partition.base import Labels
from unalike.federation.partition.mixed import Mixed
from unalike.federation.partition.natural import Natural, client_names
from unalike.federation.partition.niid1 import Niid1
from unalike.federation.partition.niid2 import Niid2
from unalike.federation.partition.quantity import Quantity
from unalike.federation.partition.shards import Shards


class TestMixed:
    """Groups with different concentrations."""

    def test_clients_keep_the_mixes_they_drew_and_are_equal(self) -> None:
        """The same draws by hand; the class that is asked for most is used up."""
        mixed = Mixed(clients=10, sizes=[2, 8], alphas=[50.0, 0.5])
        counts = in_order(mixed, seed=5)
        rng = np.random.default_rng(5)
        mixes = np.vstack([rng.dirichlet(np.full(10, a), n) for n, a in ((2, 50.0), (8, 0.5))])
        size = int(6000 / mixes.sum(axis=0).max())
        assert (counts.sum(axis=1) == size).all()
        assert np.abs(counts - size * mixes).max() < 3
        assert 6000 - counts.sum(axis=0).max() < 10

    def test_the_marks_say_who_is_of_which_group(self) -> None:
        mixed = Mixed(clients=10, sizes=[4, 6], alphas=[50.0, 0.1])
        owner, _, marks = mixed.assign(Labels(BALANCED, 10), np.random.default_rng(2))
        held = owner >= 0
        counts = np.bincount(owner[held] * 10 + BALANCED[held], minlength=100).reshape(10, 10)
        near = np.array([mark == "alpha = 50" for mark in marks])
        assert near.sum() == 4
        assert not near[:4].all()
        distance = np.abs(counts / counts.sum(axis=1, keepdims=True) - 0.1).sum(axis=1)
        assert distance[near].max() < distance[~near].min()

    def test_unequal_classes_are_the_centre_of_the_mixes(self) -> None:
        """Clients of a huge concentration are like the dataset, and nearly all of it is used."""
        labels = np.repeat([0, 1, 2], [6000, 3000, 1000])
        counts = table(Mixed(sizes=[10], alphas=[1e6]), labels)
        assert counts.sum(axis=1) == pytest.approx(1000, abs=15)
        assert counts[:, :3] / counts.sum(axis=1, keepdims=True) == pytest.approx(
            np.tile([0.6, 0.3, 0.1], (10, 1)), abs=0.01
        )

    def test_mixes_give_way_only_to_the_least_size(self) -> None:
        """The class that most clients want is shared out; a larger size needs the other class."""
        free = Mixed(sizes=[10], alphas=[1e-3])
        rng = np.random.default_rng(0)
        wanted = rng.dirichlet(np.full(2, 1e-3), 10).argmax(axis=1)
        most = np.bincount(wanted).max()
        labels = np.arange(2000) % 2
        assert (table(free, labels).sum(axis=1) == 1000 // most).all()
        forced = table(free.model_copy(update={"min_size": 200}), labels)
        assert (forced.sum(axis=1) == 200).all()
        assert np.array_equal(forced.sum(axis=0)[:2], [1000, 1000])

    def test_a_class_vector_starves_the_skewed_group(self) -> None:
        sizes = in_order(Mixed(mode="per_class_vector")).sum(axis=1)
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
        classes = sorted(tuple(np.flatnonzero(row)) for row in counts)
        assert classes == [(k // 20, k // 20 + 5) for k in range(100)]
        assert (counts.sum(axis=1) == 600).all()

    def test_strided_shards_are_consecutive_rows_sorted_by_label(self) -> None:
        labels = np.array([1, 0, 1, 0, 1, 0, 1, 0])
        strided = Shards(clients=2, assignment="strided")
        owner = strided.draw(Labels(labels, 2), np.random.default_rng(0))
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
        counts = in_order(Niid2(reading="feddisco"))
        assert (counts.sum(axis=1) == 10_000).all()
        assert (counts[-1] == 1000).all()
        assert [np.flatnonzero(row).tolist() for row in counts[:-1]] == [
            [0, 1], [2, 3], [4, 5], [6, 7], [8, 9]
        ]  # fmt: skip

    def test_niid2_draws_the_unbiased_client_at_random(self) -> None:
        counts = in_order(Niid2())
        assert counts[-1].sum() == 10_000
        assert np.ptp(counts[-1]) > 10
        assert ((counts[:-1] > 0).sum(axis=1) == 2).all()

    def test_the_unbiased_client_of_niid2_is_marked(self) -> None:
        owner, _, marks = Niid2().assign(Labels(BALANCED, 10), np.random.default_rng(1))
        assert sorted(marks) == [""] * 5 + ["unbiased"]
        assert len(np.unique(BALANCED[owner == marks.index("unbiased")])) == 10


class TestNatural:
    """Clients that come with the data."""

    groups = np.repeat([0, 1, 3, 4], [5, 1, 2, 9])
    labels = np.zeros(17, int)

    def assign(self, **given: Any) -> np.ndarray:
        """In the order of the groups."""
        labels = Labels(self.labels, 1, self.groups)
        return Natural(**given).draw(labels, np.random.default_rng(0))

    def test_each_group_is_a_client_and_gaps_are_closed(self) -> None:
        assert np.array_equal(self.assign(), np.repeat([0, 1, 2, 3], [5, 1, 2, 9]))

    def test_clients_are_numbered_at_random_and_keep_their_names(self) -> None:
        labels = Labels(self.labels, 1, self.groups, ("a", "b", "unused", "d", "e"))
        seen = set()
        for seed in range(40):
            owner, names, _ = Natural().assign(labels, np.random.default_rng(seed))
            held = np.array(labels.group_names)[self.groups]
            assert np.array_equal(np.array(names)[owner], held)
            seen.add(names)
        assert len(seen) > 12  # of 24 orders

    def test_the_smallest_groups_are_joined_to_the_wanted_number(self) -> None:
        assert np.array_equal(self.assign(clients=3), np.repeat([0, 1, 1, 2], [5, 1, 2, 9]))
        assert np.array_equal(self.assign(clients=2), np.repeat([0, 0, 0, 1], [5, 1, 2, 9]))

    def test_small_groups_are_joined_until_large_enough(self) -> None:
        owner = self.assign(min_size=4, small="join")
        assert np.bincount(owner).tolist() == [8, 9]

    def test_small_groups_are_left_out(self) -> None:
        owner = self.assign(min_size=4, small="drop")
        assert np.array_equal(owner, np.repeat([0, -1, -1, 1], [5, 1, 2, 9]))
        labels = Labels(self.labels, 1, self.groups, ("a", "b", "unused", "d", "e"))
        given = Natural(min_size=4, small="drop").assign(labels, np.random.default_rng(0))
        assert sorted(given.names) == ["a", "e"]
        with pytest.raises(DataError, match=r"no group has min_size = 10 .*largest has 9"):
            self.assign(min_size=10, small="drop")
        with pytest.raises(ConfigError, match="set clients to 0"):
            self.assign(min_size=4, small="drop", clients=2)

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
            owners(Natural(), self.labels, 1)

    def test_groups_of_another_length_are_refused(self) -> None:
        with pytest.raises(DataError, match="each of the 17 examples, got 2"):
            owners(Natural(), self.labels, 1, groups=np.zeros(2, int))

    def test_names_follow_the_groups(self) -> None:
        names = client_names(self.assign(clients=3), self.groups, ("a", "b", "unused", "d", "e"))
        assert names == ("a", "b+d", "e")

    def test_a_hundred_thousand_groups(self) -> None:
        groups = np.arange(300_000) % 100_000
        labels = np.zeros(300_000, int)
        owner = owners(Natural(min_size=5, small="join"), labels, 1, groups=groups)
        assert np.bincount(owner).min() == 6
