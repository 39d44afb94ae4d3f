"""FedEP: averaging by entropy pooling of the clients' label mixtures.

client, once:  y ~ sum_m pi_m N(mu_m, s2_m) by EM, the number of parts by BIC; sends (pi, mu, s2)
server, once:  P(y) = sum_k p_k P_k(y),   KL_k = sum_y P(y) ln(P(y) / P_k(y))
               a_k = KL_k / sum_j KL_j                      (a_k = p_k if all divergences are zero)
               or a_k ~ 1 / (KL_k + epsilon), the inverse direction

The thesis describes the method in formulas and prints a listing that computes something else; both
readings are here. ``floor`` normalises every P_k over the labels and lifts it by ``epsilon``, since
raw Gaussian tails give the most uniform client almost no weight; ``raw`` is the bare formula;
``listing`` is what the printed program does. The clients' fit is in
``parts/mixing/label_mixture.py`` and, for the listing, in ``parts/mixing/listed_mixture.py``.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import NO_NOISE, Method, Slot
from unalike.cohort import Cohort
from unalike.parts.mixing.base import Memoryless, Weighed
from unalike.parts.mixing.label_mixture import FLOOR, Bic, LabelMixture
from unalike.parts.mixing.questions import LabelSet, Question, Size
from unalike.settings import setting

Mode = Literal["floor", "raw", "normalised", "listing"]
Direction = Literal["proportional", "inverse"]
Divergence = Literal["kl", "js"]
_NOISE = 0.01  # the listing's additive constant inside logarithms and on every client's variance
_SHIFT = 0.1  # its shift of means and inflation of variances on the aggregator


class FedEp(Method):
    """Clients whose label mixture differs most from the pooled one weigh most."""

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
        source="text; it names the other one as commonly used",
    )
    rho: float = setting(
        0.5, "mixture parts at most, as a share of the labels", gt=0, le=1, source="text"
    )
    epsilon: float = setting(
        0.01,
        "the floor under every probability, and under divergences where the direction is inverse",
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
        "let the weights of those that answered sum to one",
        source="our choice: else the weights of those that answer sum to less than one",
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
                "the divergences of those that answered are zero or not finite, so they were "
                "weighted by sizes"
            )
            return Weighed(cohort.share, state, note, logged)
        return Weighed(a / a.sum() if s.renormalise else a, state, logged=logged)

    def _labels(self, cohort: Cohort) -> Tensor:
        if self.settings.label_set == "global":
            return torch.arange(self.classes)
        own = cohort.known if cohort.own is None else cohort.own
        return cohort.survey["label_set"][own].any(0).nonzero()[:, 0]


def divergences(
    theta: Tensor,
    n: Tensor,
    labels: Tensor,
    mode: Mode = "floor",
    epsilon: float = 0.01,
    divergence: Divergence = "kl",
) -> Tensor:
    """KL_k of the pooled mixture from each client's, [K]; bits for the listing, else nats."""
    theta, p = theta.double(), n.double() / n.double().sum()
    labels = labels.double()
    if mode == "listing":
        return _listed(theta, p, labels)
    P = _log_density(theta, labels)
    if mode != "raw":
        P = P.log_softmax(1)
    if mode == "floor":
        P = torch.log((P.exp() + epsilon) / (1 + len(labels) * epsilon))
    whole = torch.logsumexp(p.log()[:, None] + P, 0)
    if divergence == "kl":
        return (whole.exp() * (whole - P)).sum(1)
    middle = torch.logaddexp(whole, P) - math.log(2)
    return (whole.exp() * (whole - middle) + P.exp() * (P - middle)).sum(1) / 2


def _log_density(theta: Tensor, labels: Tensor, shift: float = 0.0) -> Tensor:
    """Logarithms of mixture densities at the label values, [K, L], from rows (pi, mu, s2).

    In logarithms, since a client with a single label has a density of e^-4000 at a far one.
    """
    pi, mu, s2 = theta.unbind(-1)
    z, s2 = labels[:, None, None] - mu + shift, s2 + shift
    return torch.logsumexp(pi.log() - z**2 / (2 * s2) - torch.log(2 * math.pi * s2) / 2, -1).T


def _listed(theta: Tensor, p: Tensor, labels: Tensor) -> Tensor:
    """The printed program: client mixtures already scaled by p_k, rounded, smoothed, in bits."""
    scaled = theta.clone()
    scaled[..., 0] = (p[:, None] * theta[..., 0]).round(decimals=5)
    P = _log_density(scaled, labels, _SHIFT).exp()
    whole = P.sum(0)
    P = P.round(decimals=4)
    return (whole * torch.log2((whole + _NOISE) / (P + _NOISE))).sum(1)


def pool(
    divergence: Tensor,
    n: Tensor,
    direction: Direction = "proportional",
    epsilon: float = 0.01,
) -> Tensor:
    """Weights from divergences; the sizes where nobody diverges."""
    divergence = divergence.clamp(min=0)  # raw densities do not sum to one: below zero is "none"
    if float(divergence.sum()) < 1e-9:
        return n.double() / n.double().sum()
    d = divergence if direction == "proportional" else 1 / (divergence + epsilon)
    return d / d.sum()
