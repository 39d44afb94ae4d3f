"""Compressed downloads: what clients have received so far, and what the next message costs.

The server knows the model y that its messages add up to, and sends what is missing (as STC does;
Sattler et al. 2019, and Tang et al. 2019, DoubleSqueeze):

message: C(x - y);   y <- y + C(x - y);   clients train from y

What a message leaves out is part of the next difference, so no error is ever forgotten. A client
that was absent is sent all messages it missed, or all of y if that is shorter, as in the first
round.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import vmap

from unalike import channel, rng, tree
from unalike.channel import Channel
from unalike.recipe import Recipe
from unalike.rng import Key, Stream
from unalike.tree import Tree

NEVER = -1


class Heard(NamedTuple):
    """What servers have sent so far; a part of their state."""

    told: Tree = ()  # y, stacked over the servers
    sent: Tensor | tuple[()] = ()  # [K] the bytes of all messages
    until: Tensor | tuple[()] = ()  # [n] how many of them each client has got; -1: none


def blank(recipe: Recipe, downs: Tree, n: int) -> Heard:
    """Before the first round: only servers know the first download."""
    if not recipe.download:
        return Heard()
    k = len(tree.leaves(downs)[0])
    return Heard(downs, torch.zeros(k, dtype=torch.int64), torch.full((n,), NEVER))


def told(
    recipe: Recipe, heard: Heard, downs: Tree, key: Key, ids: Tensor, home: Tensor
) -> tuple[Tree, Heard, int | Tensor]:
    """(the downloads as clients get them, what has been told so far, the bytes it took).

    They go to the clients ``ids``; bytes are the same for everybody, or of each.
    """
    servers = len(tree.leaves(downs)[0]) if tree.leaves(downs) else 1
    whole = tree.size_bytes(downs) // servers
    if not (isinstance(heard.sent, Tensor) and isinstance(heard.until, Tensor)):
        return downs, heard, whole
    missing = tree.sub(downs, heard.told)
    keys = rng.fold_in(rng.fold_in(key, Stream.DOWNLOAD), torch.arange(servers))
    wires, read = vmap(partial(_message, recipe.download))(missing, keys.to(_device(downs)))
    now = tree.add(heard.told, read)
    sent = heard.sent + channel.sizes(wires, servers)
    before, mine = heard.until[ids], sent[home[ids]]
    bytes = torch.where(before == NEVER, whole, (mine - before).clamp(max=whole))
    return now, Heard(now, sent, heard.until.index_put((ids,), mine)), bytes


def _message(members: Channel, missing: Tree, key: Key) -> tuple[Tree, Tree]:
    """(one server's message, what clients read in it)."""
    memory, keys = channel.begin(members, missing), channel.keys(members, key)
    wire, _ = channel.encode(members, missing, memory, keys)
    return wire, channel.decode(members, wire)


def _device(downs: Tree) -> torch.device:
    return tree.leaves(downs)[0].device


def usual(recipe: Recipe, down: Tree, gap: float | None) -> int:
    """About what a client downloads that takes part every ``gap`` rounds, or for the first time."""
    whole = tree.size_bytes(down)
    if not recipe.download or gap is None:
        return whole
    return min(whole, round(gap * channel.usual_bytes(recipe.download, down)))
