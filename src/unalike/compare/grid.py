"""The numbers of a comparison as arrays by condition, method and seed, and what its seeds share."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from unalike.compare.settings import Judging
from unalike.compare.spec import Comparison
from unalike.compare.statistics.differences import Design
from unalike.compare.statistics.known import Array
from unalike.compare.statistics.reuse import Reuse, resplit
from unalike.compare.statistics.speed import target
from unalike.metrics.catalogue import POOLED, higher, metric
from unalike.metrics.rounds import rounds_to_target

Record = dict[str, Any]


class Grid(NamedTuple):
    """The axes of the arrays."""

    conditions: list[str]
    labels: list[str]
    seeds: list[int]

    def array(self, records: Sequence[Record], value: Callable[[Record], float | None]) -> Array:
        """A number of each record, nan where there is none."""
        out = np.full((len(self.conditions), len(self.labels), len(self.seeds)), np.nan)
        for r in records:
            at = self.conditions.index(r["condition"]), self.labels.index(r["label"])
            found = value(r)
            out[*at, self.seeds.index(r["seed"])] = math.nan if found is None else found
        return out


def grid(made: Comparison) -> Grid:
    """All that was requested."""
    return Grid(made.conditions, made.labels, list(dict.fromkeys(c.seed for c in made.cells)))


def design(made: Comparison, records: Sequence[Record]) -> Design:
    """How the conditions are tested."""
    first = {c.condition: c for c in reversed(made.cells)}
    reuse = []
    for condition in made.conditions:
        found = [r["rows"] for r in records if r["condition"] == condition and r.get("rows")]
        split = first[condition].config.split
        reuse.append(
            _reuse(made.judging, found) if found else resplit(split.test, split.validation)
        )
    if made.judging.rows == "these":
        reuse = [Reuse()] * len(reuse)
    sources = [
        json.dumps(first[c].config.resolved()["data"], sort_keys=True) for c in made.conditions
    ]
    return Design(made.judging.test, reuse, sources)


def _reuse(judging: Judging, rows: Sequence[Mapping[str, int]]) -> Reuse:
    """What the seeds of a condition share: one test set, or rows that each splits anew.

    Unused rows might have been drawn, so seeds share less if there are any.
    """
    if judging.section == POOLED and rows[0]["own"]:
        return Reuse(fixed=rows[0]["own"] if metric(judging.metric).of_rows else None)
    tested = "new" if judging.section == "new" else "test"
    ratios = [r[tested] / max(r["train"] + r["unused"], 1) for r in rows]
    return Reuse(sum(ratios) / len(ratios))


TICK = 1e-6  # seconds, the least that a record tells


class Spent(NamedTuple):
    """What was spent until a target, or in all where it was never reached."""

    rounds: Array
    bytes: Array  # nan where nothing is sent, since no ratio is defined
    seconds: Array  # nan where no simulated clock tells them
    reached: Array  # nan where there is no run


def spent(made: Comparison, records: Sequence[Record], axes: Grid) -> Spent:
    """Until the stated target or, without one, a share of the baseline's best under each seed."""
    goals = _goals(made, records)
    found: dict[str, Sequence[float]] = {}
    for r in records:
        goal, curve = goals.get((r["condition"], r["seed"])), r.get("curve") or {}
        if goal is None or not curve.get("round"):
            continue
        values = (math.nan if v is None else v for v in curve["value"])
        scores = dict(zip(curve["round"], values, strict=True))
        first = rounds_to_target(scores, goal, higher(made.judging.metric))
        at = -1 if first is None else curve["round"].index(first)
        seconds = max(curve["seconds"][at], TICK) if "seconds" in curve else math.nan
        used = curve["round"][at], curve["bytes"][at] or math.nan, seconds
        found[r["id"]] = *used, float(first is not None)

    def number(i: int) -> Array:
        return axes.array(records, lambda r: found[r["id"]][i] if r["id"] in found else None)

    return Spent(*(number(i) for i in range(4)))


def _goals(made: Comparison, records: Sequence[Record]) -> dict[tuple[str, int], float]:
    """The target by condition and seed."""
    judging, out = made.judging, {}
    best = max if higher(judging.metric) else min
    for r in records:
        values = [v for v in (r.get("curve") or {}).get("value", ()) if v is not None]
        if judging.target is not None:
            out[r["condition"], r["seed"]] = judging.target
        elif r["label"] == made.baseline and values:
            out[r["condition"], r["seed"]] = target(best(values), higher(judging.metric))
    return out
