"""Sparse ternary compression: signs of the largest entries, their mean size, a Golomb code."""

import math

import numpy as np
import torch
from federations import composed, network_task, play, same
from small_updates import by_hand, flat, sent, update

from unalike.parts.compression.codec import Compressed
from unalike.parts.compression.select import TopK
from unalike.parts.compression.values import Sign


def test_stc() -> None:
    up, k = update(), 4
    v = flat(up)
    top = np.argsort(-np.abs(v))[:k]
    want = np.zeros_like(v)
    want[top] = np.sign(v[top]) * np.abs(v[top]).mean()
    got, _, size = sent(Compressed(TopK(0.2, "golomb"), Sign(), True), up)
    np.testing.assert_allclose(flat(got), want, rtol=1e-6)
    places = math.ceil(len(by_hand(sorted(top.tolist()), 20)) / 8)
    assert size == 4 + math.ceil(k / 8) + places


def test_the_method_is_that_codec() -> None:
    """With the network's own running statistics left alone."""
    task, data = network_task("conv")
    made = composed(task, data, ("stc", {"share": 0.1}))
    assert made.channel == (Compressed(TopK(0.1, "golomb"), Sign(), True, task.network.buffers),)


def test_one_entry_is_topk_with_one_entry() -> None:
    """The mean size of one entry is its size."""
    task, data = network_task("dense", torch.float64)
    one, other = (
        play(composed(task, data, (name, {"share": 0.006})), data) for name in ("stc", "topk")
    )
    assert same(one.x, other.x)
