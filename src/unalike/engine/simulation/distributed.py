"""A simulation whose clients are shared among several processes in every round.

Every process holds the same servers and the same client states: after a round it knows what all
clients answered. If the server needs only a sum and uploads are large, they stay in the process
that computed them, and the round costs one all-reduce of a single upload.
"""

import json
from collections.abc import Iterator
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from unalike import rng, tree
from unalike.engine.server.gather import lengths
from unalike.engine.server.summable import needs_more
from unalike.engine.simulation.ranks import Ranks
from unalike.engine.simulation.simulate import Simulation
from unalike.engine.traffic.messages import messages_of
from unalike.engine.transport import Opening, Replies, Sums, Through, Work
from unalike.errors import RunError
from unalike.packed import owned
from unalike.parts.mixing.base import Proportional
from unalike.parts.participation.schedule import Plan
from unalike.recipe import Recipe
from unalike.tree import Params, Tree

LARGE = 1 << 20  # bytes of an upload from which on a sum is made where the uploads are


class Distributed(Through):
    """The share of one process, and what all others send about theirs."""

    inner: Simulation

    def __init__(self, inner: Simulation, ranks: Ranks, sums: bool = True) -> None:
        """``sums`` may be made unless something in between changes single uploads."""
        super().__init__(inner)
        self.ranks, self.may_sum = ranks, sums
        self._sums = self._summed(inner.recipe, inner.w)

    @property
    def sums(self) -> Sums | None:
        """What adds uploads up where they are, if that is enough."""
        return self._sums

    def begin(self, opening: Opening) -> None:
        """As the inner transport."""
        self.inner.begin(opening)
        self._sums = self._summed(opening.recipe, opening.w)

    def _summed(self, recipe: Recipe, w: Params) -> "Reduced | None":
        home, key = recipe.topology.home(self.clients.n), rng.key(0)
        plain = self.may_sum and not recipe.channel and isinstance(recipe.mixing, Proportional)
        if not plain or int(home.max()) > 0 or needs_more(recipe, w, key):
            return None
        algorithm = recipe.algorithm
        like = algorithm.upload_like(algorithm.broadcast(algorithm.server_init(w, key)))
        size = tree.size_bytes(like)
        return Reduced(self.ranks, like, size) if size >= LARGE else None

    def train(self, t: int, plan: Plan, downs: Tree, home: Tensor) -> Iterator[Replies]:
        """Run this process's share of the planned clients; the others' answers come with them."""
        share = plan.ids % self.ranks.size == self.ranks.rank
        mine = Plan(*(field[share] for field in plan))
        said, note, failed = dict[str, Tensor](), dict[str, Any](), None
        try:
            parts = list(self.inner.train(t, mine, downs, home))
            said, note = self._said(mine.ids, parts)
        except Exception as error:  # all processes must learn of it before this one ends
            failed, note = error, {"failed": str(error) or type(error).__name__}
        raw = self.ranks.exchange(save(said, {"note": json.dumps(note)}))
        if failed is not None:
            raise failed
        heard = [_opened(some) for some in raw]
        for rank, (_, other) in enumerate(heard):
            if "failed" in other:
                raise RunError(f"process {rank} of this run stopped: {other['failed']}")
        for rank, (tensors, other) in enumerate(heard):
            if rank != self.ranks.rank and len(tensors["trained"]):
                self.inner.states.put(tensors["trained"], self._read(tensors, "kept", self._kept))
            ids, work = tensors["ids"], Work(*other["work"])
            wire = self._read(tensors, "wire", self._wire) if len(ids) else ()
            stats = {k[6:]: v for k, v in tensors.items() if k.startswith("stats:")}
            yield Replies(ids, wire, stats, work)

    def _said(self, trained: Tensor, parts: list[Replies]) -> tuple[dict[str, Tensor], Any]:
        """What all others need of this process's clients."""
        work = sum((part.work for part in parts), Work())
        some = [part for part in parts if len(part.ids)]
        said = {"ids": trained[:0], "trained": trained}
        if len(trained) and tree.leaves(self._kept):
            said |= _written("kept", self.inner.states.get(trained))
        else:
            said["trained"] = trained[:0]
        if some:
            said["ids"] = torch.cat([part.ids for part in some])
            stats = {k: torch.cat([part.stats[k] for part in some]) for k in some[0].stats}
            wire = tree.map(lambda *xs: torch.cat(xs), *(part.wire for part in some))
            if self._sums is None:
                said |= _written("wire", wire)
            else:
                stats["norm"] = lengths(wire, len(said["ids"]))
                self._sums.held = said["ids"], wire
            said |= {f"stats:{k}": v.cpu().contiguous() for k, v in stats.items()}
        elif self._sums is not None:
            self._sums.held = said["ids"], ()
        return said, {"work": list(work)}

    def _read(self, tensors: dict[str, Tensor], what: str, like: Tree) -> Tree:
        cut, device = len(what) + 1, self.inner.device
        own = {k[cut:]: v.to(device) for k, v in tensors.items() if k.startswith(f"{what}:")}
        return tree.restore(own, like)

    @property
    def _kept(self) -> Tree:
        """The form of what clients keep."""
        return self.inner.states.get(torch.zeros(1, dtype=torch.long))

    @property
    def _wire(self) -> Tree:
        """The form of what travels; nothing where sums do."""
        recipe = self.inner.recipe
        return () if self._sums else messages_of(recipe, self.inner.w, rng.key(0)).wire


class Reduced:
    """Sums of uploads that lie in several processes: one all-reduce."""

    fewest = 1

    def __init__(self, ranks: Ranks, like: Tree, size: int) -> None:
        """``like`` is one upload, of ``size`` bytes."""
        self.ranks, self.like, self.bytes = ranks, like, size
        self.held: tuple[Tensor, Tree] = torch.zeros(0, dtype=torch.long), ()

    def total(self, ids: Tensor, p: Tensor) -> Tree:
        """The weighted sum of all processes' uploads."""
        here, ups = self.held
        counts = dict(zip(ids.tolist(), p.tolist(), strict=True))
        wanted = torch.isin(here, ids)  # one that was refused may contain anything
        part = tree.map(torch.zeros_like, self.like)
        if bool(wanted.any()):
            u = torch.tensor([counts[i] for i in here[wanted].tolist()], dtype=torch.float64)
            some = tree.row(ups, wanted)
            part = tree.mean(u, some)
        return self.ranks.sum(part)


def _written(what: str, stacked: Tree) -> dict[str, Tensor]:
    flat = tree.named(stacked)
    return {f"{what}:{path}": x.detach().cpu().contiguous() for path, x in flat.items()}


def _opened(raw: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors, note) of a message."""
    size = int.from_bytes(raw[:8], "little")
    note = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["note"])
    return owned(load(raw)), note
