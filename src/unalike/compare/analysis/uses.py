"""What methods used of their budgets, and of what the baseline used."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from unalike.compare.specification.spec import Comparison

Record = dict[str, Any]
MORE = 1.01  # times the baseline's use from which on a method is said to have used more
LESS = 0.9  # times the budget below which a method is said to have left some of it
LEDGER = ("bytes", "samples", "rounds")


class Use(NamedTuple):
    """How often a method used up what it was given, or what the baseline used."""

    of: str  # bytes, samples or rounds
    times: float  # infinite if that was nothing
    budget: bool  # whether it is compared with a stated budget, not with the baseline


def ledger(records: Sequence[Record]) -> dict[str, float]:
    """Means over runs."""
    names = records[0]["ledger"]
    return {name: mean(r["ledger"][name] for r in records) or 0.0 for name in names}


def more(label: str, groups: Mapping[str, Sequence[Record]], made: Comparison) -> list[Use]:
    """What a method used more of than its budget or the baseline."""
    mine, base = _ledgers(label, groups, made)
    out, budget = [], made.budget
    for name in LEDGER:
        limit = budget.amount if name == budget.kind and budget.amount is not None else None
        if limit is not None and mine[name] > limit:
            out.append(Use(name, mine[name] / limit, budget=True))
        elif base is not None and label != made.baseline and mine[name] > MORE * base[name]:
            times = mine[name] / base[name] if base[name] else math.inf
            out.append(Use(name, times, budget=False))
    return out


def less(label: str, groups: Mapping[str, Sequence[Record]], made: Comparison) -> list[Use]:
    """What a method left of a budget of samples or bytes."""
    mine, base = _ledgers(label, groups, made)
    kind = made.budget.kind
    if kind == "rounds" or (made.budget.amount is None and base is None):
        return []
    limit = made.budget.amount or (base or {}).get(kind, 0.0)
    times = mine[kind] / limit if limit else 1.0
    return [Use(kind, times, budget=True)] if times < LESS else []


def _ledgers(
    label: str, groups: Mapping[str, Sequence[Record]], made: Comparison
) -> tuple[dict[str, float], dict[str, float] | None]:
    """(of a method, of the baseline) over the seeds both have; alone if there are none."""
    mine, base = groups[label], groups.get(made.baseline, ())
    seeds = {r["seed"] for r in mine} & {r["seed"] for r in base}
    if not seeds:
        return ledger(mine), None
    both = ([r for r in records if r["seed"] in seeds] for records in (mine, base))
    one, other = map(ledger, both)
    return one, other


def mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known."""
    found = [v for v in values if v is not None]
    return sum(found) / len(found) if found else None
