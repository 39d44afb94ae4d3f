"""FedAug: the level classes are raised to, and what is left of the skew."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from federations import composed, federation, network_task
from hypothesis import given
from hypothesis import strategies as st

from unalike import rng
from unalike.parts.augmentation.transform import ClassBalance, distance, level
from unalike.parts.augmentation.variants import Variants

M = 10


def two_level(t: int, f: float) -> np.ndarray:
    """ll(t, f): t priority labels share f, the rest is spread over all; total 1."""
    return np.where(np.arange(M) < t, f / t + (1 - f) / M, (1 - f) / M)


# (t, f) -> for e = 0, 0.4, 0.8: the level L and the share of unaltered examples
LEVELS = {
    (2, 0.9): [(0.460000, 0.217391), (0.172500, 0.434783), (0.076667, 0.652174)],
    (1, 7 / 9): [(0.800000, 0.125000), (0.207407, 0.375000), (0.088889, 0.625000)],
    (2, 0.875): [(0.450000, 0.222222), (0.168750, 0.444444), (0.075000, 0.666667)],
    (3, 1.0): [(0.333333, 0.300000), (0.142857, 0.500000), (0.061224, 0.700000)],
    (1, 0.78): [(0.802000, 0.124688), (0.207926, 0.374065), (0.089111, 0.623441)],
    (2, 0.88): [(0.452000, 0.221239), (0.169500, 0.442478), (0.075333, 0.663717)],
    (2, 0.86): [(0.444000, 0.225225), (0.166500, 0.450450), (0.074000, 0.675676)],
}


def share(counts: np.ndarray, L: float) -> float:
    """Of the examples after augmentation, how many are unaltered."""
    return float(counts.sum() / np.maximum(counts, L).sum())


@pytest.mark.parametrize("solver", ["bisect", "closed_form"])
@pytest.mark.parametrize("setting", LEVELS, ids=str)
def test_two_level_histograms(setting: tuple[int, float], solver: str) -> None:
    """Both solvers are exact here."""
    counts = two_level(*setting)
    for e, (L, unaltered) in zip((0.0, 0.4, 0.8), LEVELS[setting], strict=True):
        got = level(counts, e, solver)
        assert got == pytest.approx(L, abs=1e-6)
        assert share(counts, got) == pytest.approx(unaltered, abs=1e-6)
        assert distance(np.maximum(counts, got)) == pytest.approx(e, abs=1e-9)


# EMD -> all settings ll(t, f) that have it, and the mean unaltered share for each e below it
SHARES = {
    0.4: ([(t, 0.4 / (2 * (1 - t / M))) for t in range(1, 9)], {0.0: 0.642758}),
    0.8: ([(t, 0.8 / (2 * (1 - t / M))) for t in range(1, 7)], {0.0: 0.436243, 0.4: 0.718122}),
    1.2: (
        [(t, 1.2 / (2 * (1 - t / M))) for t in range(1, 5)],
        {0.0: 0.281548, 0.4: 0.521032, 0.8: 0.760516},
    ),
    1.4: (
        [(t, 1.4 / (2 * (1 - t / M))) for t in range(1, 4)],
        {0.0: 0.215741, 0.4: 0.439815, 0.8: 0.663889},
    ),
    1.6: (
        [(t, 1.6 / (2 * (1 - t / M))) for t in range(1, 3)],
        {0.0: 0.155556, 0.4: 0.366667, 0.8: 0.577778},
    ),
}


@pytest.mark.parametrize("emd", SHARES)
def test_mean_share_over_all_settings_of_a_skew(emd: float) -> None:
    """The exact form of a published table."""
    settings, expected = SHARES[emd]
    for e, want in expected.items():
        shares = [share(c, level(c, e)) for c in (two_level(*s) for s in settings)]
        assert np.mean(shares) == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize(
    ("t", "each", "total"), [(1, 166.67, 1500), (2, 156.25, 1250), (3, 153.06, 1071.4)]
)
def test_augmented_examples_of_a_client_with_2500(t: int, each: float, total: float) -> None:
    """CIFAR-10 over 20 clients, EMD 1.4, e = 0.8."""
    counts = 2500 * two_level(t, 1.4 / (2 * (1 - t / M)))
    extra = np.maximum(level(counts, 0.8) - counts, 0)
    assert extra.max() == pytest.approx(each, abs=0.01)
    assert extra.sum() == pytest.approx(total, abs=0.05)


GRADED = np.array([500, 200, 120, 100, 80, 0, 0, 0, 0, 0])


def test_graded_histogram_where_the_published_search_misses() -> None:
    """It stops at 0.876 instead of 0.8."""
    assert distance(GRADED) == pytest.approx(1.04)
    published, exact = level(GRADED, 0.8, "closed_form"), level(GRADED, 0.8)
    assert published == pytest.approx(22.222222, abs=1e-6)
    assert distance(np.maximum(GRADED, published)) == pytest.approx(0.876, abs=1e-9)
    assert exact == pytest.approx(34.285714, abs=1e-6)
    assert share(GRADED, exact) == pytest.approx(0.853659, abs=1e-6)


def test_graded_histogram_where_both_agree() -> None:
    """The touched classes happen to be the ones below the mean."""
    for solver in ("bisect", "closed_form"):
        found = level(GRADED, 0.4, solver)
        assert found == pytest.approx(131.25, abs=1e-6)
        assert share(GRADED, found) == pytest.approx(0.571429, abs=1e-6)


def test_nothing_happens_below_the_target() -> None:
    """Also exactly at it."""
    assert level(two_level(2, 0.5), 0.8) == 0.0
    assert level(two_level(2, 0.5), 0.8, "closed_form") == 0.0
    assert level(np.full(M, 7), 0.0) == 0.0


histograms = st.lists(st.integers(1, 300), min_size=2, max_size=12).map(np.array)


@given(histograms, st.floats(0, 1.5))
def test_bisection_reaches_every_target(counts: np.ndarray, e: float) -> None:
    """Exactly, or the histogram was closer already."""
    reached = distance(np.maximum(counts, level(counts, e)))
    assert reached == pytest.approx(min(e, distance(counts)), abs=1e-6)


def after_repeats(labels: np.ndarray, target: float, classes: int = M) -> np.ndarray:
    """The histogram a client trains on."""
    again = ClassBalance(target).repeats(labels, classes, rng.key(3))
    return np.bincount(np.concatenate([labels, labels[again]]), minlength=classes)


@given(histograms, st.floats(0, 1.5), st.integers(0, 99))
def test_measured_skew_after_repeats(counts: np.ndarray, e: float, seed: int) -> None:
    """Rounding a level moves a histogram of N examples by at most M / 2 of them."""
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    new = after_repeats(labels, e, len(counts))
    aim = min(e, distance(counts))
    assert abs(distance(new) - aim) <= 2 * len(counts) / 2 / new.sum() + 1e-9
    assert np.all(new >= counts)


def test_repeats_are_spread_over_the_examples_of_a_class() -> None:
    """No example is used twice more often than another of its class."""
    labels = np.array([0] * 50 + [1] * 7 + [2] * 3)
    again = ClassBalance(0.0).repeats(labels, 3, rng.key(1))
    assert np.bincount(labels[again]).tolist() == [0, 43, 47]
    for first, last in ((50, 57), (57, 60)):
        used = np.bincount(again, minlength=60)[first:last]
        assert used.max() - used.min() <= 1


def test_a_class_without_examples_stays_empty() -> None:
    """The others are raised as far as they help: here to the target, by a larger level."""
    counts = np.array([60, 20, 2, 2, 0])
    new = after_repeats(np.repeat(np.arange(5), counts), 0.6, 5)
    assert new[4] == 0
    assert distance(counts) > 0.9
    assert distance(new) == pytest.approx(0.6, abs=0.02)


def test_an_unreachable_target_costs_no_useless_repeats() -> None:
    """Two classes of ten: making them even does not bring the client any nearer to uniform."""
    labels = np.repeat([0, 1], [90, 10])
    assert after_repeats(labels, 0.8)[:2].tolist() == [90, 10]
    assert after_repeats(np.zeros(12, dtype=int), 0.0).tolist() == [12] + [0] * 9


def test_a_note_says_that_nothing_is_changed() -> None:
    even = np.full((3, M), 20)
    assert "changes nothing: the EMD of every client is already at most 0.8" in (
        ClassBalance(0.8).note(even)
    )
    three = np.where(np.arange(M) < 3, [[50], [9]], 0)  # ll(3, 1): EMD 1.4 and nothing to gain
    for own in three:
        assert np.array_equal(after_repeats(np.repeat(np.arange(M), own), 0.8), own)
    note = ClassBalance(0.8).note(three)
    assert note.startswith("fedaug changes nothing and leaves 2 of 2 clients above its target EMD")
    assert "they lack 14 classes" in note


@given(st.integers(0, 9999), st.sampled_from([0.0, 0.4, 0.8, 1.2]))
def test_the_note_counts_whom_augmentation_cannot_help(seed: int, target: float) -> None:
    """Against the histograms that the solver's level makes, before it is rounded."""
    draw = np.random.default_rng(seed)
    counts = draw.integers(1, 100, (4, M)) * draw.integers(0, 2, (4, M))
    counts[:, 0] += 1
    levels = [level(own, target, owned=own > 0) for own in counts]
    pairs = zip(counts, levels, strict=True)
    after = [np.where(own > 0, np.maximum(own, L), own) for own, L in pairs]
    above = [distance(own) > target + 1e-9 for own in after]
    note = ClassBalance(target).note(counts)
    assert (f"leaves {sum(above)} of 4 clients" in note) == any(above)
    lost = int((counts[above] == 0).sum())
    assert (f"they lack {lost} classes" in note) == any(above)
    changed = any((new > own + 1e-6).any() for new, own in zip(after, counts, strict=True))
    assert ("changes nothing" in note) != changed


def test_no_note_where_every_client_can_be_helped() -> None:
    counts = np.where(np.arange(M) < 2, 100, np.full((5, M), 1))
    assert ClassBalance(0.8).note(counts) == ""


def test_untouched_examples_stay_untouched() -> None:
    """Only the rows marked as repeats are altered, each in its own way."""
    x = federation((1, 6, 6)).examples.x[:8]
    altered = torch.tensor([False, True] * 4)
    always = ClassBalance(variants=Variants(chance=1.0))
    out = always.apply(x, altered, rng.key(2))
    assert torch.equal(out[~altered], x[~altered])
    assert (out[altered] != x[altered]).flatten(1).any(1).all()
    same_image = always.apply(x[:1].expand(8, -1, -1, -1), torch.ones(8, dtype=bool), rng.key(2))
    assert len(same_image.unique(dim=0)) == 8


def altering(**settings: Any) -> ClassBalance:
    """Geometry alone, and of that nothing but what is said."""
    return ClassBalance(variants=Variants(**{"noise": 0, "perspective": 0, **settings}))


def test_flips_and_rotations_are_exact_where_they_can_be() -> None:
    """No rotation and no noise: every image is itself or its mirror image, about half of each."""
    x = federation((2, 5, 7), (40,)).examples.x
    out = altering(rotation=0).apply(x, torch.ones(40, dtype=torch.bool), rng.key(4))
    mirrored = torch.isclose(out, x.flip(-1), atol=1e-5).flatten(1).all(1)
    kept = torch.isclose(out, x, atol=1e-5).flatten(1).all(1)
    assert bool((mirrored ^ kept).all())
    assert 8 < int(mirrored.sum()) < 32


def test_a_rotation_turns_pixels_not_coordinates() -> None:
    """A wide image: the distance of a bright spot from the centre does not change."""
    h, w = 21, 41
    x = torch.zeros(30, 1, h, w)
    x[:, :, 10, 28:31] = x[:, :, 9:12, 29] = 1.0  # 9 pixels to the right of the centre (10, 20)
    turn = altering(rotation=90, flip=False, chance=1.0)
    out = turn.apply(x, torch.ones(30, dtype=torch.bool), rng.key(5))[:, 0]
    mass = out.sum((1, 2))
    row = (out.sum(2) * (torch.arange(h) - 10)).sum(1) / mass
    column = (out.sum(1) * (torch.arange(w) - 20)).sum(1) / mass
    assert torch.allclose((row**2 + column**2).sqrt(), torch.tensor(9.0), atol=0.3)
    assert float(row.abs().max()) > 5


def test_tables_get_noise_only_and_symbols_nothing() -> None:
    """There is nothing to rotate, so there is noise on every repeat."""
    altered = torch.ones(40, dtype=torch.bool)
    plain = ClassBalance(images=False, variants=Variants(noise=0.1))
    x = torch.rand(40, 3)
    moved = (plain.apply(x, altered, rng.key(0)) - x).abs()
    assert float(moved.max()) < 0.6
    assert (moved.amax(1) > 0).all()
    tokens = torch.randint(0, 9, (40, 3))
    assert torch.equal(plain.apply(tokens, altered, rng.key(0)), tokens)


def test_settings_reach_the_variants() -> None:
    """Every one of them, under its own name."""
    task, data = network_task("dense")
    settings = {f.name: 0.25 for f in fields(Variants) if f.name != "flip"}
    recipe = composed(task, data, ("fedaug", {**settings, "flip": False}))
    assert recipe.transform == ClassBalance(variants=Variants(**settings, flip=False))
    assert composed(task, data, "fedaug").transform == ClassBalance()
