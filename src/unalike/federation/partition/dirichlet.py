"""Dirichlet label skew (Hsu, Qi & Brown 2019; Yurochkin et al. 2019).

per = "class":   for each class c,  s_c ~ Dir(alpha 1_K),  client k gets n_c s_ck examples of c
per = "client":  for each client k, q_k ~ Dir(alpha 1_M) or Dir(alpha p),  p the pooled label mix

The first makes client sizes unequal too; the second leaves sizes free and asks for label mixes,
which are then fitted to the examples that exist. Clients that come out too small are filled, never
redrawn. ``balance`` is the rule of the FedDisco and SuPerFed code: a client that already holds N/K
examples gets no share of the classes that follow.
"""

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from unalike.errors import ConfigError
from unalike.federation.partition.base import TablePartitioner
from unalike.federation.partition.mixes import table_of_mixes
from unalike.federation.partition.rounding import round_columns, truncate_columns
from unalike.federation.partition.sizes import apportion, even_sizes, lognormal_shares

# Shares then differ by a millionth of themselves; the sum over clients must stay finite.
MOST_ALPHA = 1e12


class Dirichlet(TablePartitioner):
    """Dirichlet label skew, drawn per class over clients or per client over classes."""

    alpha: float = Field(
        default=0.5,
        gt=0,
        le=MOST_ALPHA,
        allow_inf_nan=False,
        description="concentration; small is skewed",
    )
    per: Literal["class", "client"] = Field(
        default="class", description="draw a vector over clients per class, or a mix per client"
    )
    balance: bool = Field(
        default=False, description="per class: a client that holds N/K examples gets no more"
    )
    rounding: Literal["nearest", "truncate"] = Field(
        default="nearest",
        description="per class: largest remainder, or round down and give the last client the rest",
    )
    prior: Literal["uniform", "pooled"] = Field(
        default="uniform", description="per client: concentration alpha, or alpha x class share"
    )
    size_spread: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="per client: log-normal spread of client sizes; 0 makes them equal",
    )

    @model_validator(mode="after")
    def _no_idle_setting(self) -> Self:
        idle = (
            {"prior": self.prior != "uniform", "size_spread": self.size_spread > 0}
            if self.per == "class"
            else {"balance": self.balance, "rounding": self.rounding != "nearest"}
        )
        for name, is_set in idle.items():
            if is_set:
                other = "client" if self.per == "class" else "class"
                raise ConfigError(
                    f"dirichlet: {name} has no meaning with per='{self.per}'; "
                    f"leave it out or set per='{other}'."
                )
        return self

    def table(self, class_sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Counts by client and class."""
        if self.per == "client":
            return self._by_client(class_sizes, rng)
        shares = rng.dirichlet(np.full(self.clients, self.alpha), len(class_sizes)).T
        if self.balance:
            return self._balanced(shares, class_sizes)
        return self._whole(shares * class_sizes, class_sizes)

    def _whole(self, expected: np.ndarray, class_sizes: np.ndarray) -> np.ndarray:
        rounded = round_columns if self.rounding == "nearest" else truncate_columns
        return rounded(expected, class_sizes)

    def _balanced(self, shares: np.ndarray, class_sizes: np.ndarray) -> np.ndarray:
        table = np.zeros(shares.shape, dtype=np.int64)
        held = np.zeros(self.clients, dtype=np.int64)
        full = class_sizes.sum() / self.clients
        for c, size in enumerate(class_sizes):
            share = shares[:, c] * (held < full)
            if share.sum() == 0:  # every share of the open clients underflowed
                share = (held < full).astype(float)
            if size:
                share = share / share.sum()
                table[:, [c]] = self._whole(share[:, None] * size, class_sizes[[c]])
            held += table[:, c]
        return table

    def _by_client(self, class_sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        total = int(class_sizes.sum())
        present = np.flatnonzero(class_sizes)
        prior = class_sizes[present] / total if self.prior == "pooled" else np.ones(len(present))
        mixes = rng.dirichlet(self.alpha * prior, self.clients)
        sizes = even_sizes(total, self.clients)
        if self.size_spread:
            sizes = apportion(total, lognormal_shares(self.clients, self.size_spread, rng))
        table = np.zeros((self.clients, len(class_sizes)), dtype=np.int64)
        table[:, present] = table_of_mixes(mixes, sizes, class_sizes[present])
        return table
