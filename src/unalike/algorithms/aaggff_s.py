"""AAggFF-S (Hahn et al. 2024, Alg. 2): weights learned online when every client answers.

r = response to the losses of the received model, in [C1, C2];   L = C2 / (1 + C1)
g = -r / (1 + <p, r>)                        gradient of the decision loss -log(1 + <p, r>)
p <- argmin over the simplex of  sum <g, p> + alpha/2 ||p||^2 + beta/2 sum <g, p - p_then>^2
     alpha = 4 K L,  beta = 1 / (4 L)                          (online Newton step, lazy form)
  =  argmin 1/2 p'Ap + b'p,   A = alpha I + beta sum g g',   b = sum (1 - beta <g, p_then>) g

The new p weights the updates of the same round. The number of examples plays no part. The response
is in ``parts/mixing/response.py``, the regret in ``parts/mixing/regret.py``.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import ONE_LEARNER, Method, Slot, new_neighbours
from unalike.cohort import Cohort
from unalike.parts.mixing.base import Memoryless, Weighed, restricted
from unalike.parts.mixing.regret import Hindsight, bound_s
from unalike.parts.mixing.response import Cdf, respond
from unalike.parts.mixing.simplex import minimise
from unalike.settings import setting


class AAggFFS(Method):
    """Weights follow the clients' losses online; for a few clients that all take part."""

    slot: ClassVar[Slot] = "weights"
    refuses = ONE_LEARNER
    paper: ClassVar[str] = "Hahn et al. 2024, arXiv 2405.20821"

    cdf: Cdf = setting(
        "normal",
        "how a loss becomes a response",
        source="text: best on Berka; the authors choose one per dataset",
    )
    low: float = setting(0.0, "least response (C1)", ge=0, source="text: C1 = 0")
    high: float | None = setting(
        None,
        "largest response (C2); unset: one over the number of clients",
        gt=0,
        source="text: C2 = 1/K",
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        return replace(draft, weights=OnlineNewton(self, draft.rounds))

    def objection(self, draft: Draft) -> str:
        """All clients must answer, and responses need a range."""
        n, answers, high = draft.n_clients, draft.planned, self.high or 1 / draft.n_clients
        if answers < n:
            return (
                f"method 'aaggff_s' needs every loss in every round, but {answers} of {n} clients "
                "answer; set participation.fraction = 1 without phases, or use 'aaggff_d'."
            )
        if self.low >= high:
            return (
                f"method.low = {self.low:g} of 'aaggff_s' must be below the largest response "
                f"{high:.3g}; lower it or raise method.high."
            )
        return new_neighbours(draft)

    def range(self, n_clients: int) -> tuple[float, float]:
        """(C2, L)."""
        high = 1 / n_clients if self.high is None else self.high
        return high, high / (1 + self.low)


class Memory(NamedTuple):
    """The quadratic program so far, the current decision, and what its regret is seen from."""

    A: Tensor  # [K, K]
    b: Tensor
    p: Tensor
    past: Hindsight


@dataclass(frozen=True)
class OnlineNewton(Memoryless):
    """The online Newton step on the simplex of all clients.

    Regret needs the responses of all rounds, so it is kept for as many as ``rounds`` says.
    """

    settings: AAggFFS
    rounds: int = 0
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})
    learns: ClassVar[bool] = True

    def init(self, n_clients: int) -> Memory:
        """The uniform decision."""
        p = torch.full((n_clients,), 1 / n_clients, dtype=torch.float64)
        alpha = 4 * n_clients * self.settings.range(n_clients)[1]
        A = alpha * torch.eye(n_clients, dtype=torch.float64)
        return Memory(A, torch.zeros_like(p), p, Hindsight.before(self.rounds, p))

    def weights(self, state: Memory, cohort: Cohort) -> Weighed:
        """The new decision; a client that failed to answer counts with the mean response."""
        A, b, p, past = state
        s = self.settings
        high, L = s.range(len(p))
        beta = 1 / (4 * L)
        seen = respond(cohort.stats["loss"].double(), s.cdf, s.low, high)
        r = seen.mean().repeat(len(p)).index_put((cohort.ids,), seen)
        past = past.after(p, r) if self.rounds else past
        g = -r / (1 + p @ r)
        A, b = torch.addr(A, g, g, alpha=beta), b + (1 - beta * (g @ p)) * g
        p = torch.from_numpy(minimise(A.numpy(), b.numpy(), start=p.numpy()))
        logged: dict[str, float | Tensor] = {"decision": p[cohort.ids]}
        if self.rounds:
            bound = bound_s(int(past.seen), len(p), s.low, s.high)
            logged |= {"regret": past.regret, "regret_bound": bound}
        return Weighed(restricted(p, cohort), Memory(A, b, p, past), logged=logged)
