"""From records to the numbers of a picture: one function for each."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unalike.federation.skew import emd_per_client
from unalike.metrics.catalogue import POOLED, SECTIONS, TESTS
from unalike.report.records import Record, Run, Study

OF_CLIENTS = (
    "accuracy",
    "rmse",
    "mae",
    "r2",
    "loss",
    "f1",
    "ece",
)  # metrics in the table of clients


class Weights(NamedTuple):
    """The weights of the clients over rounds, and all the methods that gave just these."""

    methods: list[str]
    records: list[Record]
    sizes: NDArray[np.float64]


def judged(study: Study, run: Run) -> Record | None:
    """The record of the round that represents a run: the selected one, or the last evaluated."""
    if run.summary is None:
        return None
    place = run.summary[study.chosen] or run.summary["last"]
    return next((r for r in run.evaluated if r["round"] == place["round"]), None)


def section_of(study: Study) -> str:
    """The test the study looks at, or the first there is."""
    for _, run in study.begun:
        if run.evaluated:
            there = run.evaluated[-1]["metrics"]
            return next(s for s in (study.section, *TESTS, *there) if s in there)
    return study.section


def spread_over_clients(study: Study) -> bool:
    """Whether a run has a number for each client; the global test has one for all of them."""
    return section_of(study) != POOLED


def curves(study: Study, partition: str) -> list[Record]:
    """The metric of every evaluated round of every run, with what was spent by then.

    That is bytes, and seconds of the simulated clock where a run has one.
    """
    section, out = section_of(study), []
    for place, run in study.begun:
        if place.partition != partition:
            continue
        sent = accumulate(r["bytes_down"] + r["bytes_up"] + r["bytes_across"] for r in run.rounds)
        ticked = accumulate(r.get("clock", 0.0) for r in run.rounds)
        timed = any("clock" in r for r in run.rounds)  # a skipped round may have none
        for record, total, now in zip(run.rounds, sent, ticked, strict=True):
            if record["metrics"] and section in record["metrics"]:
                spread = record["metrics"][section].get(study.metric, {})
                out.append(
                    {
                        "method": place.method,
                        "round": record["round"],
                        "bytes": total,
                        **({"clock": now} if timed else {}),
                        study.metric: spread.get(study.statistic),
                    }
                )
    return out


def tests(study: Study) -> list[Record]:
    """The rows of ``curves`` of a single run, with its tests in the place of methods."""
    out = []
    for section, name in SECTIONS.items():
        if any(section in r["metrics"] for _, run in study.begun for r in run.evaluated):
            here = replace(study, section=section)
            out += [{**row, "method": name} for row in curves(here, study.partitions[0])]
    return out


def frontier(study: Study, partition: str) -> list[Record]:
    """Mean over clients and mean of the worst tenth of every run."""
    section, out = section_of(study), []
    for place, run in study.begun if spread_over_clients(study) else ():
        record = judged(study, run)
        if place.partition == partition and record is not None:
            spread = record["metrics"].get(section, {}).get(study.metric, {})
            if None not in (spread.get("mean"), spread.get("worst10")):
                out.append(
                    {"method": place.method, "mean": spread["mean"], "worst": spread["worst10"]}
                )
    return out


def means(points: Sequence[Record]) -> dict[str, tuple[float, float]]:
    """Means over the points of the frontier by method, as the table has them."""
    each: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        each.setdefault(point["method"], []).append((point["mean"], point["worst"]))
    return {
        method: (float(np.mean([m for m, _ in of])), float(np.mean([w for _, w in of])))
        for method, of in each.items()
    }


def clients(study: Study, partition: str) -> dict[str, tuple[list[float], list[float]]]:
    """By method, every client's metric and its number of test examples, seeds one after another."""
    section = section_of(study)
    out: dict[str, tuple[list[float], list[float]]] = {}
    for place, run in study.begun if spread_over_clients(study) else ():
        record = judged(study, run)
        if place.partition != partition or record is None:
            continue
        line = run.clients(record["round"]) or {}
        found = line.get(section, {})
        if study.metric in found:
            values, sizes = out.setdefault(place.method, ([], []))
            values += [np.nan if v is None else v for v in found[study.metric]]
            sizes += found["n"]
    return out


def reliability(study: Study, partition: str) -> dict[str, dict[str, NDArray[np.float64]]]:
    """By method, the bins of all seeds together."""
    section = section_of(study)
    found: dict[str, list[Record]] = {}
    for place, run in study.begun:
        record = judged(study, run)
        if place.partition == partition and record is not None:
            line = run.clients(record["round"]) or {}
            bins = line.get("reliability", {}).get(section)
            if bins is not None and sum(bins["counts"]):
                found.setdefault(place.method, []).append(bins)
    return {method: _pooled(bins) for method, bins in found.items()}


def _pooled(bins: Sequence[Record]) -> dict[str, NDArray[np.float64]]:
    counts = np.array([b["counts"] for b in bins], float)
    total = counts.sum(0)
    out = {"counts": total}
    for key in ("accuracy", "confidence"):
        sums = (counts * np.nan_to_num(np.array([b[key] for b in bins], float))).sum(0)
        out[key] = np.divide(sums, total, out=np.full_like(sums, np.nan), where=total > 0)
    return out


def weights(study: Study, partition: str) -> list[Weights]:
    """The weights of every method's first seed; methods with the same weights are put together."""
    out: list[Weights] = []
    seen: set[str] = set()
    for place, run in study.begun:
        records = [r for r in run.rounds if r["clients"]]
        if place.partition != partition or place.method in seen or not records or not run.data:
            continue
        if _serverless(run):
            continue
        seen.add(place.method)
        same = next((w for w in out if _alike(w.records, records)), None)
        if same is None:
            sizes = np.array(run.data["counts"], float).sum(1)
            out.append(Weights([place.method], records, sizes))
        else:
            same.methods.append(place.method)
    return out


def _serverless(run: Run) -> bool:
    """Whether every client is its own server: it counts 1 there, and the combination tells more."""
    counted = (w for r in run.rounds for w in r["weights"])
    return any("mixing" in r for r in run.rounds) and all(w == 1 for w in counted)


def regret(study: Study, partition: str) -> list[Record]:
    """The regret of the weights and its bound after every round of the runs that record them."""
    return [
        {"method": m, **{k: r[k] for k in ("round", "regret", "regret_bound")}}
        for m, r in _records(study, partition, "regret")
    ]


def backdoor(study: Study, partition: str) -> list[Record]:
    """How often the trigger of a backdoor works, and what is mistaken without it."""
    return [
        {"method": m, "round": r["round"], "leak": r["backdoor"], "without": r["backdoor_clean"]}
        for m, r in _records(study, partition, "backdoor")
        if r["backdoor_clean"] is not None
    ]


def membership(study: Study, partition: str) -> list[Record]:
    """How well losses tell training rows, mean over clients; half is a coin."""
    return [
        {"method": m, "round": r["round"], "leak": r["membership"]["mean"], "without": 0.5}
        for m, r in _records(study, partition, "membership")
    ]


def _records(study: Study, partition: str, name: str) -> Iterator[tuple[str, Record]]:
    """The method and the record of every round that has such a number."""
    for place, run in study.begun:
        if place.partition == partition:
            yield from ((place.method, r) for r in run.rounds if name in r)


def consensus(study: Study, partition: str) -> list[Record]:
    """How far servers were from their mean in every evaluated round of the runs that have some."""
    return [
        {"method": m, "round": r["round"], "consensus": r["consensus"]}
        for m, r in _records(study, partition, "consensus")
    ]


def nodes(run: Run, metric: str) -> tuple[list[int], list[list[float]]]:
    """The evaluated rounds, and the metric of every server on the common test rows in each."""
    found = {r["round"]: run.clients(r["round"]) or {} for r in run.evaluated}
    rows = {
        t: line["nodes"][metric] for t, line in found.items() if metric in line.get("nodes", {})
    }
    return list(rows), list(rows.values())


def _alike(a: Sequence[Record], b: Sequence[Record]) -> bool:
    return len(a) == len(b) and all(
        x["clients"] == y["clients"] and np.allclose(x["weights"], y["weights"], atol=1e-6)
        for x, y in zip(a, b, strict=True)
    )


def first_run(study: Study, partition: str) -> Run | None:
    """A run whose records describe the partition: that of its first seed."""
    return next((r for c, r in study.begun if c.partition == partition and r.data), None)


def client_rows(run: Run) -> list[Record]:
    """What is known of every client of a run: its data, its part in the rounds, its results."""
    if not run.data:
        return []
    counts = np.array(run.data["counts"], float)
    names = run.data.get("classes") or [str(c) for c in range(counts.shape[1])]
    n, marks = len(counts), run.data.get("marks")
    taken, last = np.zeros(n, int), np.full(n, np.nan)
    for record in run.rounds:
        ids = np.array(record["clients"], int)
        known = ids < n
        taken[ids[known]] += 1
        last[ids[known]] = np.array(record["weights"], float)[known]
    line: dict[str, Any] = {}
    if run.evaluated:
        line = (run.clients(run.evaluated[-1]["round"]) or {}).get("local", {})
    distance, tested = emd_per_client(counts), line.get("n", [])
    apart, own = run.data.get("features", {}).get("mmd", []), _serverless(run)
    rows = [
        {
            "client": (run.data.get("names") or range(n))[k],
            **({"mark": ", ".join(marks[k])} if marks else {}),
            "examples": int(counts[k].sum()),
            **({"test rows": int(tested[k])} if len(tested) == n else {}),
            "largest class": names[int(counts[k].argmax())],
            "EMD": float(distance[k]),
            **({"MMD": apart[k]} if any(v is not None for v in apart) else {}),
            "rounds": int(taken[k]),
            **({} if own else {"last weight": None if np.isnan(last[k]) else float(last[k])}),
        }
        for k in range(n)
    ]
    for metric in OF_CLIENTS:
        if len(line.get(metric, [])) == n:
            for row, value in zip(rows, line[metric], strict=True):
                row[metric] = value
    return rows
