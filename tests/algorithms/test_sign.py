"""One bit for a number."""

import torch
from federations import composed, network_task
from small_updates import flat, sent, update

from unalike.parts.compression.codec import Compressed
from unalike.parts.compression.values import Sign


def test_sign() -> None:
    """One scale for every leaf: 2 + 1 + 1 bytes of signs and three scales."""
    up = update()
    got, _, size = sent(Compressed(None, Sign(), False), up)
    for name, x in up.delta.items():
        torch.testing.assert_close(got.delta[name], x.abs().mean() * x.sign())
    assert size == (2 + 4) + (1 + 4) + (1 + 4)


def test_feedback_makes_up_for_the_sizes() -> None:
    """The same update again and again: the mean of what was sent comes to be the update."""
    up, codec, memory = update(dtype=torch.float64), Compressed(None, Sign(), True), None
    total = 0.0
    for _ in range(2000):
        got, memory, _ = sent(codec, up, memory)
        total = total + flat(got)
    assert abs(total / 2000 - flat(up)).max() < 0.01


def test_the_method_is_that_codec() -> None:
    task, data = network_task("dense")
    assert composed(task, data, "sign").channel == (Compressed(None, Sign(), True),)
