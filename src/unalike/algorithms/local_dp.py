"""Local differential privacy of updates (Truex et al. 2020).

u_k <- clip(u_k, C) + z C xi_k,                 xi_k ~ N(0, I), drawn by client k

Every client adds noise before it sends, and even the server learns little. The mechanism is in
``parts/privacy/gaussian.py``, the meaning and count of epsilon in ``parts/privacy/accountant.py``.
"""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.dp import CUSTOMARY, uncovered
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import TO_BE_SET, Method, Slot
from unalike.parts.privacy.gaussian import Clipped
from unalike.parts.privacy.guarantee import Guarantee
from unalike.settings import setting


class LocalDp(Method):
    """Updates are clipped and every client adds noise, so the server need not be trusted."""

    slot: ClassVar[Slot] = "privacy"
    paper: ClassVar[str] = "Truex et al. 2020, arXiv 2006.03637"

    clip: float = setting(1.0, "longest update C", gt=0, source=TO_BE_SET)
    noise_multiplier: float = setting(
        1.0,
        "noise on every update, in units of C (z)",
        ge=0,
        source="our choice, to be adjusted: noise as large as the update",
    )
    delta: float = setting(1e-5, "chance that the promise fails", gt=0, lt=1, source=CUSTOMARY)

    def change(self, draft: Draft) -> Draft:
        """Clip and add noise on the client."""
        return replace(
            draft,
            channel=(*draft.channel, Clipped(self.clip, self.noise_multiplier)),
            guarantee=Guarantee(self.noise_multiplier, self.delta, local=True),
        )

    def objection(self, draft: Draft) -> str:
        """What the count of epsilon would not cover."""
        return uncovered(draft, "local_dp")
