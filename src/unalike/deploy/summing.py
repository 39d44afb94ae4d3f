"""The coordinator's part in secure aggregation: sums of updates, and never a single one."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from unalike import tree
from unalike.deploy import masks
from unalike.deploy.messages import Message, MessageError, fitted
from unalike.deploy.sealing import Proof, Proposal, told
from unalike.engine.loop import Loop
from unalike.engine.server.summable import needs_more
from unalike.errors import ConfigError
from unalike.recipe import Recipe
from unalike.tree import Params, Tree
from unalike.uploads import Gone

LARGEST = 200  # exponents beyond it are of no 32-bit number


class Asking(Protocol):
    """Asks sites, by their numbers, and checks their answers."""

    run: str
    names: tuple[str, ...]
    round: int

    def ask(
        self,
        kind: str,
        notes: Mapping[int, Mapping[str, Any]],
        tensors: Mapping[int, Tree] = {},
        check: Callable[[Message, Mapping[str, Any]], object] = ...,
    ) -> Iterator[tuple[int, Message]]:
        """Sound answers as they come."""
        ...


class Sums:
    """Asks sites for one sum of their updates in a round."""

    fewest = masks.FEWEST

    def __init__(self, remote: Asking) -> None:
        self.remote = remote
        self.proofs: dict[int, Proof] = {}
        self.exponents: dict[int, list[int]] = {}
        self.attempt = 0

    def begin(self, like: Tree) -> None:
        """A stage begins; ``like`` is the form of an upload."""
        self.like, self.exponents = like, {}
        self.size = sum(x.numel() for x in tree.leaves(like))
        self.bytes = 4 * self.size

    def met(self, i: int, m: Message) -> None:
        """A site's key."""
        try:
            self.proofs[i] = Proof.model_validate(m.note)
        except ValidationError:
            raise MessageError("the key of a site does not follow its schema.") from None

    def read(self, m: Message) -> list[int]:
        """The sizes that a site reports for its update."""
        found = m.note.get("exponents")
        whole = isinstance(found, list) and len(found) == len(tree.leaves(self.like))
        if not whole or not all(type(e) is int and abs(e) < LARGEST for e in found or ()):
            raise MessageError("the sizes of an update are malformed.")
        return list(found or ())

    def total(self, ids: Tensor, p: Tensor) -> Tree:
        """The sum over k of p_k times upload k; ``Gone`` names clients that did not take part."""
        numbers, weights = ids.tolist(), p.double().tolist()
        if not self.size:
            return self.like
        named = sorted(zip(numbers, weights, strict=True), key=lambda n: self.remote.names[n[0]])
        order, counts = [i for i, _ in named], [w for _, w in named]
        self.attempt += 1
        proposal = Proposal(
            round=self.remote.round,
            attempt=self.attempt,
            members=[self.remote.names[i] for i in order],
            weights=counts,
            steps=list(masks.steps_of(counts, [self.exponents[i] for i in order])),
            proofs=[self.proofs[i] for i in order],
        )
        vector = {"masked": torch.zeros(self.size, dtype=torch.int32)}
        asked = self._asked("mask", order, vector, {"proposal": told(proposal)})
        seeds = self._asked("unmask", order, {"own": torch.zeros(32, dtype=torch.uint8)})
        masked = {n: x.numpy().view(np.uint32) for n, x in asked.items()}
        own = {n: x.numpy().tobytes() for n, x in seeds.items()}
        return masks.opened(masked, own, proposal.deal(self.remote.run), self.like)

    def _asked(
        self, kind: str, order: list[int], like: dict[str, Tensor], tensors: Tree = ()
    ) -> dict[str, Tensor]:
        """What every member answers; without one of them there is no sum."""
        (name,) = like

        def check(m: Message, asked: Mapping[str, Any]) -> None:
            fitted(m.tensors, like, "a part of a sum")

        notes = {i: {"round": self.remote.round, "attempt": self.attempt} for i in order}
        told = dict.fromkeys(order, tensors)
        got = {i: m.tensors[f"['{name}']"] for i, m in self.remote.ask(kind, notes, told, check)}
        if missing := [i for i in order if i not in got]:
            # Whoever has opened this sum opens no other of the round.
            raise Gone(order if kind == "unmask" else missing)
        return {self.remote.names[i]: x for i, x in got.items()}


def refuse_single(recipe: Recipe, loop: Loop, w: Params) -> None:
    """Raise one sentence if a recipe needs more than a sum of updates."""
    why = _reason(recipe, loop, w)
    if why:
        raise ConfigError(
            f"deploy.secure_aggregation shows the coordinator only a sum of updates, and {why}; "
            "choose another method, or set it to false."
        )


def _reason(recipe: Recipe, loop: Loop, w: Params) -> str:
    plan = recipe.schedule.plan(loop.span.start, loop.span, loop.n, loop.cohorts)
    if why := needs_more(recipe, w, loop.noise):
        return why
    if int(plan.reply.sum()) < masks.FEWEST:
        return f"only {int(plan.reply.sum())} sites answer in the first round"
    return ""
