"""A generator trained by FedAvg, tested with a classifier that has seen only its examples.

w <- w + sum_k p_k (w_k - w),   w_k after fitting the generator to client k's data
the classifier is trained outside the rounds, on ``per_class`` drawn examples of each class
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.algorithm import Ctx, Stateless
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import NO_MODEL_SENT, Method, Slot
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.parts.generators import Generator
from unalike.parts.optim import Adam
from unalike.parts.synthetic import Synthetic, outside, trained_on
from unalike.rng import Key
from unalike.settings import setting
from unalike.tasks import MultiClass
from unalike.traits import Trait
from unalike.tree import Params
from unalike.uploads import Uploads


class Server(NamedTuple):
    """The generator, and the source of the examples used to test it."""

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
        """All are tested with one classifier."""
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
        """Only the classifier of ``model``."""
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


class Generating(Method):
    """What methods that train a generator have in common."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.SENDS_NO_MODEL, Trait.MAKES_EXAMPLES})
    refuses = {Trait.WEIGHTS_FOLLOW_LOSSES: NO_MODEL_SENT[Trait.WEIGHTS_FOLLOW_LOSSES]}
    label: ClassVar[str]

    per_class: int = setting(
        10,
        "drawn examples of each class",
        ge=1,
        source="our choice: as in FedEvg, so that the two can be compared",
    )
    latent: int = setting(128, "latent variables, or noise", ge=1, source="authors' code")
    lr: float = setting(1e-3, "Adam's rate", gt=0, source="authors' code")
    judge_epochs: int = setting(
        100,
        "epochs of the evaluating classifier",
        ge=1,
        source="our choice: as in FedEvg, so that the two can be compared",
    )

    def change(self, draft: Draft) -> Draft:
        """Replace the algorithm."""
        return replace(draft, base=self._make)

    def objection(self, draft: Draft) -> str:
        """Examples are drawn by class."""
        return needs_classes(draft, self.label)

    def misfit(self, x: Tensor) -> str:
        """Generators end in a sigmoid, or in a tanh that is stretched to [0, 1]."""
        found = "are symbols" if not x.is_floating_point() else outside(x)
        return found and (
            f"method '{self.label}' draws features in [0, 1] but those of the data {found}; set "
            "data.normalise = false, or use data with features in [0, 1]."
        )

    @abstractmethod
    def generator(self, draft: Draft, adam: Adam) -> Generator:
        """What is trained."""

    def _make(self, draft: Draft) -> Generated:
        made = self.generator(draft, Adam(self.lr, b1=0.5, weight_decay=1e-4))
        task = cast(MultiClass, draft.task)
        return Generated(task, made, draft.classes, self.per_class, self.judge_epochs)
