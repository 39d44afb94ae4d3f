"""AAggFF-S (Hahn et al. 2024, Alg. 2): weights learned online when every client answers.

r = response to the losses of the received model, in [C1, C2];   L = C2 / (1 + C1)
g = -r / (1 + <p, r>)                        gradient of the decision loss -log(1 + <p, r>)
p <- argmin over the simplex of  sum <g, p> + alpha/2 ||p||^2 + beta/2 sum <g, p - p_then>^2
     alpha = 4 K L,  beta = 1 / (4 L)                          (online Newton step, lazy form)
  =  argmin 1/2 p'Ap + b'p,   A = alpha I + beta sum g g',   b = sum (1 - beta <g, p_then>) g

The new p weighs the updates of the same round. The number of examples plays no part.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.parts.mixing.base import Memoryless, restricted
from unalike.parts.mixing.regret import Hindsight, bound_s
from unalike.parts.mixing.response import Cdf, respond
from unalike.parts.mixing.simplex import minimise


class Memory(NamedTuple):
    """The quadratic program so far, the current decision, and what its regret is seen from."""

    A: Tensor  # [K, K]
    b: Tensor
    p: Tensor
    past: Hindsight


@dataclass(frozen=True)
class AaggffS(Memoryless):
    """The online Newton step on the simplex of all clients; ``high`` is 1 / K unless given.

    Regret needs the responses of all rounds, so it is kept for as many as ``rounds`` says.
    """

    cdf: Cdf = "normal"
    low: float = 0.0
    high: float | None = None
    rounds: int = 0
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    def init(self, n_clients: int) -> Memory:  # type: ignore[override]
        """The uniform decision."""
        p = torch.full((n_clients,), 1 / n_clients, dtype=torch.float64)
        alpha = 4 * n_clients * self._range(n_clients)[1]
        A = alpha * torch.eye(n_clients, dtype=torch.float64)
        return Memory(A, torch.zeros_like(p), p, Hindsight.before(self.rounds, p))

    def weights(self, state: Memory, cohort: Cohort) -> tuple[Tensor, Memory]:
        """The new decision; a client that failed to answer counts with the mean response."""
        A, b, p, past = state
        high, L = self._range(len(p))
        beta = 1 / (4 * L)
        seen = respond(cohort.stats["loss"].double(), self.cdf, self.low, high)
        r = seen.mean().repeat(len(p)).index_put((cohort.ids,), seen)
        past = past.after(p, r) if self.rounds else past
        g = -r / (1 + p @ r)
        A, b = torch.addr(A, g, g, alpha=beta), b + (1 - beta * (g @ p)) * g
        p = torch.from_numpy(minimise(A.numpy(), b.numpy(), start=p.numpy()))
        return restricted(p, cohort), Memory(A, b, p, past)

    def logged(self, state: Memory) -> dict[str, float]:
        """The regret so far and its bound."""
        if not self.rounds:
            return {}
        seen, n = int(state.past.seen), len(state.p)
        bound = bound_s(seen, n, self.low, self.high)
        return {"regret": state.past.regret, "regret_bound": bound}

    def _range(self, n_clients: int) -> tuple[float, float]:
        """(C2, L)."""
        high = 1 / n_clients if self.high is None else self.high
        return high, high / (1 + self.low)
