"""One byte for a number."""

import torch
from federations import composed, network_task
from small_updates import KEY, sent, update
from torch.func import vmap

from unalike import rng
from unalike.parts.compression.codec import Compressed
from unalike.parts.compression.values import EightBit


def test_eight_bits() -> None:
    """Within one step of the scale, and right in the mean over many keys."""
    up = update()
    codec = Compressed(None, EightBit(), False)
    got, _, size = sent(codec, up)
    assert size == 20 + 3 * 4
    for name, x in up.delta.items():
        assert float((got.delta[name] - x).abs().max()) <= float(x.abs().max()) / 127 * 1.001
    keys = rng.fold_in(KEY, torch.arange(4000))
    many = vmap(lambda key: codec.decode(codec.encode(up, {}, key)[0]))(keys)
    for name, x in up.delta.items():
        step = float(x.abs().max()) / 127
        torch.testing.assert_close(many.delta[name].mean(0), x, atol=step / 25, rtol=0)


def test_eight_bits_to_the_nearest() -> None:
    up = update()
    got, _, _ = sent(Compressed(None, EightBit("nearest"), False), up)
    for name, x in up.delta.items():
        step = x.abs().max() / 127
        torch.testing.assert_close(got.delta[name], (x / step).round() * step)


def test_the_method_is_that_codec() -> None:
    task, data = network_task("dense")
    made = composed(task, data, ("eight_bit", {"rounding": "nearest", "feedback": True}))
    assert made.channel == (Compressed(None, EightBit("nearest"), True),)
