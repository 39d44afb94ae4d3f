"""A generator that is trained by FedAvg; a classifier that has seen its examples alone judges it.

w <- w + sum_k p_k (w_k - w),   w_k after fitting the generator to client k's data
the classifier is trained outside the rounds, on ``per_class`` drawn examples of each class
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.algorithm import Ctx, Stateless
from unalike.algorithms.draft import Draft
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.parts.generators import Generator
from unalike.parts.synthetic import Synthetic, outside, trained_on
from unalike.rng import Key
from unalike.tasks import MultiClass
from unalike.tree import Params
from unalike.uploads import Uploads


class Server(NamedTuple):
    """The generator, and where the examples that judge it are drawn from."""

    x: Params
    seed: Tensor


class Down(NamedTuple):
    """The generator."""

    x: Params


class Up(NamedTuple):
    """Its change."""

    delta: Params


@dataclass(frozen=True)
class Generated(Stateless):
    """FedAvg of a generator; ``task`` is the classifier of what it draws."""

    task: MultiClass
    generator: Generator
    classes: int
    per_class: int = 10
    judge_epochs: int = 100

    @property
    def separable(self) -> bool:
        """A mean of changes."""
        return True

    @property
    def personal_models(self) -> bool:
        """All are judged by one classifier."""
        return False

    def server_init(self, w: Params, key: Key) -> Server:
        """A generator of the type of the classifier's weights."""
        fresh, like = self.generator.init(key), next(iter(w.values()))
        return Server({k: v.to(like.dtype) for k, v in fresh.items()}, rng.fold_in(key, 1))

    def broadcast(self, server: Server) -> Down:
        """The generator alone."""
        return Down(server.x)

    def client(
        self, down: Down, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Any]:
        """Fit the received generator."""
        w = self.generator.fit(down.x if start is None else start, data, ctx.rate)
        return Up(tree.sub(w, down.x)), {}, mine

    def upload_like(self, down: Down) -> Up:
        """As large as the generator."""
        return Up(down.x)

    def server(self, server: Server, ups: Uploads, p: Tensor, cohort: Cohort) -> Server:
        """The mean change."""
        return server._replace(x=tree.add(server.x, ups.mean(p).delta))

    def personal(self, down: Down, mine: Any) -> Params | None:
        """Nothing but the classifier of ``model``."""
        return None

    def synthetic(self, server: Server) -> Synthetic:
        """Equally many examples of each class, always of the same noise."""
        y = torch.arange(self.classes, device=server.seed.device).repeat_interleave(self.per_class)
        return Synthetic(self.generator.draw(server.x, y, server.seed), y)

    def model(self, server: Server, key: Key) -> Params | None:
        """A fresh classifier trained on drawn examples, outside the round."""
        made = self.synthetic(server)
        return trained_on(self.task, made.x, made.y, self.judge_epochs, key)

    def products(self, server: Server) -> dict[str, dict[str, Tensor]]:
        """Drawn examples."""
        return {"synthetic": self.synthetic(server)._asdict()}


def needs_classes(draft: Draft, method: str) -> str:
    """The objection to a task without classes."""
    if isinstance(draft.task, MultiClass):
        return ""
    return f"method '{method}' needs a multi-class task, this one is {draft.task.called}."


def needs_unit(x: Tensor, method: str) -> str:
    """Why a generator whose examples are in [0, 1] cannot learn these features."""
    found = "are symbols" if not x.is_floating_point() else outside(x)
    return found and (
        f"method '{method}' draws features in [0, 1] but those of the data {found}; set "
        "data.normalise = false, or use data with features in [0, 1]."
    )
