"""What holds for every shift, and what each one does."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from unalike.errors import DataError
from unalike.federation.data import TEST, TRAIN, VALIDATION, Examples, Federation
from unalike.federation.shift import SHIFTS, Shift
from unalike.federation.shift.given_rows import GivenRows
from unalike.federation.shift.label_noise import LabelNoise, corrupted, transition
from unalike.federation.shift.noise import Noise
from unalike.federation.shift.rotation import Rotation, rotated


def federation(
    n: int = 240, clients: int = 4, new: int = 0, shape: tuple = (2, 6, 6)
) -> Federation:
    """Random images; clients and parts in turn."""
    rng = np.random.default_rng(0)
    row = np.arange(n)
    examples = Examples(
        x=torch.from_numpy(rng.random((n, *shape), dtype=np.float32)),
        y=torch.from_numpy(row * 7 % 5),
        classes=5,
    )
    parts = np.array([TRAIN, TRAIN, VALIDATION, TEST])
    total = clients + new
    return Federation(examples, row % total, parts[row // total % 4], clients, new)


def shift(name: str, place: Path) -> Shift:
    """One of the table; of those that read a file, with a file like the federation."""
    if name != "given_rows":
        return SHIFTS[name]()
    np.savez(place / "rows.npz", x=np.ones((5, 2, 6, 6)), y=np.arange(5))
    return GivenRows(file=str(place / "rows.npz"))


@pytest.mark.parametrize("name", SHIFTS)
def test_a_shift_leaves_its_input_and_the_owners_alone(name: str, tmp_path: Path) -> None:
    before = federation()
    x, y = before.examples.x.clone(), before.examples.y.clone()
    after = shift(name, tmp_path).apply(before, np.random.default_rng(1))
    assert torch.equal(before.examples.x, x)
    assert torch.equal(before.examples.y, y)
    assert after.examples.x.dtype == x.dtype
    assert after.examples.y.dtype == y.dtype
    there = len(before.owner)  # a shift may add rows
    assert np.array_equal(after.owner[:there], before.owner)
    assert np.array_equal(after.part[:there], before.part)
    assert not (torch.equal(after.examples.x, x) and torch.equal(after.examples.y, y))


@pytest.mark.parametrize("name", SHIFTS)
def test_a_shift_is_repeatable(name: str, tmp_path: Path) -> None:
    made = shift(name, tmp_path)
    first, second = (made.apply(federation(), np.random.default_rng(3)) for _ in "ab")
    assert torch.equal(first.examples.x, second.examples.x)
    assert torch.equal(first.examples.y, second.examples.y)


class TestRotation:
    """Angles dealt to clients."""

    def test_each_client_has_the_quarter_turn_of_its_mark(self) -> None:
        before = federation(new=2)
        after = Rotation().apply(before, np.random.default_rng(0))
        for client, (mark,) in enumerate(after.marks):
            mine = torch.from_numpy(before.owner == client)
            quarters = int(mark.removeprefix("turned by ")) // 90
            expected = np.rot90(before.examples.x[mine].numpy(), quarters, axes=(-2, -1))
            assert np.array_equal(after.examples.x[mine].numpy(), expected)

    def test_angles_are_dealt_evenly_and_at_random(self) -> None:
        """Any angle is as probable for any client: 600 draws, 200 +- 12 expected."""
        turn, seen = Rotation(angles=[0, 90, -90]), np.zeros((6, 3))
        for seed in range(600):
            after = turn.apply(federation(n=12, clients=6), np.random.default_rng(seed))
            marks = [mark for (mark,) in after.marks]
            names = ["turned by 0", "turned by 90", "turned by 270"]
            assert [marks.count(name) for name in names] == [2, 2, 2]
            seen[np.arange(6), [names.index(mark) for mark in marks]] += 1
        assert np.abs(seen - 200).max() < 5 * 12

    @pytest.mark.parametrize("quarter", [90.0, 180.0, 270.0])
    def test_bilinear_turns_agree_with_exact_ones(self, quarter: float) -> None:
        images = federation().examples.x
        near = rotated(images, quarter + 1e-4)
        assert torch.allclose(near, rotated(images, quarter), atol=1e-4)

    def test_a_turn_and_its_inverse_restore_the_centre(self) -> None:
        axis = torch.linspace(-1, 1, 28)
        blob = torch.exp(-8 * ((axis[:, None] - 0.2) ** 2 + axis[None] ** 2)).repeat(3, 1, 1)
        back = rotated(rotated(blob, 30.0), -30.0)
        assert torch.allclose(back, blob, atol=0.05)  # what two interpolations blur
        assert not torch.allclose(rotated(blob, 30.0), blob, atol=0.1)

    def test_images_that_are_not_square_keep_their_proportions(self) -> None:
        dot = torch.zeros(1, 9, 21)
        dot[0, 4, 14] = 1.0  # four to the right of the centre
        turned = rotated(dot, 45.0)
        place = np.unravel_index(int(turned.argmax()), (9, 21))
        assert tuple(map(int, place)) == (1, 13)  # three up and three to the right

    def test_corners_are_filled(self) -> None:
        images = torch.ones(1, 1, 8, 8)
        assert torch.allclose(rotated(images, 45.0, fill=1.0), images)
        assert rotated(images, 45.0)[0, 0, 0, 0] == 0

    @pytest.mark.parametrize(
        ("shape", "angle", "message"),
        [
            ((5,), 90.0, "rotation needs images"),
            ((4, 6), 90.0, "needs square images, got 4 x 6"),
        ],
    )
    def test_features_that_cannot_be_turned_are_refused(
        self, shape: tuple, angle: float, message: str
    ) -> None:
        with pytest.raises(DataError, match=message):
            Rotation(angles=[angle]).apply(federation(shape=shape), np.random.default_rng(0))

    def test_whole_numbers_turn_by_quarters_only(self) -> None:
        images = torch.arange(32).reshape(2, 4, 4)
        assert torch.equal(rotated(images, 90.0), torch.rot90(images, 1, (-2, -1)))
        with pytest.raises(DataError, match="use multiples of 90"):
            rotated(images, 45.0)

    @pytest.mark.parametrize("given", [{"angles": []}, {"angles": [float("nan")]}])
    def test_bad_angles_are_refused(self, given: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            Rotation(**given)


class TestNoise:
    """Levels from a part to all of the largest, in random order."""

    def test_the_levels_are_the_parts_of_the_largest(self) -> None:
        before = federation(n=4000)
        after = Noise(level=0.8).apply(before, np.random.default_rng(0))
        added = (after.examples.x - before.examples.x).numpy()
        levels = [added[before.owner == client].std() for client in range(4)]
        told = [float(mark.removeprefix("noise ")) for (mark,) in after.marks]
        assert sorted(told) == pytest.approx([0.2, 0.4, 0.6, 0.8])
        assert levels == pytest.approx(told, rel=0.02)
        assert added.mean() == pytest.approx(0, abs=0.01)

    def test_the_order_is_random(self) -> None:
        few = federation(n=12)
        orders = {Noise().apply(few, np.random.default_rng(s)).marks for s in range(60)}
        assert len(orders) > 15  # of 24

    def test_no_level_is_no_change(self) -> None:
        before = federation()
        after = Noise(level=0.0).apply(before, np.random.default_rng(0))
        assert torch.equal(after.examples.x, before.examples.x)

    def test_whole_numbers_are_refused(self) -> None:
        given = federation()
        tokens = replace(given, examples=replace(given.examples, x=torch.ones(240, 3).long()))
        with pytest.raises(DataError, match=r"real-valued features, got torch\.int64"):
            Noise().apply(tokens, np.random.default_rng(0))


class TestLabelNoise:
    """Transition matrices, and where they apply."""

    def test_transition_matrices(self) -> None:
        pair, symmetric = transition(3, "pair", 0.4), transition(3, "symmetric", 0.6)
        assert pair == pytest.approx(np.array([[0.6, 0.4, 0], [0, 0.6, 0.4], [0.4, 0, 0.6]]))
        assert symmetric == pytest.approx(
            np.array([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]])
        )

    @pytest.mark.parametrize(
        ("kind", "ratio"), [("pair", 0.1), ("pair", 0.4), ("symmetric", 0.2), ("symmetric", 0.6)]
    )
    def test_frequencies_follow_the_matrix(self, kind: Any, ratio: float) -> None:
        labels = np.arange(200_000) % 5
        noisy = corrupted(labels, 5, kind, ratio, np.random.default_rng(0))
        seen = np.bincount(labels * 5 + noisy, minlength=25).reshape(5, 5) / 40_000
        assert seen == pytest.approx(transition(5, kind, ratio), abs=0.012)
        assert (seen[transition(5, kind, ratio) == 0] == 0).all()

    @pytest.mark.parametrize("validation", [True, False])
    def test_test_labels_stay_true_and_validation_labels_if_told_so(self, validation: bool) -> None:
        before = federation(new=2)
        noise = LabelNoise(ratio=1.0, validation=validation)
        after = noise.apply(before, np.random.default_rng(0))
        changed = (before.examples.y != after.examples.y).numpy()
        reached = [TRAIN, VALIDATION] if validation else [TRAIN]
        assert np.array_equal(changed, np.isin(before.part, reached))

    def test_the_switch_leaves_training_labels_as_they_were(self) -> None:
        before = federation()
        one, other = (
            LabelNoise(ratio=0.5, validation=v).apply(before, np.random.default_rng(0)).examples.y
            for v in (True, False)
        )
        train = torch.from_numpy(before.part == TRAIN)
        assert torch.equal(one[train], other[train])
        assert not torch.equal(one, other)

    def test_only_a_share_of_the_clients_changes(self) -> None:
        before = federation(n=2400, clients=20)
        after = LabelNoise(ratio=1.0, share=0.3).apply(before, np.random.default_rng(0))
        changed = (before.examples.y != after.examples.y).numpy()
        noisy = np.unique(before.owner[changed])
        assert len(noisy) == 6
        assert noisy.tolist() == [k for k, words in enumerate(after.marks) if words]
        assert changed[(before.part == TRAIN) & np.isin(before.owner, noisy)].all()

    def test_counts_are_measured_on_the_new_labels(self) -> None:
        before = federation()
        after = LabelNoise(kind="pair", ratio=1.0).apply(before, np.random.default_rng(0))
        assert np.array_equal(after.counts, np.roll(before.counts, 1, axis=1))

    def test_sequences_are_refused(self) -> None:
        given = federation()
        text = replace(given, examples=replace(given.examples, y=torch.zeros(240, 3).long()))
        with pytest.raises(DataError, match="one label of at least 2 classes per example"):
            LabelNoise().apply(text, np.random.default_rng(0))
