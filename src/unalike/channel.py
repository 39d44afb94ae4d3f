"""A channel with two ends: what a client does to its upload, and how a server reads it.

up -> encode -> wire -> decode -> up'. Clipping and noise change the numbers; compression changes
their form, too, and may remember what it left out. What is counted is the wire, as it travels.
"""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.rng import Key
from unalike.tree import Tree


class Ragged(NamedTuple):
    """Bytes of which only the first ``used`` travel: a code whose length depends on its message."""

    data: Tensor  # as many as any message may need
    used: Tensor


class Codec(Protocol):
    """One member of a channel; a client encodes in order, a server decodes in reverse."""

    def init(self, up: Tree) -> Any:
        """What a client remembers before its first upload, from one of the same shape."""
        ...

    def encode(self, up: Tree, memory: Any, key: Key) -> tuple[Tree, Any]:
        """(what travels, what to remember). Pure, and safe under vmap."""
        ...

    def decode(self, wire: Tree) -> Tree:
        """The upload as the server uses it. Pure, and safe under vmap."""
        ...


class InPlace:
    """A codec that changes numbers but not their form, and keeps no memory."""

    def init(self, up: Tree) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def decode(self, wire: Tree) -> Tree:
        """What travelled is what is used."""
        return wire


Channel = tuple[Codec, ...]


def begin(channel: Channel, up: Tree) -> tuple[Any, ...]:
    """The memory of every member, from an upload of the right shape."""
    memories = []
    for i, codec in enumerate(channel):
        memories.append(codec.init(up))
        if i + 1 < len(channel):  # the next member sees what this one sends
            up = wire_like(channel[: i + 1], up)
    return tuple(memories)


def keys(channel: Channel, key: Key) -> list[Key]:
    """One for each member; those that change the form draw the same in any order."""
    found, plain, forms = list[Key](), 0, 0
    for codec in channel:
        if isinstance(codec, InPlace):
            found.append(rng.fold_in(key, plain) if plain else key)
            plain += 1
        else:
            forms += 1
            found.append(rng.fold_in(key, -forms))
    return found


def encode(
    channel: Channel, up: Tree, memory: tuple[Any, ...], keys: list[Key]
) -> tuple[Tree, tuple[Any, ...]]:
    """(what travels, the next memory)."""
    after = []
    for codec, held, key in zip(channel, memory, keys, strict=True):
        up, kept = codec.encode(up, held, key)
        after.append(kept)
    return up, tuple(after)


def decode(channel: Channel, wire: Tree) -> Tree:
    """The upload that a server uses."""
    for codec in reversed(channel):
        wire = codec.decode(wire)
    return wire


def wire_like(channel: Channel, up: Tree) -> Tree:
    """A tree of the form that travels, from an upload of the right shape."""
    here = next((x.device for x in tree.leaves(up)), None)  # positions are drawn where the key is
    keys = [torch.zeros((), dtype=torch.int64, device=here)] * len(channel)
    return encode(channel, up, begin(channel, up), keys)[0]


def usual_bytes(channel: Channel, up: Tree) -> int:
    """What an upload of this form usually takes, whatever the numbers in ``up`` are.

    A code may be shorter for some numbers than for others; here they are drawn, so that what is
    planned with is the same before a run and in the middle of it.
    """

    def drawn(x: Tensor) -> Tensor:
        return rng.uniform(rng.key(0), x.numel()).reshape(x.shape).to(x)

    return size_bytes(wire_like(channel, tree.map(drawn, up)) if channel else up)


def sizes(wire: Tree, n: int) -> Tensor:
    """[n] the bytes of each of ``n`` stacked messages, as they travel."""
    parts = tree.leaves(wire, lambda x: isinstance(x, Ragged))
    total = torch.zeros(n, dtype=torch.int64)
    for part in parts:
        if isinstance(part, Ragged):
            total += part.used.cpu()
        else:
            total += part.numel() // n * part.element_size()
    return total


def size_bytes(wire: Tree) -> int:
    """The bytes of one message."""
    return int(sizes(tree.map(lambda x: x[None], wire), 1))
