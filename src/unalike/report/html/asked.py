"""The skew requested of every partition beside what its clients got."""

from typing import Any

from unalike.report.records import Study
from unalike.report.skew import DECIMALS
from unalike.tables.format import decimal, whole


def asked(study: Study) -> list[tuple[str, str]]:
    """By partition: each skew that was asked for with what came of it over the seeds."""
    return [(name, "; ".join(words)) for name in study.partitions if (words := _words(study, name))]


def _words(study: Study, partition: str) -> list[str]:
    by_seed = {p.seed: r.data for p, r in study.begun if p.partition == partition and r.data}
    goals: dict[str, list[dict[str, Any]]] = {}
    for data in by_seed.values():
        for goal in data.get("asked", []):
            goals.setdefault(goal["what"], []).append(goal)
    words = [f"{what}: {_outcome(same)}" for what, same in goals.items()]
    left = [data.get("unused", 0) for data in by_seed.values()]
    if any(left):
        few, many = whole(min(left)), whole(max(left))
        words.append(f"{few if few == many else f'{few} to {many}'} examples unused")
    return words


def _outcome(goals: list[dict[str, Any]]) -> str:
    """One goal over the seeds."""
    values = [goal["got"] for goal in goals]
    wanted, mean, least, most = (
        decimal(v, DECIMALS)
        for v in (goals[0]["asked"], sum(values) / len(values), min(values), max(values))
    )
    words = f"asked for {wanted}, got {mean}"
    if len(values) == 1:
        return words
    return f"{words} on average over {len(values)} seeds ({least} to {most})"
