"""Entropy pooling of label mixtures: each one's distance from all together, and its weight.

P(y) = sum_k p_k P_k(y),   KL_k = sum_y P(y) ln(P(y) / P_k(y)),   a_k = KL_k / sum_j KL_j
JS_k = 1/2 sum_y P(y) ln(P(y) / M_k(y)) + 1/2 sum_y P_k(y) ln(P_k(y) / M_k(y)),  M_k = (P + P_k) / 2
"""

import math
from typing import Literal

import torch
from torch import Tensor

Mode = Literal["floor", "raw", "normalised", "listing"]
Direction = Literal["proportional", "inverse"]
Divergence = Literal["kl", "js"]
_NOISE = 0.01  # the listing's additive constant inside logarithms and on every client's variance
_SHIFT = 0.1  # its shift of means and inflation of variances on the aggregator


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
    """Weights from divergences; the sizes if no client diverges."""
    divergence = divergence.clamp(min=0)  # raw densities do not sum to one: below zero is "none"
    if float(divergence.sum()) < 1e-9:
        return n.double() / n.double().sum()
    d = divergence if direction == "proportional" else 1 / (divergence + epsilon)
    return d / d.sum()
