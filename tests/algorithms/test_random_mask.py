"""Entries at random places, and the seed of the places."""

import math

import numpy as np
import torch
from federations import composed, network_task, play, same
from small_updates import KEY, flat, sent, update
from torch.func import vmap

from unalike import rng, tree
from unalike.parts.compression.codec import Compressed
from unalike.parts.compression.select import RandomMask


def test_random_mask() -> None:
    """A seed of four bytes and k numbers; in the mean over masks the update itself."""
    up, codec = update(), Compressed(RandomMask(0.25), None, False)
    got, _, size = sent(codec, up)
    assert size == 4 + 5 * 4
    v, w = flat(up), flat(got)
    assert np.count_nonzero(w) == 5
    np.testing.assert_allclose(w[w != 0], 4 * v[w != 0], rtol=1e-6)
    keys = rng.fold_in(KEY, torch.arange(6000))
    many = vmap(lambda key: codec.decode(codec.encode(up, {}, key)[0]))(keys)
    mean = flat(tree.map(lambda x: x.mean(0), many))
    np.testing.assert_allclose(mean, v, atol=5 * np.abs(v).max() * math.sqrt(3 / 6000))


def test_random_mask_with_feedback_sends_entries_as_they_are() -> None:
    up, codec = update(), Compressed(RandomMask(0.25), None, True)
    got, owed, _ = sent(codec, up)
    w = flat(got)
    np.testing.assert_array_equal(w[w != 0], flat(up)[w != 0])
    assert same(tree.add(got.delta, {k: owed[f".delta['{k}']"] for k in "abc"}), up.delta)


def test_masks_are_no_one_elses_business() -> None:
    """Noise of local privacy leaves them where they are, in whatever order both were named."""
    task, data = network_task("dense")
    silent = ("local_dp", {"delta": 0.01, "clip": 1e30, "noise_multiplier": 0.0})
    alone, beside = (
        play(composed(task, data, *m), data) for m in (("random_mask",), (silent, "random_mask"))
    )
    assert same(alone.x, beside.x)
