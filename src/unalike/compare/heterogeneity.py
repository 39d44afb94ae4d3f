"""How much clients' optima differ: what one model for all costs on the training rows.

Gamma = F* - sum_k v_k F_k*          (Li et al. 2020), v_k = n_k / n

F* is the least training loss of one model for all rows, F_k* that of client k alone. ``pooled`` and
``local_only`` approach them; each is represented by the lowest weighted mean of its evaluated
rounds.
"""

from collections.abc import Iterable
from statistics import mean, stdev
from typing import Any, NamedTuple

TOGETHER, ALONE = "pooled", "local_only"


class Gamma(NamedTuple):
    """Of one condition, over the seeds that both methods have."""

    condition: str
    n: int
    mean: float
    std: float | None  # None for one seed


def gammas(records: Iterable[dict[str, Any]]) -> list[Gamma]:
    """For every condition under which both methods were tested on training rows."""
    lowest: dict[str, dict[str, dict[int, float]]] = {}
    for r in records:
        if r["method"] in (TOGETHER, ALONE) and r.get("train_loss") is not None:
            by_seed = lowest.setdefault(r["condition"], {}).setdefault(r["method"], {})
            by_seed[r["seed"]] = min(r["train_loss"], by_seed.get(r["seed"], r["train_loss"]))
    found = []
    for condition, losses in lowest.items():
        together, alone = losses.get(TOGETHER, {}), losses.get(ALONE, {})
        values = [together[s] - alone[s] for s in together if s in alone]
        if values:
            std = stdev(values) if len(values) > 1 else None
            found.append(Gamma(condition, len(values), mean(values), std))
    return found
