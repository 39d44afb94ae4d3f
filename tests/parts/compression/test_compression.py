"""Codecs of compression computed another way, and their bytes counted by hand."""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from federations import same
from small_updates import KEY, Up, by_hand, flat, sent, update
from torch import Tensor
from torch.func import vmap

from unalike import channel, rng, tree
from unalike.engine.traffic.timing import Timing
from unalike.parts.compression import bits, golomb
from unalike.parts.compression.codec import Compressed, Compression
from unalike.parts.compression.select import RandomMask, TopK
from unalike.parts.compression.values import EightBit, Sign
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment


class Two(NamedTuple):
    delta: dict[str, Tensor]
    dc: dict[str, Tensor]


# -- bits and codes -----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 8, 9, 64, 100])
def test_bits(n: int) -> None:
    draw = torch.rand(n, generator=torch.Generator().manual_seed(n)) < 0.5
    packed = bits.pack(draw)
    assert len(packed) == math.ceil(n / 8)
    assert packed.tolist() == np.packbits(draw.numpy(), bitorder="little").tolist()
    assert torch.equal(bits.unpack(packed, n), draw)


@pytest.mark.parametrize(("n", "wide"), [(1, 1), (256, 1), (257, 2), (65537, 3), (2**24 + 1, 4)])
def test_positions_take_as_few_bytes_as_hold_them(n: int, wide: int) -> None:
    at = torch.tensor([0, n // 2, n - 1])
    assert bits.write(at, n).shape == (3, wide)
    assert torch.equal(bits.read(bits.write(at, n)), at)


@pytest.mark.parametrize(
    ("n", "k"), [(100, 1), (1000, 10), (50, 30), (7, 6), (10_000, 25), (3, 1), (400, 1)]
)
def test_golomb(n: int, k: int) -> None:
    """As many bits as the code has that is written position by position, and read again."""
    draw = torch.Generator().manual_seed(n)
    for _ in range(20):
        at = torch.randperm(n, generator=draw)[:k].sort().values
        found = golomb.write(at, n)
        assert int(found.used) == math.ceil(len(by_hand(at.tolist(), n)) / 8)
        assert int(found.used) <= len(found.data) == golomb.most(k, n)
        assert torch.equal(golomb.read(found, k, n), at)


@pytest.mark.parametrize("at", [[0, 1, 2], [97, 98, 99], [99], [0]])
def test_golomb_at_both_ends(at: list[int]) -> None:
    found = golomb.write(torch.tensor(at), 100)
    assert golomb.read(found, len(at), 100).tolist() == at


def test_golomb_comes_to_the_expected_length() -> None:
    """8.11 bits for a position in a hundred (Sattler et al. 2019), if they are independent."""
    assert golomb.expected(1, 100) == pytest.approx(8.108, abs=1e-3)
    draw = torch.Generator().manual_seed(0)
    at = torch.randperm(100_000, generator=draw)[:1000].sort().values
    assert int(golomb.write(at, 100_000).used) * 8 / 1000 == pytest.approx(8.108, rel=0.01)


# -- what a server gets -------------------------------------------------------------------------


def test_topk_by_sorting() -> None:
    up, k = update(), 6  # 0.3 of 20
    v = flat(up)
    want = np.where(np.isin(np.arange(20), np.argsort(-np.abs(v))[:k]), v, 0)
    got, owed, size = sent(Compressed(TopK(0.3), None, True), up)
    np.testing.assert_array_equal(flat(got), want)
    np.testing.assert_array_equal(np.concatenate([x.reshape(-1) for x in owed.values()]), v - want)
    assert size == k * (4 + 1)


def test_what_is_owed_is_sent_later() -> None:
    """Everything that ever came in is either out or remembered."""
    codec, memory = Compressed(TopK(0.05), None, True), None
    total, out = np.zeros(20), np.zeros(20)
    for seed in range(30):
        up = update(seed, torch.float64)
        total += flat(up)
        got, memory, _ = sent(codec, up, memory)
        out += flat(got)
        assert np.count_nonzero(flat(got)) == 1
    owed = np.concatenate([x.reshape(-1) for x in memory.values()])
    np.testing.assert_allclose(out + owed, total, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_random_rounding_has_no_bias_in_any_precision(dtype: torch.dtype) -> None:
    """The mean of many messages is the update, to a twentieth of the step between two bytes.

    In 16 bits the steps cannot be counted in the update's own precision, and a scale that was
    rounded down would cut off the largest numbers.
    """
    v = torch.linspace(-0.77, 0.77, 41, dtype=torch.float64).to(dtype)
    keys = rng.fold_in(KEY, torch.arange(4000))
    wires = vmap(lambda key: EightBit().write(v, key))(keys)
    assert wires.scale.dtype == dtype
    step = float(wires.scale[0])
    mean = wires.numbers.double().mean(0) * step
    assert float((mean - v.double()).abs().max()) < step / 20
    steps = wires.numbers.double() - v.double() / step
    assert float(steps.abs().max()) < 1


def test_both_at_once() -> None:
    """Four entries as bytes with one scale; one memory for all that was lost."""
    up, codec = update(dtype=torch.float64), Compressed(TopK(0.2), EightBit("nearest"), True)
    got, owed, size = sent(codec, up)
    assert size == 4 * (1 + 1) + 8
    assert np.count_nonzero(flat(got)) == 4
    lost = np.concatenate([x.reshape(-1) for x in owed.values()])
    np.testing.assert_allclose(flat(got) + lost, flat(up), atol=1e-12)


@pytest.mark.parametrize("feedback", [True, False])
def test_all_entries_is_no_compression(feedback: bool) -> None:
    """To the last bit, and to the last byte."""
    up = update()
    got, owed, size = sent(Compressed(TopK(1.0), None, feedback), up)
    assert same(got, up)
    assert size == tree.size_bytes(up)
    assert all(float(x.abs().max()) == 0 for x in owed.values())


def test_fields_are_vectors_of_their_own() -> None:
    """A change of control variates a thousand times as long takes no place from the model's."""
    a, b = update(1).delta, tree.scale(1000.0, update(2).delta)
    got, _, size = sent(Compressed(TopK(0.1), None, True), Two(a, b))
    assert [np.count_nonzero(flat(Up(part))) for part in got] == [2, 2]
    assert size == 2 * 2 * (4 + 1)


def test_running_statistics_and_counts_travel_as_they_are() -> None:
    up = Up({**update().delta, "n": torch.tensor(7), "1.running_var": torch.ones(3)})
    codec = Compressed(TopK(0.05), Sign(), True, ("1.running_var",))
    got, owed, size = sent(codec, up)
    assert torch.equal(got.delta["1.running_var"], torch.ones(3))
    assert int(got.delta["n"]) == 7
    assert list(owed) == [f".delta['{k}']" for k in "abc"]
    assert size == 3 * 4 + 8 + (1 + 1 + 4)


CODECS = [
    Compressed(TopK(0.2), None, True),
    Compressed(TopK(0.2, "golomb"), Sign(), True),
    Compressed(RandomMask(0.2), EightBit(), False),
    Compressed(None, EightBit(), True),
    Compressed(None, Sign(), True),
]


@pytest.mark.parametrize("codec", CODECS)
def test_one_and_many(codec: Compressed) -> None:
    """Alone and in a stack: the same wire, the same bytes, the same memory."""
    ups = [update(i) for i in range(4)]
    keys = rng.fold_in(KEY, torch.arange(4))
    alone = [codec.encode(up, codec.init(up), key) for up, key in zip(ups, keys, strict=True)]
    stacked = vmap(lambda up, key: codec.encode(up, codec.init(up), key))(tree.stack(ups), keys)
    assert same(stacked, tree.stack(alone))
    assert channel.sizes(stacked[0], 4).tolist() == [channel.size_bytes(w) for w, _ in alone]
    assert same(vmap(codec.decode)(stacked[0]), tree.stack([codec.decode(w) for w, _ in alone]))


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_not_finite_stays_so(codec: Compressed) -> None:
    """So that the server refuses it."""
    up = update()
    for bad in (torch.nan, torch.inf):
        up.delta["a"][1, 1] = bad
        masked = isinstance(codec.select, RandomMask)
        got, _, _ = sent(codec, up)
        assert masked or not np.isfinite(flat(got)).all()


@pytest.mark.parametrize("codec", CODECS)
def test_zero_stays_zero(codec: Compressed) -> None:
    got, _, _ = sent(codec, tree.zeros(update()))
    assert not flat(got).any()


@pytest.mark.parametrize("values", [None, Sign(), EightBit(), EightBit("nearest")], ids=str)
@pytest.mark.parametrize("select", [None, TopK(0.5), TopK(0.5, "golomb"), RandomMask(0.5)], ids=str)
@pytest.mark.parametrize("shapes", [{"a": (0,), "b": (3,)}, {"a": (0, 4)}, {"a": ()}, {"a": (1,)}])
def test_leaves_of_one_number_or_none(select: Any, values: Any, shapes: dict[str, Any]) -> None:
    """A single number travels whole, give or take a rounding; nothing of nothing does."""
    codec = Compressed(select, values, feedback=True)
    up = Up({k: torch.full(shape, -2.5) for k, shape in shapes.items()})
    memory = codec.init(up)
    got, after, _ = sent(codec, up, memory)
    many, _ = vmap(lambda m, u: codec.encode(u, m, KEY))(*(_twice(t) for t in (memory, up)))
    for name, x in up.delta.items():
        assert got.delta[name].shape == x.shape
        assert torch.equal(torch.func.vmap(codec.decode)(many).delta[name][1], got.delta[name])
        if x.numel() == 1 and len(shapes) == 1:
            torch.testing.assert_close(got.delta[name], x)
            assert not sum(float(rest.abs().sum()) for rest in after.values())


def _twice(t: Any) -> Any:
    return tree.map(lambda x: torch.stack([x, x]), t)


def test_a_template_has_the_form_of_a_message() -> None:
    """Declared before anybody trained."""
    for codec in CODECS:
        wire = codec.encode(update(1), codec.init(update()), KEY)[0]
        like = channel.wire_like((codec,), update(2))
        shapes = [tree.map(lambda x: (x.shape, x.dtype), w) for w in (wire, like)]
        assert shapes[0] == shapes[1]


def test_the_order_of_methods_is_of_no_account() -> None:
    one = Compression().choosing(TopK(0.1), True).writing(EightBit(), False)
    assert one == Compression().writing(EightBit(), False).choosing(TopK(0.1), True)
    assert one.codecs(()) == (Compressed(TopK(0.1), EightBit(), True),)
    assert Compression().codecs(()) == ()


@pytest.mark.parametrize("direction", ["up", "down"])
def test_what_a_clock_plans_with_does_not_hang_on_the_model(direction: str) -> None:
    """A code for places is shorter for some models; a resumed run begins with another one."""
    stc = {"name": "stc", "share": 0.05, "direction": direction}
    clock = {"kind": "simulated"}
    made = experiment(parse({"rounds": 1, "data": "digits", "method": stc, "clock": clock}))
    algorithm, found = made.recipe.algorithm, set()
    for k in range(5):
        w = tree.map(lambda x, k=k: x + k * rng.normal(rng.key(k), *x.shape), made.simulation.w)
        down = algorithm.broadcast(algorithm.server_init(w, rng.key(0)))
        members = made.recipe.channel or made.recipe.download
        real = channel.size_bytes(channel.wire_like(members, down))
        timing = Timing(made.recipe, made.simulation, range(1), 0)
        found.add((real, *timing._bytes(tree.map(lambda x: x[None], down))))
    assert len({real for real, *_ in found}) > 1
    ((down, up),) = {tuple(planned) for _, *planned in found}
    planned = up if direction == "up" else down
    assert all(abs(real - planned) < 0.05 * real for real, *_ in found)
