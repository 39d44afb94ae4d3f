"""New clients after some local steps: what a client that joins at the end gains from a little work.

A new client downloads, takes k steps of the method's own client half on its own training rows, and
tests the result on its test rows; nothing is sent. A part of the model that never travels
(LG-FedAvg's body) begins as the mean of those of the training clients, which only a simulation can
compute; docs/explanation-evaluation.md says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.engine.client.round import Call, Keys, Own, round_of
from unalike.engine.evaluation.judging import outputs
from unalike.federation.data import ADAPT, TEST, Federation
from unalike.parts.mixing.examples import ByExamples
from unalike.recipe import Kept, Recipe
from unalike.tasks import Judged
from unalike.tree import Params, Tree


class Newcomers:
    """The held-out clients of a federation, which join after the last round."""

    def __init__(
        self,
        recipe: Recipe,
        federation: Federation,
        x: Tensor,
        y: Tensor,
        noise: Tensor,
        keys: Keys,
        steps: Sequence[int],
        each: Callable[[Callable[[int], Any], list[int]], list[Any]],
    ) -> None:
        """``noise`` is what judging draws for each row; ``each`` is a function of every item."""
        # Nothing is sent, so nothing is encoded, and no rule for weights asks for a loss.
        self.recipe = replace(recipe, channel=(), mixing=ByExamples())
        self.federation, self.x, self.y, self.noise = federation, x, y, noise
        self.keys, self.steps, self.each = keys, steps, each
        self.learn, self.test = federation.rows(ADAPT), federation.rows(TEST)

    def evaluate(self, t: int, downs: Tree, models: Sequence[Params]) -> dict[str, Judged]:
        """Sections new@k: every new client after k steps that it takes in round ``t``."""
        first, task = self.federation.n_clients, self.recipe.algorithm.task
        clients = range(first, first + self.federation.n_new)
        sizes = torch.tensor([len(self.test.of(i)) for i in clients])
        rows = torch.cat([self.test.of(i) for i in clients]).to(self.x.device)
        owner = torch.arange(len(sizes)).repeat_interleave(sizes)
        servers = int(self.recipe.topology.home(first).max()) + 1

        def said(i: int, k: int) -> Tensor | None:
            server, at = i % servers, self.test.of(i).to(self.x.device)
            w = self.adapted(t, i, k, tree.row(downs, server), models[server % len(models)])
            return None if w is None else outputs(task, w, self.x[at], self.noise[at])

        found = {}
        for k in self.steps:
            out = self.each(lambda i, k=k: said(i, k), list(clients))  # type: ignore[misc]
            if all(o is not None for o in out):
                judged = task.judge(torch.cat(out), self.y[rows], owner, len(sizes))
                found[f"new@{k}"] = judged
        return found

    def adapted(self, t: int, i: int, k: int, down: Any, w: Params) -> Params | None:
        """The model of new client ``i`` after ``k`` steps; None where it has none of its own."""
        algorithm, order = self.recipe.algorithm, self.learn.of(i).to(self.x.device)
        mine = algorithm.client_init(w, rng.fold_in(self.keys.init, i))
        if not k or not len(order):
            return algorithm.personal(down, mine)
        own = Own(i, self.x, self.y, order, torch.zeros_like(order, dtype=torch.bool), len(order))
        epochs = passes(k, len(order), self.recipe.batch_size)
        call = Call(t, 0, True, epochs)
        reply = round_of(self.recipe, own, call, down, Kept(mine, ()), self.keys)
        delta = getattr(reply.wire, "delta", None)
        return algorithm.personal(_moved(down, delta) if delta else down, reply.kept.mine)


def passes(steps: int, size: int, batch_size: int) -> float:
    """The epochs, whole ones and a share, that are so many minibatches of a client.

    >>> passes(3, 10, 4), passes(4, 10, 4), passes(1, 10, 32)
    (1.0, 1.4, 1.0)
    """
    whole, rest = divmod(steps, -(-size // batch_size))
    return whole + min(rest * batch_size, size) / size


def _moved(down: Any, delta: Params) -> Any:
    """The download with its model moved by what the client would have sent."""
    if "x" in down._fields:
        return down._replace(x=tree.add(down.x, delta))
    return down._replace(base=_moved(down.base, delta))
