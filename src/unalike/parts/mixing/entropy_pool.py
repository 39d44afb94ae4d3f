"""FedEP: weights from the divergence of each client's label mixture from the pooled one.

client, once:  y ~ sum_m pi_m N(mu_m, s2_m) by EM, the number of parts by BIC; sends (pi, mu, s2)
server, once:  P(y) = sum_k p_k P_k(y),   KL_k = sum_y P(y) ln(P(y) / P_k(y))
               a_k = KL_k / sum_j KL_j                      (a_k = p_k if all divergences are zero)
               or a_k ~ 1 / (KL_k + epsilon), the inverse direction

The thesis describes the method in formulas and prints a listing that computes something else; both
readings are here. ``floor`` normalises every P_k over the labels and lifts it by ``epsilon``, since
raw Gaussian tails give the most uniform client almost no weight; ``raw`` is the bare formula;
``listing`` is what the printed program does.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.parts.mixing.base import Memoryless, Question
from unalike.parts.mixing.disco import Fallbacks
from unalike.parts.mixing.label_mixture import FLOOR, Bic, LabelMixture
from unalike.parts.mixing.questions import LabelSet, Size

Mode = Literal["floor", "raw", "normalised", "listing"]
Direction = Literal["proportional", "inverse"]
Labels = Literal["global", "own"]
_NOISE = 0.01  # the listing's additive constant inside logarithms and on every client's variance
_SHIFT = 0.1  # its shift of means and inflation of variances on the aggregator


def _log_density(theta: Tensor, labels: Tensor, shift: float = 0.0) -> Tensor:
    """Logarithms of mixture densities at the label values, [K, L], from rows (pi, mu, s2).

    In logarithms, since a client with a single label has a density of e^-4000 at a far one.
    """
    pi, mu, s2 = theta.unbind(-1)
    z, s2 = labels[:, None, None] - mu + shift, s2 + shift
    return torch.logsumexp(pi.log() - z**2 / (2 * s2) - torch.log(2 * math.pi * s2) / 2, -1).T


def divergences(
    theta: Tensor, n: Tensor, labels: Tensor, mode: Mode = "floor", epsilon: float = 0.01
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
    return (whole.exp() * (whole - P)).sum(1)


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


@dataclass(frozen=True)
class EntropyPool(Memoryless):
    """FedEP's weights over the clients whose mixtures a server holds.

    ``label_set``: densities are compared at all labels, or at those in the aggregator's own data.
    Without ``renormalise`` a cohort's weights do not sum to one: the server steps less far.
    """

    classes: int
    rho: float = 0.5
    mode: Mode = "floor"
    direction: Direction = "proportional"
    epsilon: float = 0.01
    survey_epsilon: float = 0.0
    label_set: Labels = "global"
    bic: Bic = "auto"
    renormalise: bool = True
    variance_floor: float = FLOOR
    needs: ClassVar[frozenset[str]] = frozenset()

    @property
    def survey(self) -> tuple[Question, ...]:
        """Mixture parameters and size, once; who uses its own labels needs to know them."""
        listing = self.mode == "listing"
        mixture = LabelMixture(
            self.rho,
            listing,
            epsilon=self.survey_epsilon,
            bic=self.bic,
            variance_floor=self.variance_floor,
        )
        own = (LabelSet(self.survey_epsilon),) if self.label_set == "own" else ()
        return mixture, Size(), *own

    def init(self, n_clients: int) -> Fallbacks:  # type: ignore[override]
        """No fallback yet."""
        return Fallbacks(torch.zeros((), dtype=torch.int64))

    def weights(self, state: Fallbacks, cohort: Cohort) -> tuple[Tensor, Fallbacks]:
        """The pooled weights, restricted to the cohort and renormalised."""
        known = cohort.known
        theta = cohort.survey["label_mixture"][known]
        n = cohort.survey["size"][known][:, 0]
        kl = divergences(theta, n, self._labels(cohort), self.mode, self.epsilon)
        a = torch.zeros(len(cohort.survey["size"]), dtype=torch.float64)
        a[known] = pool(kl, n, self.direction, self.epsilon).to(a)
        a = a[cohort.ids]
        if not float(a.sum()) > 0:
            return cohort.share, Fallbacks(state.fallbacks + 1)
        return (a / a.sum() if self.renormalise else a), state

    def note(self, before: Any, after: Any) -> str:
        """One sentence if the divergences gave nobody a weight."""
        if int(after.fallbacks) == int(before.fallbacks):
            return ""
        return (
            "the divergences of those that answered are zero or not finite, so they were weighted "
            "by sizes"
        )

    def _labels(self, cohort: Cohort) -> Tensor:
        if self.label_set == "global":
            return torch.arange(self.classes)
        own = cohort.known if cohort.own is None else cohort.own
        return cohort.survey["label_set"][own].any(0).nonzero()[:, 0]
