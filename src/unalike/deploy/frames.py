"""A message as bytes, sent and read in pieces: its tensors are never held twice.

    magic (8 bytes) | checksum of all from here to the tensors' bytes (4, big endian)
    | SHA-256 of the tensors' bytes (32) | length of the head (4) | head (JSON)
    | tensors (safetensors: length of their table, table, bytes)

Neither part can name a type, so nothing that is read can run. Sizes are compared with a limit
before anything is allocated, the head and the table with a schema, and tensors are read into their
own memory as they arrive. A damaged message can be distinguished from a wrong one, and is sent
again.
"""

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor

from unalike.deploy.messages import Damaged, Head, Message, MessageError
from unalike.packed import DTYPES, memory, parts, size

MAGIC = b"unalike\x03"
DIGEST = 32
START = len(MAGIC) + 4 + DIGEST + 4  # where the head begins
HEAD = 1 << 20  # bytes of the longest head, which may hold a whole configuration, and of a table
LIMIT = 2 << 30  # bytes of the longest message, unless the recipe's own are known
CHUNK = 1 << 20  # bytes of a piece


class Parcel(NamedTuple):
    """A message that is ready to be sent; its large parts are the tensors' own memory."""

    parts: tuple[bytes | memoryview, ...]
    size: int
    sha256: str  # of all before the tensors' bytes, whose own digest is in there

    def pieces(self) -> Iterator[bytes]:
        """Its bytes in order, a piece at a time."""
        held = bytearray()
        for part in self.parts:
            rest = memoryview(part)
            while len(rest):
                some = rest[: CHUNK - len(held)]
                rest = rest[len(some) :]
                if len(some) == CHUNK:
                    yield bytes(some)
                    continue
                held += some
                if len(held) == CHUNK:
                    yield bytes(held)
                    held = bytearray()
        if held:
            yield bytes(held)


class Arrived(NamedTuple):
    """A message after the first checks, and what an audit log says of its bytes."""

    message: Message
    size: int
    sha256: str


def pack(m: Message) -> Parcel:
    """A message as it travels."""
    head = m.head.model_dump_json().encode()
    table, *tensors = parts(m.tensors)
    if max(len(head), len(table)) > HEAD:
        raise MessageError(f"a message of kind '{m.kind}' has a head of more than {HEAD} bytes.")
    digest = hashlib.sha256()
    for x in tensors:
        digest.update(x)
    rest = b"".join([digest.digest(), len(head).to_bytes(4, "big"), head, table])
    start = MAGIC + _checksum(rest) + rest
    whole = len(start) + sum(map(len, tensors))
    return Parcel((start, *tensors), whole, hashlib.sha256(start).hexdigest())


def encode(m: Message) -> bytes:
    """The whole of a message at once."""
    return b"".join(pack(m).pieces())


def decode(raw: bytes, limit: int = LIMIT) -> Message:
    """A message from bytes of anybody's; MessageError if they are none."""
    return read([raw], limit).message


def opened(path: Path) -> Message:
    """A message from a file."""
    with path.open("rb") as f:
        return read(iter(lambda: f.read(CHUNK), b"")).message


def read(pieces: Iterable[bytes], limit: int = LIMIT) -> Arrived:
    """A message from pieces of anybody's; MessageError if they are none.

    Nothing is read or allocated beyond ``limit`` bytes.
    """
    source = _Source(pieces, limit)
    if source.take(len(MAGIC)) != MAGIC:
        raise Damaged("the bytes are not a message from this version of unalike.")
    checksum, told, counted = source.take(4), source.take(DIGEST), source.take(4)
    note = source.take(_length(counted, "big"))
    measured = source.take(8)
    table = source.take(_length(measured, "little"))
    rest = b"".join([told, counted, note, measured, table])
    if checksum != _checksum(rest):
        raise Damaged("a message was damaged in transit.")
    try:
        head = Head.model_validate_json(note)
    except (ValidationError, RecursionError, ValueError):
        raise MessageError("the head of a message does not follow its schema.") from None
    entries = _entries(table)
    end = START + len(note) + 8 + len(table) + sum(size(e.dtype, e.shape) for e in entries.values())
    if end > limit:
        raise MessageError(f"a message of {end} bytes is over the limit of {limit}.")
    tensors = _tensors(source, entries, told)
    start = hashlib.sha256(MAGIC + checksum + rest).hexdigest()
    return Arrived(Message(head, tensors), source.size, start)


class _Entry(BaseModel):
    """One tensor in the table of a safetensors file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dtype: Literal[tuple(DTYPES)]  # type: ignore[valid-type]
    shape: list[Annotated[int, Field(strict=True, ge=0, lt=1 << 48)]] = Field(max_length=32)
    data_offsets: tuple[int, int]


_TABLE = TypeAdapter(dict[str, _Entry])


def _entries(table: bytes) -> dict[str, _Entry]:
    """The tensors of a message, in the order of their bytes, which lie without a gap."""
    try:
        found = _TABLE.validate_json(table)
    except (ValidationError, RecursionError, ValueError):
        raise MessageError("the tensors of a message cannot be read.") from None
    ordered, at = dict(sorted(found.items(), key=lambda pair: pair[1].data_offsets)), 0
    for entry in ordered.values():
        end = at + size(entry.dtype, entry.shape)
        if entry.data_offsets != (at, end):
            raise MessageError("the tensors of a message cannot be read.")
        at = end
    return ordered


def _tensors(source: "_Source", entries: dict[str, _Entry], told: bytes) -> dict[str, Tensor]:
    """Each is made when its bytes come."""
    found, digest = dict[str, Tensor](), hashlib.sha256()
    for name, entry in entries.items():
        try:
            found[name] = torch.empty(entry.shape, dtype=DTYPES[entry.dtype])
        except RuntimeError:  # dimensions that nothing has, or no memory
            raise MessageError("the tensors of a message cannot be read.") from None
        source.into(memory(found[name]), digest)
    if source.more() or digest.digest() != told:
        raise Damaged("a message was damaged in transit.")
    for name, x in found.items():
        if x.dtype == torch.bool and bool((x.view(torch.uint8) > 1).any()):
            raise MessageError(
                f"a message holds values in '{name}' that are neither true nor false."
            )
    return found


class _Source:
    """Pieces of bytes, read in other lengths than they come in."""

    def __init__(self, pieces: Iterable[bytes], limit: int) -> None:
        self.size, self.limit = 0, limit
        self._pieces, self._rest = iter(pieces), memoryview(b"")

    def more(self) -> bool:
        """Whether there is a byte left."""
        while not len(self._rest):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self.size += len(piece)
            if self.size > self.limit:
                raise MessageError(f"a message is over the limit of {self.limit} bytes.")
            self._rest = memoryview(piece)
        return True

    def into(self, target: memoryview, digest: Any = None) -> None:
        """Fill some memory."""
        while len(target):
            if not self.more():
                raise Damaged("a message was cut off in transit.")
            some = self._rest[: len(target)]
            target[: len(some)] = some
            if digest is not None:
                digest.update(some)
            target, self._rest = target[len(some) :], self._rest[len(some) :]

    def take(self, n: int) -> bytes:
        """The next bytes."""
        if n > self.limit:
            raise MessageError(f"a message is over the limit of {self.limit} bytes.")
        held = bytearray(n)
        self.into(memoryview(held))
        return bytes(held)


def _length(raw: bytes, order: Literal["big", "little"]) -> int:
    found = int.from_bytes(raw, order)
    if found > HEAD:  # nobody sends it, so these are not the bytes that were sent
        raise Damaged("the head of a message is too long.")
    return found


def _checksum(raw: bytes) -> bytes:
    """Against damage, not against people: those are kept off by certificates."""
    return zlib.crc32(raw).to_bytes(4, "big")
