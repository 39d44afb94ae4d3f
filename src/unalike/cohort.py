"""The clients that answered in a round, as a server sees them: numbers, never weights."""

from typing import NamedTuple

import torch
from torch import Tensor

from unalike.rng import Key


class Cohort(NamedTuple):
    """What a server half may read besides the uploads."""

    round: int
    ids: Tensor  # [n]
    stats: dict[str, Tensor]  # name -> [n]; always holds examples and steps
    survey: dict[str, Tensor]  # name -> [N, ...], one row per client
    known: Tensor  # [m] the clients whose survey answers this server holds
    key: Key  # for whatever is random on the server in this round
    own: Tensor | None = None  # the clients whose data are this server's own; None: all known
    standing: Tensor | None = None  # [n] what each counts among all clients; None: the same

    def among(self, n: int, like: Tensor) -> Tensor:
        """What each counts among all ``n`` clients, of the type of ``like``."""
        return torch.full_like(like, 1 / n) if self.standing is None else self.standing.to(like)

    @property
    def share(self) -> Tensor:
        """n_k / sum of n over the cohort."""
        n = self.stats["examples"].double()
        return n / n.sum()
