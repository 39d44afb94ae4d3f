"""A schedule of phase-shift whose groups are known."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unalike.parts.participation.schedule import Plan


@dataclass(frozen=True)
class InOrder:
    """Phases by client number, so that a trace can be written down."""

    phases: int
    epochs: float = 1.0

    def plan(self, t: int, span: range, n: int, key: Tensor) -> Plan:
        """The first clients begin at position 0."""
        ids = torch.arange(n)
        role = (ids // (n // self.phases) + t) % self.phases
        reply = (role == self.phases - 1) | torch.tensor(t == span.stop - 1)
        return Plan(ids, role, reply, torch.full((n,), self.epochs, dtype=torch.float64))
