"""FedNova (Wang et al. 2020): normalised averaging when clients take unequal numbers of steps.

x <- x - eta tau_eff sum_k p_k (x - x_k) / a_k;   the weights are in ``parts/mixing/nova.py``.
p_k is n_k / n, or the weight of whatever rule is combined with it (FedDisco's, AAggFF's).
With equal sizes, epochs and batches it is FedAvg.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from unalike.algorithms.method import Draft, Method, Slot
from unalike.errors import ConfigError
from unalike.parts.mixing.base import Mixing
from unalike.parts.mixing.nova import Nova
from unalike.parts.optim import Sgd
from unalike.recipe import Recipe


class FedNova(Method):
    """Updates are divided by the local work behind them, so that busy clients do not dominate."""

    slot: ClassVar[Slot] = "work"
    accepts: ClassVar[frozenset[str]] = frozenset(
        {"objective", "server", "weights", "private", "data", "schedule"}
    )
    refuses: ClassVar[Mapping[str, str]] = {
        "defence": "its weights hold the step length, which a defence would replace",
        "privacy": "its weights follow the local steps, and its noise would too",
        "phase_shift": "an upload there holds several rounds of work, which no step count tells",
        "qfedavg": "that rule's weights are no average's, they hold a step length for the updates "
        "as they were sent",
        "fedmgda": "that rule's weights are no average's, they bring every update to length one, "
        "whatever work is behind it",
    }
    topologies: ClassVar[frozenset[str]] = frozenset({"star"})  # weights for updates, not models
    paper: ClassVar[str] = "Wang et al. 2020, arXiv 2007.07481"

    effective: Literal["normaliser", "steps"] = Field(
        default="normaliser", description="tau_eff from a_k (paper) or from step counts"
    )
    server_lr: float = Field(default=1.0, gt=0, description="step of the server; 1: all of it")

    def change(self, draft: Draft) -> Draft:
        """Divide whatever weights there are in the end; momentum changes the normaliser."""
        opt = draft.opt
        if not isinstance(opt, Sgd):
            raise ConfigError(
                "method 'fednova' knows the normaliser of SGD only: set local.optimizer = 'sgd'."
            )

        def check(draft: Draft, recipe: Recipe) -> None:
            if self.server_lr != 1 and draft.server_opt != Sgd(1.0):
                raise ConfigError(
                    "method.server_lr of 'fednova' is the step of a server without a method of its "
                    "own, but another method sets the server; leave server_lr out and set lr there."
                )

        def work(rule: Mixing) -> Mixing:
            return Nova(opt.momentum, self.effective, opt.nesterov, self.server_lr, rule)

        return replace(draft, work=work, checks=(*draft.checks, check))
