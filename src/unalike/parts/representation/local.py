"""Four local losses on a representation h = f(x) (Liang et al. 2020, section 2 and figure 1b-e).

supervised       -log p_a(y | h)                              an auxiliary head
autoencoding     |x - a(h)|^2 / features                      a decoder
self_supervised  -log p_a(z | f(x turned by z quarters))      a pretext task: which way is up
adversarial      L_r(r, sg h) - strength L_r(sg r, h)         r tells protected attributes from h

L_r is the cross-entropy of the attributes and sg lets no gradient through: the adversary r descends
on its own loss, the representation ascends on it. Each is added to the loss of the task, so that
the private part gets the gradients of both; the auxiliary network stays with the private part.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unalike import rng
from unalike.batches import Batch
from unalike.generator import seeded
from unalike.parts.representation.cut import Representation, comes_last, tapped, width, with_local
from unalike.rng import Stream
from unalike.tasks import NetworkTask
from unalike.tree import Params

Local = Literal["plain", "supervised", "autoencoding", "self_supervised", "adversarial"]


@dataclass(frozen=True)
class Beside:
    """A local loss; called with all of a client's weights and a minibatch."""

    of: Representation
    weight: float
    hidden: int  # protected attributes: the last columns of the features, which no network sees

    passes: ClassVar[int] = 0  # over further samples than those of the minibatch

    def __call__(self, w: Params, batch: Batch) -> Tensor:
        """The weighted mean over the real rows."""
        each = self.each(w, batch)
        return self.weight * (each * batch.real).sum() / batch.real.sum().clamp(min=1)

    def each(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row."""
        raise NotImplementedError

    def attributes(self, x: Tensor) -> Tensor:
        """The protected attributes of every row, 0 or 1."""
        return x[:, x.shape[1] - self.hidden :]


@dataclass(frozen=True)
class Supervised(Beside):
    """The label, from h alone."""

    task: Any = None

    def each(self, w: Params, batch: Batch) -> Tensor:
        """Cross-entropy of the auxiliary head."""
        out = self.of.said(w, self.of.h(w, batch.x, batch), batch)
        loss: Tensor = self.task.per_example(out, batch.y)
        return loss


@dataclass(frozen=True)
class Reconstructed(Beside):
    """The features, from h alone."""

    def each(self, w: Params, batch: Batch) -> Tensor:
        """Mean squared error of the decoder."""
        flat = batch.x.flatten(1)
        target = flat[:, : flat.shape[1] - self.hidden]
        return ((self.of.said(w, self.of.h(w, batch.x, batch), batch) - target) ** 2).mean(1)


@dataclass(frozen=True)
class Turned(Beside):
    """By how many quarters an image was turned (Gidaris et al. 2018)."""

    passes: ClassVar[int] = 1

    def each(self, w: Params, batch: Batch) -> Tensor:
        """Cross-entropy of the four directions, one drawn for every image."""
        drawn = rng.uniform(rng.fold_in(batch.key, Stream.PRETEXT), len(batch.real))
        z = (4 * drawn).long()
        beside = [1] * (batch.x.ndim - 1)
        turned = [torch.rot90(batch.x, k, (-2, -1)) for k in range(4)]
        x = sum((z == k).reshape(-1, *beside) * t for k, t in enumerate(turned))
        assert isinstance(x, Tensor)
        out = self.of.said(w, self.of.h(w, x, batch), batch)
        return F.cross_entropy(out, z, reduction="none")


@dataclass(frozen=True)
class Fair(Beside):
    """Protected attributes, which h is not to tell; ``weight`` is the strength."""

    def __call__(self, w: Params, batch: Batch) -> Tensor:
        """Descent for the adversary, ascent for the representation."""
        h = self.of.h(w, batch.x, batch)
        fixed = {n: v.detach() for n, v in w.items()}
        real, count = batch.real, batch.real.sum().clamp(min=1)
        told = self._loss(w, h.detach(), batch) - self.weight * self._loss(fixed, h, batch)
        return (told * real).sum() / count

    def _loss(self, w: Params, h: Tensor, batch: Batch) -> Tensor:
        target = self.attributes(batch.x).to(h.dtype)
        out = self.of.said(w, h, batch)
        return F.binary_cross_entropy_with_logits(out, target, reduction="none").mean(1)


def adversary(inputs: int, attributes: int) -> nn.Module:
    """The authors' adversary: three hidden layers of 32 units."""
    widths = [inputs, 32, 32, 32]
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], attributes))


def represented(
    task: NetworkTask,
    local: Local,
    prefixes: tuple[str, ...],
    shape: tuple[int, ...],
    classes: int,
    hidden: int,
    weight: float,
) -> NetworkTask:
    """The task with a local loss beside its own; ``prefixes`` name the shared layers."""
    inputs, features = width(tapped(task.network, prefixes), shape), torch.Size(shape).numel()
    with seeded(rng.key(0)):  # for runs that begin with weights as modules came
        made = {
            "supervised": lambda: nn.Linear(inputs, type(task).width(classes)),
            "autoencoding": lambda: nn.Sequential(
                nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, features - hidden)
            ),
            "self_supervised": lambda: nn.Linear(inputs, 4),
            "adversarial": lambda: adversary(inputs, hidden),
        }[local]()
    like = next(iter(task.network.given().values()))
    network = with_local(task.network, made.to(like.dtype))
    of = Representation(tapped(network, prefixes), network.part("local"))
    beside: Beside
    if local == "supervised":
        beside = Supervised(of, weight, hidden, task)
    else:
        kinds = {"autoencoding": Reconstructed, "self_supervised": Turned, "adversarial": Fair}
        beside = kinds[local](of, weight, hidden)
    return replace(task, network=network, beside=beside)


def refusal(
    task: Any, local: Local, prefixes: tuple[str, ...], shape: tuple[int, ...], hidden: int
) -> str:
    """Why there can be no such local loss, as the end of a sentence; empty if there can."""
    if getattr(task, "beside", None) is not None:  # there is one already
        return ""
    if not isinstance(task, NetworkTask) or "Embedding" in task.network.layers:
        return "it needs a network of real-valued features; set local = 'plain'"
    if task.draws:
        return (
            f"it acts on what goes into the shared layers, and {task.called} adds noise to it; "
            "set local = 'plain'"
        )
    if not comes_last(task.network, prefixes):
        return (
            "the private layers must come first and the shared ones after them, so that there is "
            "a representation in between; set shared = 'head' or local = 'plain'"
        )
    if local == "self_supervised" and (len(shape) != 3 or shape[1] != shape[2]):
        return "it rotates square images, and these are not square; set local = 'autoencoding'"
    if local == "adversarial" and not hidden:
        return (
            "the data name no protected attribute; set data.protected, for instance to "
            "['race', 'sex'] of adult"
        )
    return ""
