"""How far local steps go along a gradient that is always 1, which FedNova divides by.

u_0 = v_0 = 0;   e = 1 - eta mu u;   v <- rho v + e;   u <- u + v, or + e + rho v (Nesterov)
with momentum rho and, at the local rate eta, a proximal term mu; the reach of tau steps is the last
u. If an upload contains several rounds (phase-shift), u and v continue from round to round like the
client's model and momentum, and the client reports its reach.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike.parts.optim import Sgd
from unalike.tree import Params


def reach(tau: Tensor, opt: Sgd, pull: float = 0.0) -> Tensor:
    """Of each number of steps; ``pull`` is eta mu.

    >>> reach(torch.tensor([2.0, 3.0]), Sgd(0.1), 0.5)
    tensor([1.5000, 1.7500])
    """
    rho = opt.momentum
    if not pull:
        a = (tau - rho * (1 - rho**tau) / (1 - rho)) / (1 - rho)
        return tau + rho * a if opt.nesterov else a
    # (u, v, 1) after a step is a matrix times (u, v, 1) before it.
    force = torch.tensor([-pull, 0, 1], dtype=tau.dtype)
    v = force + torch.tensor([0, rho, 0], dtype=tau.dtype)
    u = torch.tensor([1, 0, 0], dtype=tau.dtype) + (force + rho * v if opt.nesterov else v)
    once = torch.stack([u, v, torch.tensor([0, 0, 1], dtype=tau.dtype)])
    ends = {k: torch.linalg.matrix_power(once, int(k))[0, 2] for k in tau.unique().tolist()}
    return torch.stack([ends[k] for k in tau.tolist()])


class Gone(NamedTuple):
    """u and v of a client whose model holds the work of earlier rounds; u is times the rate."""

    u: Tensor
    v: Tensor


@dataclass(frozen=True)
class Unmeasured:
    """The reach is not needed."""

    def begin(self, w: Params) -> Any:
        """What a client keeps of it before its first round, on the device of its model."""
        return ()

    def after(
        self, gone: Any, kept: Tensor, stats: dict[str, Tensor], rate: Tensor
    ) -> tuple[dict[str, Tensor], Any]:
        """(what the client reports, what it keeps) after its local steps.

        ``kept`` is the share of its own model that it began with.
        """
        return stats, gone


UNMEASURED = Unmeasured()


@dataclass(frozen=True)
class Measured(Unmeasured):
    """Clients report how far all steps in their upload go, without a proximal term."""

    opt: Sgd
    momentum: bool = True  # whether it goes on where the model does

    def begin(self, w: Params) -> Gone:
        """Nowhere yet."""
        zero = torch.zeros((), device=next(iter(w.values())).device)
        return Gone(zero, zero)

    def after(
        self, gone: Gone, kept: Tensor, stats: dict[str, Tensor], rate: Tensor
    ) -> tuple[dict[str, Tensor], Gone]:
        """One more report, ``reach``.

        >>> one = torch.tensor(1.0)
        >>> Measured(Sgd(0.1, 0.5)).after(Gone(one, one), one, {"steps": 2 * one}, one)[1]
        Gone(u=tensor(4.2500), v=tensor(1.7500))
        """
        tau, rho, v = stats["steps"], self.opt.momentum, gone.v * (kept > 0) * self.momentum
        fresh = (1 - rho**tau) / (1 - rho)  # v after as many steps from 0
        summed = rho * fresh * v + (tau - rho * fresh) / (1 - rho)
        way = tau + rho * summed if self.opt.nesterov else summed
        u = kept * gone.u + rate * way
        return {**stats, "reach": u / rate}, Gone(u, rho**tau * v + fresh)
