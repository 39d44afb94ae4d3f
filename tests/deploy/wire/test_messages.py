"""Messages: whatever bytes come, the answer is a message or one sentence, in bounded memory."""

import hashlib
import math
import random
import resource
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load

from unalike import channel
from unalike.channel import Ragged
from unalike.deploy.wire.frames import CHUNK, HEAD, MAGIC, START, decode, encode, pack, read
from unalike.deploy.wire.messages import Damaged, MessageError, fitted, message, numbers

W = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.zeros(2)}


def test_a_message_arrives_as_it_was_sent() -> None:
    sent = message("train", "run", 3, "coordinator", W, {"round": 2, "epochs": 0.5})
    got = decode(encode(sent))
    assert got.head == sent.head
    back = fitted(got.tensors, W, "a model")
    assert all(torch.equal(a, b) for a, b in zip(W.values(), back.values(), strict=True))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"weight": W["weight"]}, "'.'bias'.' is missing"),
        ({**W, "more": torch.zeros(1)}, "'.'more'.' is not among them"),
        ({**W, "bias": torch.zeros(1, 2)}, r"float32 of shape \(1, 2\); the recipe declares"),
        ({**W, "bias": torch.zeros(2, dtype=torch.float64)}, "float64 of shape"),
        ({**W, "bias": torch.tensor([0.0, torch.nan])}, "not finite"),
        ({**W, "bias": torch.tensor([0.0, torch.inf])}, "not finite"),
    ],
)
def test_an_upload_that_is_not_what_was_declared(wrong: dict[str, torch.Tensor], says: str) -> None:
    got = decode(encode(message("answer", "run", 1, "north", wrong)))
    with pytest.raises(MessageError, match=says):
        fitted(got.tensors, W, "an upload")


def ragged(used: int) -> dict[str, Any]:
    """A code of which only some bytes are used."""
    data = torch.arange(1, 9, dtype=torch.uint8) * (torch.arange(8) < used)
    return {"w": W["bias"], "code": Ragged(data, torch.tensor(used))}


@pytest.mark.parametrize("used", [0, 3, 8])
def test_of_a_code_only_what_is_used_travels(used: int) -> None:
    sent, like = ragged(used), ragged(8)
    m = message("answer", "run", 1, "north", sent)
    counted = channel.size_bytes(sent)
    assert sum(x.numel() * x.element_size() for x in m.tensors.values()) == counted == 8 + used
    back = fitted(decode(encode(m)).tensors, like, "an upload")
    assert torch.equal(back["code"].data, sent["code"].data)
    assert int(back["code"].used) == used


def test_a_code_that_is_too_long_is_refused() -> None:
    long = {"w": W["bias"], "code": torch.zeros(9, dtype=torch.uint8)}
    got = decode(encode(message("answer", "run", 1, "north", long)))
    with pytest.raises(MessageError, match="at most 8 bytes"):
        fitted(got.tensors, ragged(8), "an upload")


@pytest.mark.parametrize("value", ["1", None, True, float("nan"), float("inf"), [1.0], {}])
def test_statistics_are_finite_numbers(value: object) -> None:
    with pytest.raises(MessageError, match="'steps', which is not a finite number"):
        numbers({"examples": 3, "steps": value}, "statistics")


def test_more_than_the_limit_is_not_read() -> None:
    raw = encode(message("answer", "run", 1, "north", {"x": torch.zeros(1000)}))
    with pytest.raises(MessageError, match="over the limit of 1000"):
        decode(raw, 1000)


def _mutated(rng: random.Random, raw: bytes) -> bytes:
    """Bytes changed, cut off, doubled or made up."""
    kind = rng.randrange(5)
    b = bytearray(raw)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        return raw[: rng.randrange(len(raw))]
    if kind == 2:
        at = rng.randrange(len(raw))
        return raw[:at] + rng.randbytes(rng.randrange(1, 20)) + raw[at:]
    if kind == 3:  # lengths that lie
        start = START - 4 if rng.random() < 0.5 else raw.index(b"{", len(MAGIC)) + 40
        b[start : start + 8] = rng.randbytes(8)
        return bytes(b)
    for _ in range(rng.randrange(1, 6)):
        b[rng.randrange(len(b))] ^= 1 << rng.randrange(8)
    return bytes(b)


def _summed(raw: bytes) -> bytes:
    """With the right checksums, so that what is behind them is tried, too."""
    begin = START + int.from_bytes(raw[START - 4 : START], "big") + 8
    end = begin + int.from_bytes(raw[begin - 8 : begin], "little")
    rest = hashlib.sha256(raw[end:]).digest() + raw[START - 4 : end]
    return raw[: len(MAGIC)] + zlib.crc32(rest).to_bytes(4, "big") + rest + raw[end:]


def bounded(monkeypatch: pytest.MonkeyPatch, limit: int) -> list[int]:
    """From now on no tensor is made of more bytes; those of all that were, in a list."""
    make, made = torch.empty, [0]

    def empty(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
        made.append(math.prod(shape) * dtype.itemsize)
        assert made[-1] <= limit, "more than the limit was asked for"
        return make(shape, dtype=dtype)

    monkeypatch.setattr(torch, "empty", empty)
    return made


def _fuzz(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, said = random.Random(0), set[int]()
    limit = 1 << 16
    made = bounded(monkeypatch, limit)
    raws = [
        encode(message("answer", "run", 1, "north", W, {"stats": {"examples": 3.0}})),
        encode(message("hello", "", 0, "north", note={"rows": 3})),
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(times):
        try:
            bad = _mutated(rng, rng.choice(raws))
            got = decode(bad if rng.random() < 0.2 else _summed(bad), limit)
            fitted(got.tensors, W, "an upload")
        except MessageError as error:
            said.add(str(error).count("\n"))
    assert said == {0}
    assert max(made) > 0, "no message got as far as its tensors"
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 64 << 10  # KiB


def test_a_hundred_thousand_made_up_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    _fuzz(100_000, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_million_made_up_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    _fuzz(1_000_000, monkeypatch)


def test_a_head_that_is_over_the_limit_is_not_read() -> None:
    raw = bytearray(encode(message("answer", "run", 1, "north")))
    raw[START - 4 : START] = (HEAD - 1).to_bytes(4, "big")
    with pytest.raises(MessageError, match="over the limit of 4096"):
        decode(bytes(raw), 4096)


def test_no_tensor_is_made_of_more_than_the_message_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that declares a tensor of a terabyte allocates nothing."""
    bounded(monkeypatch, 1 << 16)
    head = b'{"x":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,4000000000000]}}'
    body = len(head).to_bytes(8, "little") + head + np.zeros(4, "f4").tobytes()
    raw = encode(message("answer", "run", 1, "north"))
    length = int.from_bytes(raw[START - 4 : START], "big")
    with pytest.raises(MessageError, match="over the limit"):
        decode(_summed(raw[: START + length] + body))


def test_a_message_is_read_as_it_comes() -> None:
    """Whatever the pieces are, nothing is held but the tensors themselves."""
    x = {"a": torch.arange(3 * CHUNK // 4, dtype=torch.float32), "b": torch.tensor(True)}
    parcel = pack(message("answer", "run", 1, "north", x))
    pieces = list(parcel.pieces())
    assert sum(map(len, pieces)) == parcel.size
    assert max(map(len, pieces)) <= CHUNK
    whole = b"".join(pieces)
    for step in (1 << 10, 999_983, len(whole)):
        arrived = read(whole[i : i + step] for i in range(0, len(whole), step))
        assert (arrived.size, arrived.sha256) == (parcel.size, parcel.sha256)
        assert torch.equal(arrived.message.tensors["['a']"], x["a"])
    assert any(part.obj is not None for part in parcel.parts if isinstance(part, memoryview))
    for end in (3, START, START + 10, len(whole) - 1):
        with pytest.raises(Damaged):
            decode(whole[:end])
    with pytest.raises(Damaged):
        decode(whole + b"x")


def test_a_body_is_a_safetensors_file() -> None:
    raw = encode(message("answer", "run", 1, "north", W))
    start = START + int.from_bytes(raw[START - 4 : START], "big")
    assert torch.equal(load(raw[start:])["['weight']"], W["weight"])


def test_a_head_that_nobody_would_read_is_not_sent() -> None:
    with pytest.raises(MessageError, match="head of more than"):
        pack(message("answer", "run", 1, "north", note={"x": "y" * HEAD}))


def test_truth_values_are_true_or_false() -> None:
    raw = bytearray(encode(message("answer", "run", 1, "north", {"x": torch.tensor([True])})))
    raw[-1] = 7
    with pytest.raises(MessageError, match="neither true nor false"):
        decode(_summed(bytes(raw)))


def test_a_single_flipped_bit_shows() -> None:
    raw = encode(message("answer", "run", 1, "north", W))
    for at in range(len(raw)):
        bad = bytearray(raw)
        bad[at] ^= 1 << at % 8
        with pytest.raises(Damaged):
            decode(bytes(bad))
