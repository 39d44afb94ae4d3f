"""FedNova (Wang et al. 2020): normalised averaging when clients take unequal numbers of steps.

x <- x - tau_eff sum_k p_k (x - x_k) / a_k;   the weights are in ``parts/mixing/nova.py``.
With equal sizes, epochs and batches it is FedAvg.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from unalike.algorithms.method import Draft, Method, Slot
from unalike.errors import ConfigError
from unalike.parts.mixing.nova import Nova
from unalike.parts.optim import Sgd


class FedNova(Method):
    """Updates are divided by the local work behind them, so that busy clients do not dominate."""

    slot: ClassVar[Slot] = "weights"
    accepts: ClassVar[frozenset[str]] = frozenset(
        {"objective", "server", "private", "data", "schedule"}
    )
    refuses: ClassVar[Mapping[str, str]] = {
        "defence": "its weights hold the step length, which a defence would replace",
        "privacy": "its weights follow the local steps, and its noise would too",
        "phase_shift": "an upload there holds several rounds of work, which no step count tells",
    }
    topologies: ClassVar[frozenset[str]] = frozenset({"star"})  # weights for updates, not models
    paper: ClassVar[str] = "Wang et al. 2020, arXiv 2007.07481"

    effective: Literal["normaliser", "steps"] = Field(
        default="normaliser", description="tau_eff from a_k (paper) or from step counts"
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the weights; momentum changes the normaliser."""
        opt = draft.opt
        if not isinstance(opt, Sgd):
            raise ConfigError(
                "method 'fednova' knows the normaliser of SGD only: set local.optimizer = 'sgd'."
            )
        return replace(draft, mixing=Nova(opt.momentum, self.effective, opt.nesterov))
