"""Dirichlet label skew (Hsu, Qi & Brown 2019; Yurochkin et al. 2019).

per = "class":   for each class c,  s_c ~ Dir(alpha 1_K),  client k gets n_c s_ck examples of c
per = "client":  for each client k, q_k ~ Dir(alpha 1_M) or Dir(alpha p),  p the pooled label mix

The first makes client sizes unequal too. The second leaves sizes free and asks for label mixes,
which are then fitted to the examples that exist, all of which are used: mixes that ask for too much
of a class give way, so the clients are a little less skewed than drawn (``mixed`` keeps the mixes
and leaves examples unused). Clients that come out too small are filled, never redrawn. ``balance``
is the rule of the FedDisco and SuPerFed code: a client that already holds N/K examples gets no
share of the classes that follow.

``alpha`` fixes the EMD on average over draws. ``target`` fixes that of the draw itself: its random
numbers stay, and the concentration moves until the EMD is reached.
"""

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from unalike.errors import ConfigError
from unalike.federation.goals import Goal
from unalike.federation.partition.base import Labels, TablePartitioner
from unalike.federation.partition.dirichlet_emd import (
    CLOSE,
    brought_to,
    dirichlet_at,
    emd_dirichlet,
)
from unalike.federation.partition.keep_one import KeepOne, at_least_one
from unalike.federation.partition.mixes import table_of_mixes
from unalike.federation.partition.rounding import Floats, Ints, round_columns, truncate_columns
from unalike.federation.partition.sizes import apportion, even_sizes, lognormal_shares

# Shares then differ by a millionth of themselves; the sum over clients must stay finite.
MOST_ALPHA = 1e12
ALPHA = 0.5
DRAWS = 50  # tries to find random numbers that can reach a target near the supremum
STEPS = 8  # of N: what two examples more or less can change about the EMD


class Dirichlet(TablePartitioner):
    """Dirichlet label skew, drawn per class over clients or per client over classes."""

    alpha: float = Field(
        default=ALPHA,
        gt=0,
        le=MOST_ALPHA,
        allow_inf_nan=False,
        description="concentration; small is skewed",
    )
    target: float | None = Field(
        default=None,
        gt=0,
        lt=2,
        description="EMD that every draw is adjusted to; replaces alpha",
    )
    per: Literal["class", "client"] = Field(
        default="class", description="draw a vector over clients per class, or a mix per client"
    )
    balance: bool = Field(
        default=False, description="per class: a client that has N/K examples gets no more"
    )
    rounding: Literal["nearest", "truncate"] = Field(
        default="nearest",
        description="per class: largest remainder, or round down and give one client the rest",
    )
    keep_one: KeepOne = False
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
            else {
                "balance": self.balance,
                "rounding": self.rounding != "nearest",
                "keep_one": self.keep_one,
            }
        )
        for name, is_set in idle.items():
            if is_set:
                other = "client" if self.per == "class" else "class"
                raise ConfigError(
                    f"dirichlet: {name} has no meaning with per='{self.per}'; "
                    f"leave it out or set per='{other}'."
                )
        if self.target is not None and self.alpha != ALPHA:
            raise ConfigError(
                f"dirichlet: target = {self.target:g} sets the concentration, so alpha = "
                f"{self.alpha:g} has no meaning; leave one of them out."
            )
        return self

    def goals(self, labels: Labels) -> tuple[Goal, ...]:
        """The target, or what the concentration gives on average where that is known."""
        if self.target is not None:
            return (Goal("EMD", self.target),)
        if self.per == "client" or self.balance or labels.classes < 2:
            return ()
        mean = emd_dirichlet(self.alpha, self.clients, labels.classes)
        return (Goal(f"mean EMD of Dirichlet({self.alpha:g})", mean),)

    def table(self, class_sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Counts by client and class."""
        shape, rows = np.ones(self.clients), len(class_sizes)
        if self.per == "client":
            shape, rows = self._prior(class_sizes), self.clients
        if self.target is None:
            drawn = rng.dirichlet(self.alpha * shape, rows)
            return self._counts(drawn, class_sizes, self._sizes(class_sizes, rng))
        for _ in range(DRAWS):
            u, sizes = rng.random((rows, len(shape))), self._sizes(class_sizes, rng)

            def build(alpha: float, u: Floats = u, sizes: Ints | None = sizes) -> Ints:
                return self._counts(dirichlet_at(alpha * shape, u), class_sizes, sizes)

            found, reached = brought_to(self.target, build)
            if abs(reached - self.target) <= max(CLOSE, STEPS / class_sizes.sum()):
                return found
        raise ConfigError(
            f"dirichlet: no draw of {DRAWS} came closer to an EMD of {self.target:g} than "
            f"{reached:.3g} with {self.clients} clients and {len(class_sizes)} classes; ask for "
            f"{'less' if reached < self.target else 'more'}, or use more examples."
        )

    def _counts(self, drawn: Floats, class_sizes: Ints, sizes: Ints | None) -> Ints:
        """Counts of shares by class [classes, clients], or of mixes [clients, present classes]."""
        if sizes is None:
            shares = drawn.T
            if self.balance:
                return self._balanced(shares, class_sizes)
            return self._whole(shares * class_sizes, class_sizes)
        present = np.flatnonzero(class_sizes)
        table = np.zeros((self.clients, len(class_sizes)), dtype=np.int64)
        table[:, present] = table_of_mixes(drawn, sizes, class_sizes[present])
        return table

    def _whole(self, expected: Floats, class_sizes: Ints) -> Ints:
        if self.keep_one:
            expected = at_least_one("dirichlet", expected, class_sizes)
        rounded = round_columns if self.rounding == "nearest" else truncate_columns
        return rounded(expected, class_sizes)

    def _balanced(self, shares: Floats, class_sizes: Ints) -> Ints:
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

    def _prior(self, class_sizes: Ints) -> Floats:
        """The concentration of each class that occurs, up to the factor alpha."""
        present = class_sizes[class_sizes > 0]
        return present / present.sum() if self.prior == "pooled" else np.ones(len(present))

    def _sizes(self, class_sizes: Ints, rng: np.random.Generator) -> Ints | None:
        """The client sizes where they are settled beforehand."""
        if self.per == "class":
            return None
        total = int(class_sizes.sum())
        if self.size_spread:
            return apportion(total, lognormal_shares(self.clients, self.size_spread, rng))
        return even_sizes(total, self.clients)
