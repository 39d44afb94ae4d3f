"""A small set of examples that all clients may have (Zhao et al. 2018, section 4).

G: beta of all training examples, as many of each class as there are;  client k trains on
D_k and a random alpha of G

Here G is drawn from the clients' own training rows; their owners make them public and keep them. A
client does not get a row that it already has. Test and validation rows stay as they are. What is
given out counts as downloads before the first round.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from unalike.federation.shift.base import Shift

if TYPE_CHECKING:
    from unalike.federation.data import Federation


class PublicSubset(Shift):
    """Every client also gets rows of a small public set with equally many of each class."""

    share: float = Field(
        default=0.05,
        gt=0,
        le=1,
        description="size of the public set, as a share of all training rows",
    )
    given: float = Field(default=1.0, gt=0, le=1, description="share of it that a client gets")

    def apply(self, federation: "Federation", rng: np.random.Generator) -> "Federation":
        """Copies of public rows are put to the training rows of every client."""
        from unalike.federation.data import TRAIN

        examples, n = federation.examples, federation.n_clients
        own = np.flatnonzero((federation.part == TRAIN) & (federation.owner < n))
        public = balanced(own, examples.strata[own], self.share * len(own), rng)
        rows, owners = [np.arange(len(examples))], [federation.owner]
        words = [""] * (n + federation.n_new)
        for k in range(n):
            some = rng.permutation(public)[: round(self.given * len(public))]
            some = some[federation.owner[some] != k]
            rows.append(np.sort(some))
            owners.append(np.full(len(some), k))
            words[k] = f"given {len(some)} public rows"
        taken, owner = np.concatenate(rows), np.concatenate(owners)
        part = np.concatenate([federation.part, np.full(len(taken) - len(examples), TRAIN)])
        copies = taken[len(examples) :]
        each = (examples.x[:1].nbytes + examples.y[:1].nbytes) if len(examples) else 0
        return replace(
            federation,
            examples=examples.take(taken),
            owner=owner,
            part=part.astype(federation.part.dtype),
            source=None if federation.source is None else federation.source[taken],
            handed=federation.handed + len(copies) * each,
        ).marked(words)


def balanced(
    rows: np.ndarray, labels: np.ndarray, size: float, rng: np.random.Generator
) -> np.ndarray:
    """About ``size`` of the rows, as many of each class as there are, in ascending order."""
    classes = np.unique(labels)
    quota = max(1, round(size / len(classes)))
    drawn = [rng.permutation(rows[labels == c])[:quota] for c in classes]
    return np.sort(np.concatenate(drawn))
