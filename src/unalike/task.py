"""A network and its loss as pure functions of a dict of weights and buffers."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from unalike import tree
from unalike.batches import Batch
from unalike.federation.data import Kind
from unalike.network import Network
from unalike.rng import Key
from unalike.tree import Params


@dataclass(frozen=True)
class Task:
    """What is learned: a network with cross-entropy over classes, one logit, or next characters."""

    network: Network
    kind: Kind | Literal["autoencoding"] = "multiclass"

    @property
    def draws(self) -> int:
        """How many normal numbers it takes to judge one row."""
        return 0

    @cached_property
    def _buffers(self) -> frozenset[str]:
        return frozenset(self.network.buffers)

    def init(self, key: Key) -> Params:
        """Fresh weights and buffers."""
        return self.network.init(key)

    def split(self, w: Params) -> tuple[Params, Params]:
        """(trainable weights, buffers)."""
        buffers, weights = tree.split(w, self._buffers)
        return weights, buffers

    def weights(self, w: Params) -> Params:
        """The trainable part of ``w``."""
        return self.split(w)[0]

    def loss(self, w: Params, batch: Batch) -> tuple[Tensor, Params]:
        """Mean training loss over the real rows, and the buffers after the forward pass."""
        out, buffers = self.network.train(w, batch.x, batch.key, batch.real)
        each = self.per_example(out, batch.y)
        mean = (each * batch.real).sum() / batch.real.sum().clamp(min=1)
        return mean, {k: v for k, v in buffers.items() if k in w}

    def outputs(self, w: Params, x: Tensor, noise: Tensor) -> Tensor:
        """What every row is judged by; ``noise`` has ``draws`` columns."""
        return self.logits(w, x)

    def logits(self, w: Params, x: Tensor, real: Tensor | None = None) -> Tensor:
        """The network's output in evaluation mode; ``real`` marks the rows that are no padding."""
        return self.network.eval(w, x, real)

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row in evaluation mode."""
        return self.per_example(self.logits(w, batch.x, batch.real), batch.y)

    def per_example(self, out: Tensor, y: Tensor) -> Tensor:
        """The loss of every row, from the network's output."""
        if self.kind == "binary":
            return F.binary_cross_entropy_with_logits(
                out.squeeze(-1), y.to(out.dtype), reduction="none"
            )
        if y.ndim == 2:  # one target for every step of a sequence
            return F.cross_entropy(out.transpose(1, 2), y, reduction="none").mean(1)
        return F.cross_entropy(out, y, reduction="none")

    @property
    def dense(self) -> bool:
        """Whether the network is made of matrix products alone, which a CPU batches well."""
        slow = ("Conv", "LSTM", "GRU", "RNN")
        return not any(s in name for name in self.network.layers for s in slow)
