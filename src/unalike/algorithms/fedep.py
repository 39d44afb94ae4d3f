"""FedEP: averaging by entropy pooling of the clients' label mixtures.

client, once:  y ~ sum_m pi_m N(mu_m, s2_m) by EM, the number of parts by BIC; sends (pi, mu, s2)
server, once:  P(y) = sum_k p_k P_k(y),   KL_k = sum_y P(y) ln(P(y) / P_k(y))
               a_k = KL_k / sum_j KL_j                      (a_k = p_k if all divergences are zero)
               or a_k ~ 1 / (KL_k + epsilon), the inverse direction

The thesis describes the method in formulas and prints a listing that computes something else; both
readings are here. ``floor`` normalises every P_k over the labels and lifts it by ``epsilon``, since
raw Gaussian tails give the most uniform client almost no weight; ``raw`` is the bare formula;
``listing`` is what the printed program does. The formulas are in ``parts/mixing/entropy_pool.py``,
the clients' fit in ``parts/mixing/label_mixture.py`` and ``parts/mixing/listed_mixture.py``.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import NO_NOISE, Method, Slot
from unalike.cohort import Cohort
from unalike.parts.mixing.base import Memoryless, Weighed
from unalike.parts.mixing.entropy_pool import Direction, Divergence, Mode, divergences, pool
from unalike.parts.mixing.label_mixture import FLOOR, Bic, LabelMixture
from unalike.parts.mixing.questions import LabelSet, Question, Size
from unalike.settings import setting


class FedEp(Method):
    """Clients whose label mixture differs most from the pooled one count most."""

    slot: ClassVar[Slot] = "weights"
    paper: ClassVar[str] = "FedEP, entropy pooling of label distributions, arXiv 2410.07678"

    mode: Mode = setting(
        "floor",
        "formula with a floor, bare formula, or the printed listing",
        source="our choice: the tails of the bare formula leave the most uniform client below 1 %",
    )
    direction: Direction = setting(
        "proportional",
        "weight grows with the divergence, or shrinks",
        source="text: introduction, formula, listing and conclusion, against section 6.3",
    )
    divergence: Divergence = setting(
        "kl",
        "Kullback-Leibler from the pooled mixture, or Jensen-Shannon between the two",
        source="text; it calls the other one commonly used",
    )
    rho: float = setting(
        0.5, "mixture parts at most, as a share of the labels", gt=0, le=1, source="text"
    )
    epsilon: float = setting(
        0.01,
        "floor under every probability, and under divergences if the direction is inverse",
        gt=0,
        source="our choice: the listing's own epsilon on the nodes",
    )
    survey_epsilon: float = setting(
        0.0, "differential privacy of the label survey; 0: no noise", ge=0, source=NO_NOISE
    )
    label_set: Literal["global", "own"] = setting(
        "global",
        "labels at which mixtures are compared: all, or those of the aggregator's own data (its "
        "own clients', if it has none)",
        source="text: the formula's; the listing takes the aggregator's own",
    )
    bic: Bic = setting(
        "auto",
        "parameters counted for M parts: 3M-1 (textbook) or M (thesis); auto: M in the listing",
        source="our choice: the textbook's count in the formula, the text's in the listing",
    )
    renormalise: bool = setting(
        True,
        "rescale the weights of the clients that answered so that they sum to one",
        source="our choice: otherwise the weights of the clients that answer sum to less than one",
    )
    variance_floor: float = setting(
        FLOOR,
        "least variance of a mixture's part, except in the listing, which adds 0.01",
        ge=1e-6,
        source="our choice: what the listing adds to every variance; the text has none",
    )

    @model_validator(mode="after")
    def _distributions(self) -> Self:
        if self.divergence == "js" and self.mode in ("raw", "listing"):
            raise ValueError(
                f'divergence = "js" compares distributions, and mode = "{self.mode}" has none; '
                'use mode = "floor" or "normalised"'
            )
        return self

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        return replace(draft, weights=EntropyPool(max(draft.classes, 2), self))


@dataclass(frozen=True)
class EntropyPool(Memoryless):
    """FedEP's weights over the clients whose mixtures a server holds.

    Without ``renormalise`` a cohort's weights do not sum to one: the server steps less far.
    """

    classes: int
    settings: FedEp
    scaled: ClassVar[bool] = True

    @property
    def survey(self) -> tuple[Question, ...]:
        """Mixture parameters and size, once; who uses its own labels needs to know them."""
        s = self.settings
        mixture = LabelMixture(
            s.rho, s.mode == "listing", s.survey_epsilon, s.bic, s.variance_floor
        )
        own = (LabelSet(s.survey_epsilon),) if s.label_set == "own" else ()
        return mixture, Size(), *own

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """The pooled weights, restricted to the cohort and renormalised."""
        s, known, N = self.settings, cohort.known, len(cohort.survey["size"])
        theta = cohort.survey["label_mixture"][known]
        n = cohort.survey["size"][known][:, 0]
        apart = divergences(theta, n, self._labels(cohort), s.mode, s.epsilon, s.divergence)
        kl, a = torch.zeros(2, N, dtype=torch.float64)
        kl[known], a[known] = apart.to(kl), pool(apart, n, s.direction, s.epsilon).to(a)
        kl, a = kl[cohort.ids], a[cohort.ids]
        logged = {"divergence": kl, "alpha": a}
        if not float(a.sum()) > 0:
            note = (
                "the divergences of the clients that answered are zero or not finite, so sizes "
                "were used as weights"
            )
            return Weighed(cohort.share, state, note, logged)
        return Weighed(a / a.sum() if s.renormalise else a, state, logged=logged)

    def _labels(self, cohort: Cohort) -> Tensor:
        if self.settings.label_set == "global":
            return torch.arange(self.classes)
        own = cohort.known if cohort.own is None else cohort.own
        return cohort.survey["label_set"][own].any(0).nonzero()[:, 0]
