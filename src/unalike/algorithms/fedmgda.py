"""FedMGDA+ (Hu et al. 2022): a step along which no participating client's loss rises.

d_i = (x - x_i) / ||x - x_i||                                          (normalised updates)
l   = argmin ||sum_i l_i d_i||^2 over the simplex with |l_i - c_i| <= epsilon
x  <- x - eta sum_i l_i d_i

c is the static weight n_i / n, or the same for all. It satisfies every constraint, so there is
always a minimiser. A client that did not move has no direction: it adds nothing to the sum. The
quadratic program is in ``parts/mixing/simplex.py``.
"""

from typing import Any, ClassVar, Literal

import torch

from unalike.algorithms.method import FOR_UPDATES, WeightRule
from unalike.cohort import Cohort
from unalike.parts.mixing.base import Weighed
from unalike.parts.mixing.simplex import minimise
from unalike.settings import setting
from unalike.traits import Trait

_RIDGE = 1e-10  # picks the most even of several minimisers: directions may be linearly dependent


class FedMgda(WeightRule):
    """The shortest mean of the clients' unit directions: a step that harms nobody."""

    traits = frozenset({Trait.STEP_IN_WEIGHTS})
    refuses = {
        **FOR_UPDATES,
        Trait.SENDS_NO_MODEL: "it compares the directions of models' updates, and none are sent",
        Trait.STEPS_ON_SERVER: "a step that is not a multiple of the common direction may raise "
        "a client's loss",
    }
    needs: ClassVar[frozenset[str]] = frozenset({"gram"})
    scaled: ClassVar[bool] = True
    paper: ClassVar[str] = "Hu et al. 2022, arXiv 2006.11489"

    epsilon: float = setting(
        0.1,
        "how far weights may be from the centre; 1: anywhere",
        ge=0,
        le=1,
        source="our choice: the smallest of 0.1, 0.5 and 1, which AAggFF's authors tune over",
    )
    centre: Literal["size", "equal"] = setting(
        "size",
        "the centre: weights by examples, or the same for all",
        source="text of AAggFF, which has it as a baseline: its static mixing coefficients",
    )
    lr: float = setting(
        1.0,
        "step length along the direction (eta)",
        gt=0,
        source="the released code of AAggFF, which has it as a baseline: its first server rate",
    )

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """Weights that do not sum to one: they turn updates into unit directions."""
        gram = cohort.stats["gram"].double()
        length = gram.diagonal().sqrt()
        length = torch.where(length > 0, length, 1.0)
        cosines = gram / torch.outer(length, length)
        cosines = cosines + _RIDGE * torch.eye(len(length), dtype=torch.float64)
        share = minimise(
            cosines.numpy(),
            torch.zeros_like(length).numpy(),
            within=self.epsilon,
            centre=cohort.share.numpy() if self.centre == "size" else None,
        )
        return Weighed(self.lr * torch.from_numpy(share) / length, state)
