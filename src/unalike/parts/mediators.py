"""Clients under mediators: those of one mediator train one after the other.

greedy rescheduling (Duan et al. 2019): of the clients that are left, a mediator takes the one that
makes the labels of all its clients most even,
argmin_k KL(h_m + h_k || even),   KL(h || even) = sum_c q_c log(M q_c),  q = h / sum_c h_c
until it has as many as it may; then the next mediator begins.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from unalike.parts.mixing.questions import LabelCounts, Question
from unalike.parts.schedule import Plan, Sampled
from unalike.parts.selection import Seen
from unalike.parts.transform import raised
from unalike.rng import Key


def unevenness(counts: np.ndarray) -> np.ndarray:
    """KL of label histograms, the last axis, from even ones; 0 of an empty one."""
    q = counts / np.maximum(counts.sum(-1, keepdims=True), 1e-12)
    return (q * np.log(np.where(q > 0, q * counts.shape[-1], 1.0))).sum(-1)


def mediators(counts: np.ndarray, most: int) -> list[list[int]]:
    """Groups of rows of ``counts``, at most so many in each, in the order they are taken.

    >>> mediators(np.array([[4, 0], [3, 0], [0, 3], [0, 4]]), 2)
    [[0, 3], [1, 2]]
    """
    left, groups = list(range(len(counts))), list[list[int]]()
    while left:
        groups.append([])
        total = np.zeros(counts.shape[1])
        while left and len(groups[-1]) < most:
            i = left.pop(int(np.argmin(unevenness(total + counts[left]))))
            total += counts[i]
            groups[-1].append(i)
    return groups


@dataclass(frozen=True)
class Mediated(Sampled):
    """A uniform sample, whose clients are put under mediators by their labels in every round.

    A role is the number of the mediator, ``most`` for each, and the client's turn there.
    """

    most: int = 10
    power: float = 0.0  # of the augmentation that rare classes get
    whole: bool = True  # an epoch goes over what the augmentation adds as well
    needs: ClassVar[frozenset[str]] = frozenset()
    survey: ClassVar[tuple[Question, ...]] = (LabelCounts(),)

    def choose(self, t: int, span: range, key: Key, seen: Seen) -> Plan:
        """The plan of round ``t``; where nothing was asked yet, in the order of their numbers."""
        plan = self.plan(t, span, len(seen.sizes), key)
        counts = self._after(seen.survey, len(seen.sizes))[plan.ids.numpy()]
        role = torch.zeros_like(plan.role)
        for m, group in enumerate(mediators(counts, self.most)):
            role[group] = m * self.most + torch.arange(len(group))
        epochs = plan.epochs
        if self.whole and self.power and seen.survey:
            epochs = epochs * torch.from_numpy(counts.sum(1)) / seen.sizes[plan.ids]
        return plan._replace(role=role, epochs=epochs)

    def _after(self, survey: Mapping[str, Tensor], n: int) -> np.ndarray:
        """[n, classes] what clients have of each class after augmentation."""
        if not survey:
            return np.ones((n, 1))
        counts = survey["label_counts"].double().numpy()
        return raised(counts, counts.sum(0), self.power)

    def mediator(self, role: Tensor) -> Tensor:
        """Which mediator a client with this role belongs to."""
        return role // self.most

    def turn(self, role: Tensor) -> Tensor:
        """When such a client trains: 0 is first."""
        return role % self.most

    def waited(self, role: Tensor, seconds: Tensor) -> Tensor:
        """When each client is done, if each takes so long and waits for those before it."""
        group, turn = self.mediator(role), self.turn(role)
        before = (group[:, None] == group) & (turn[:, None] >= turn)
        return before.to(seconds) @ seconds
