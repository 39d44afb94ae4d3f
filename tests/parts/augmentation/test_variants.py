"""Variants of images: where pixels come from, what colours become, how often each happens."""

import colorsys
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import vmap
from torch.utils._python_dispatch import TorchDispatchMode

from unalike import rng
from unalike.parts.augmentation.transform import ClassBalance
from unalike.parts.augmentation.variants import Variants, luma, origin, recolour, turned, warp

OFF: dict[str, Any] = {
    "rotation": 0.0,
    "noise": 0.0,
    "flip": False,
    "perspective": 0.0,
    "jitter": 0.0,
    "hue": 0.0,
    "grey": 0.0,
}


def only(**settings: Any) -> Variants:
    """Variants of one kind."""
    return Variants(**{**OFF, **settings})


def images(n: int, channels: int = 3, size: int = 8) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).random((n, channels, size, size))).float()


def keystone(d: float) -> Tensor:
    """The two upper corners moved towards each other by ``d``."""
    return torch.tensor([[d, d, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)


def at(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_the_centre_goes_where_the_diagonals_meet() -> None:
    """Those from (1/4, 0) to (1, 1) and from (3/4, 0) to (0, 1) meet at (1/2, 1/3)."""
    corners = keystone(0.25)[..., None, None]
    s, t = origin(corners, at(0.5)[None], at(1 / 3)[:, None])
    assert float(s) == pytest.approx(0.5, abs=1e-12)
    assert float(t) == pytest.approx(0.5, abs=1e-12)
    # Along the middle t_out = t / (2 - t): (1 - 2d) t / (1 - 2d t) with d = 1/4.
    _, t = origin(corners, at(0.5)[None], at(0.75 / 1.25)[:, None])
    assert float(t) == pytest.approx(0.75, abs=1e-12)


def test_a_keystone_moves_known_pixels() -> None:
    """d = 2/7 on 5 x 5 pixels: the centre is seen one row higher, exactly at a pixel.

    The last row's centre 0.9 comes from t = 0.9 / (3/7 + 0.9 * 4/7) = 21/22, which is 3/11 of a
    pixel below the last row's centre: there 8/11 of it are left.
    """
    x = images(1, 2, 5).double()
    no = torch.zeros(1, dtype=torch.float64)
    out = warp(x, no, no, keystone(2 / 7))
    torch.testing.assert_close(out[0, :, 1, 2], x[0, :, 2, 2])
    torch.testing.assert_close(out[0, :, 4, 2], x[0, :, 4, 2] * 8 / 11)
    assert float(out[0, :, 0, 0].abs().max()) == 0  # outside of the narrowed top


def solved(corners: np.ndarray) -> np.ndarray:
    """The homography from moved corners to the unit square, by a linear system of eight."""
    across, down = corners[:4], corners[4:]
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    inwards = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    moved = square + inwards * np.stack([across, down], 1)
    rows, right = [], []
    for (x, y), (u, v) in zip(moved, square, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        right += [u, v]
    return np.append(np.linalg.solve(np.array(rows), right), 1).reshape(3, 3)


def test_homographies_against_a_linear_system() -> None:
    """Any corners within the strongest setting."""
    corners = np.random.default_rng(3).random((50, 8)) * 0.3
    points = np.random.default_rng(4).random((50, 2)) * 0.3 + 0.35
    s, t = origin(torch.from_numpy(corners), *torch.from_numpy(points).unbind(1))
    for k in range(50):
        u, v, z = solved(corners[k]) @ [*points[k], 1]
        assert (float(s[k]), float(t[k])) == pytest.approx((u / z, v / z), abs=1e-9)


def test_a_strong_warp_is_finite_and_shows_nothing_from_behind() -> None:
    """All values stay between those of the picture and the empty surroundings."""
    x = images(500, 1, 9) + 1
    out = only(perspective=0.6, perspective_chance=1.0)(x, rng.key(0))
    assert torch.isfinite(out).all()
    assert float(out.min()) >= 0
    assert float(out.max()) <= float(x.max()) + 1e-5


def test_flip_comes_before_the_warp() -> None:
    """A mirrored keystone is the keystone of the mirrored image."""
    x = images(1, 1, 6).double()
    no, yes = torch.zeros(1).double(), torch.ones(1).double()
    uneven = torch.tensor([[0.2, 0.0, 0.1, 0.05, 0.0, 0.1, 0.0, 0.2]]).double()
    torch.testing.assert_close(warp(x, yes, no, uneven), warp(x.flip(-1), no, no, uneven))


# Two pixels side by side, (0.2, 0.4, 0.6) and (1.0, 0.5, 0.0): brightness 0.363 and 0.5925.
PAIR = torch.tensor([[0.2, 1.0], [0.4, 0.5], [0.6, 0.0]], dtype=torch.float64).reshape(1, 3, 1, 2)


def factors(b: float = 1, c: float = 1, s: float = 1, t: float = 0) -> tuple[Tensor, ...]:
    return at(b), at(c), at(s), at(t)


def test_factors_by_hand() -> None:
    """Mean brightness 0.47775; half the contrast goes half the way to it, and so on."""
    assert luma(PAIR).flatten().tolist() == pytest.approx([0.363, 0.5925])
    bright = recolour(PAIR, *factors(b=1.2))
    torch.testing.assert_close(bright, 1.2 * PAIR)
    flat = recolour(PAIR, *factors(c=0.5))[0, :, 0]
    assert flat[:, 0].tolist() == pytest.approx([0.338875, 0.438875, 0.538875])
    assert flat[:, 1].tolist() == pytest.approx([0.738875, 0.488875, 0.238875])
    pale = recolour(PAIR, *factors(s=0.5))[0, :, 0]
    assert pale[:, 0].tolist() == pytest.approx([0.2815, 0.3815, 0.4815])
    assert pale[:, 1].tolist() == pytest.approx([0.79625, 0.54625, 0.29625])
    everything = recolour(PAIR, *factors(1.2, 0.5, 0.5))[0, :, 0]
    # 1.2 times: half way from the pale pixel to the mean.
    assert everything[:, 0].tolist() == pytest.approx([0.45555, 0.51555, 0.57555])


def test_a_third_of_a_turn_exchanges_the_channels() -> None:
    """Red becomes green, green blue, blue red, with everything in between."""
    torch.testing.assert_close(turned(PAIR, at(1 / 3).reshape(1, 1, 1, 1)), PAIR.roll(1, 1))


@pytest.mark.parametrize("turn", [-0.5, -0.13, 0.0, 0.07, 0.25, 0.5])
def test_hue_against_the_standard_library(turn: float) -> None:
    """Colours, ties of two channels, greys, black and white."""
    some = np.random.default_rng(1).random((20, 3))
    ties = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [0.5, 0.5, 0.5], [0, 0, 0], [1, 1, 1]])
    colours = np.concatenate([some, ties])
    x = torch.from_numpy(colours.T.reshape(1, 3, 1, -1))
    out = turned(x, at(turn).reshape(1, 1, 1, 1))[0, :, 0].T
    for colour, got in zip(colours, out, strict=True):
        h, s, v = colorsys.rgb_to_hsv(*colour)
        assert got.tolist() == pytest.approx(colorsys.hsv_to_rgb((h + turn) % 1, s, v), abs=1e-9)


N = 4000
KINDS = {
    "flip": (only(flip=True), 0.5),
    "rotation": (only(rotation=20.0), 0.5),
    "noise": (only(noise=0.05), 0.5),
    "perspective": (only(perspective=0.3), 0.5),
    "jitter": (only(jitter=0.3), 0.5),
    "hue": (only(hue=0.3), 0.5),
    "grey": (only(grey=0.1), 0.1),
    "rarer perspective": (only(perspective=0.3, perspective_chance=0.3), 0.3),
    "rarer jitter": (only(jitter=0.3, jitter_chance=0.3), 0.3),
    "often": (only(noise=0.05, chance=0.9), 0.9),
}


@pytest.mark.parametrize("kind", KINDS)
def test_how_often_it_happens(kind: str) -> None:
    """Within four standard deviations of its chance, over many keys as over many rows."""
    variants, chance = KINDS[kind]
    x = images(1, 3, 4).expand(N // 8, -1, -1, -1)
    keys = rng.fold_in(rng.key(5), torch.arange(8))
    changed = torch.cat([(variants(x, k) - x).abs().flatten(1).amax(1) > 1e-4 for k in keys])
    spread = 4 * math.sqrt(chance * (1 - chance) / N)
    assert float(changed.float().mean()) == pytest.approx(chance, abs=spread)


def test_kinds_happen_independently() -> None:
    """Flip and rotation, seen on one picture: each quarter of the rows got its combination."""
    x = images(1, 1, 7).expand(N, -1, -1, -1)
    flips, turns = only(flip=True), only(rotation=20.0)
    a, b = ((v(x, rng.key(1)) - x).abs().flatten(1).amax(1) > 1e-4 for v in (flips, turns))
    assert float((a & b).float().mean()) == pytest.approx(0.25, abs=4 * math.sqrt(3 / 16 / N))


def test_strengths_fill_their_range() -> None:
    """A grey picture shows the factor of brightness alone: within 0.7 and 1.3, evenly."""
    x = torch.full((N, 3, 2, 2), 0.5)
    factor = only(jitter=0.3, jitter_chance=1.0)(x, rng.key(2))[:, 0, 0, 0] / 0.5
    assert 0.7 <= float(factor.min()) < 0.702
    assert 1.298 < float(factor.max()) <= 1.3 + 1e-6
    assert float(factor.mean()) == pytest.approx(1, abs=4 * 0.6 / math.sqrt(12 * N))
    assert float(factor.std()) == pytest.approx(0.6 / math.sqrt(12), rel=0.05)


def test_grey_pictures_keep_their_one_channel() -> None:
    """Jitter and grey-scale are for colours: for other numbers of channels they do nothing."""
    strong, none = Variants(jitter=1.0, hue=0.5, grey=1.0), Variants(jitter=0.0, hue=0.0, grey=0.0)
    for channels in (1, 2, 4):
        x = images(16, channels)
        assert torch.equal(strong(x, rng.key(3)), none(x, rng.key(3)))
    assert not torch.equal(strong(images(16), rng.key(3)), none(images(16), rng.key(3)))


def test_grey_is_the_same_in_all_channels() -> None:
    out = only(grey=1.0)(images(5), rng.key(0))
    torch.testing.assert_close(out, luma(images(5)).expand(-1, 3, -1, -1))


@pytest.mark.parametrize("channels", [1, 3])
def test_alone_in_a_cohort_and_in_a_shorter_batch(channels: int) -> None:
    """The same variants; a row's do not depend on what stands behind it."""
    x, altered = images(12, channels).reshape(3, 4, channels, 8, 8), torch.tensor([True] * 4)
    keys, balance = rng.fold_in(rng.key(9), torch.arange(3)), ClassBalance()
    together = vmap(lambda x, k: balance.apply(x, altered, k))(x, keys)
    for i in range(3):
        alone = balance.apply(x[i], altered, keys[i])
        assert float((alone - x[i]).abs().max()) > 0.01
        torch.testing.assert_close(together[i], alone, atol=1e-5, rtol=0)
        torch.testing.assert_close(balance.apply(x[i, :2], altered[:2], keys[i]), alone[:2])


class NoWaiting(TorchDispatchMode):
    """Refuses what makes the host wait for a device, or the device for a number of the host."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name()
        assert name not in ("aten::_local_scalar_dense", "aten::nonzero", "aten::lift_fresh"), name
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("channels", [1, 3])
def test_nothing_waits_for_a_device(channels: int) -> None:
    """So that a minibatch with its variants can be recorded once and replayed."""
    x, altered, key = images(4, channels), torch.ones(4, dtype=torch.bool), rng.key(0)
    with NoWaiting():
        ClassBalance().apply(x, altered, key)
    with pytest.raises(AssertionError, match="_local_scalar_dense"), NoWaiting():
        float(x.sum())
    with pytest.raises(AssertionError, match="lift_fresh"), NoWaiting():
        torch.tensor(1.0)


def ramp(n: int = 1) -> Tensor:
    """Pictures whose value is the place across, from -1 to 1."""
    u = (2 * torch.arange(16, dtype=torch.float64) + 1) / 16 - 1
    return u.expand(n, 1, 16, 16)


def affine(*numbers: float) -> Tensor:
    x, still = ramp(), torch.zeros(1, dtype=torch.float64)
    return warp(
        x, still.bool(), still, torch.zeros(1, 8), torch.tensor([numbers], dtype=torch.float64)
    )


def test_a_shift_moves_whole_pixels() -> None:
    torch.testing.assert_close(affine(0.25, 0, 1, 0)[..., 4:], ramp()[..., :-4])
    assert not affine(0.25, 0, 1, 0)[..., :4].any()
    torch.testing.assert_close(affine(0, -0.5, 1, 0)[..., :8, :], ramp()[..., 8:, :])


def test_twice_the_size_shows_half_of_the_picture() -> None:
    torch.testing.assert_close(affine(0, 0, 2, 0), ramp() / 2)


def test_a_sheared_row_comes_from_beside_it() -> None:
    u, v = ramp(), ramp().transpose(2, 3)
    inside = (u + 0.25 * v).abs() < 0.9
    torch.testing.assert_close(affine(0, 0, 1, 0.25)[inside], (u + 0.25 * v)[inside])


def test_affine_variants_have_their_strengths_and_their_chance() -> None:
    how = only(shift=0.1, scale=0.2, shear=30.0, chance=0.5)
    found = how._affine(images(4000), rng.key(1))
    assert found is not None
    still = (found == torch.tensor([0.0, 0.0, 1.0, 0.0])).all(1)
    assert float(still.float().mean()) == pytest.approx(0.5, abs=0.03)
    most = found.sub(torch.tensor([0.0, 0.0, 1.0, 0.0])).abs().amax(0)
    wanted = torch.tensor([0.1, 0.1, 0.2, math.tan(math.radians(30))])
    torch.testing.assert_close(most, wanted, rtol=0.01, atol=0)
    assert only()._affine(images(3), rng.key(1)) is None
