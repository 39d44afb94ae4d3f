"""The summary of a finished run: the last and the selected round, and what they cost."""

import math
from typing import Any

from unalike.metrics.catalogue import TESTS, higher
from unalike.metrics.rounds import bytes_to_target, rounds_to_target
from unalike.run.alarm import first_said
from unalike.run.configuration.evaluation import EvaluationSettings


def selected_round(records: list[dict[str, Any]], metric: str) -> int | None:
    """The evaluated round with the best mean validation metric; never looks at test data."""
    scores: dict[int, float] = {
        r["round"]: r["metrics"]["validation"][metric]["mean"]
        for r in records
        if r["metrics"] and metric in r["metrics"].get("validation", {})
    }
    scores = {t: v for t, v in scores.items() if v is not None}
    if not scores:
        return None
    best = max if higher(metric) else min
    return best(scores, key=lambda t: scores[t])


def summarise(
    records: list[dict[str, Any]], settings: EvaluationSettings, main: str
) -> dict[str, Any]:
    """Last and selected round side by side; bytes in total and at peak; rounds to a target.

    ``main`` is the metric that the task is first of all judged by.
    """
    judged = [r for r in records if r["metrics"]]
    select = main if settings.select == "auto" else settings.select
    chosen = selected_round(records, select)
    traffic = [r["bytes_down"] + r["bytes_up"] + r["bytes_across"] for r in records]
    by_round = {r["round"]: r for r in judged}
    out: dict[str, Any] = {
        "rounds": len(records),
        "last": {"round": judged[-1]["round"], **_tests(judged[-1])},
        "selected_on": f"validation {select}, mean over clients",
        "selected": None if chosen is None else {"round": chosen, **_tests(by_round[chosen])},
        "bytes_down": sum(r["bytes_down"] for r in records),
        "bytes_up": sum(r["bytes_up"] for r in records),
        "bytes_across": sum(r["bytes_across"] for r in records),
        "bytes_peak": max(b - r["bytes_before"] for b, r in zip(traffic, records, strict=True)),
        "bytes_at_once": max(r.get("bytes_at_once", 0) for r in records),
        "bytes_link": max(r.get("bytes_link", 0) for r in records),
        "messages": sum(r["messages"] for r in records),
        **{k: sum(r.get(k, 0) for r in records) for k in ("parameters", "parameters_all")},
        "samples": sum(r.get("samples", 0) for r in records),
        "rejected": sum(len(r["rejected"]) for r in records),
        "skipped": sum(bool(r["skipped"]) for r in records),
        "noted": sum(bool(r["notes"]) for r in records),
    }
    if (exploded := first_said(records)) is not None:
        out["exploded"] = exploded
    fitted = [
        loss
        for r in judged
        if (loss := r["metrics"].get("train", {}).get("loss", {}).get("weighted_mean")) is not None
    ]
    if fitted:
        out["train_loss"] = min(fitted)
    apart = [r["divergence"] for r in judged if "divergence" in r]
    if apart:
        out["divergence"] = apart[-1]
    if "backdoor" in judged[-1]:
        success, clean = (judged[-1][k] for k in ("backdoor", "backdoor_clean"))
        out["backdoor"] = {"success": success, "clean": clean}
    if "membership" in judged[-1]:
        out["membership"] = {k: judged[-1]["membership"][k] for k in ("mean", "worst")}
    if "fid" in judged[-1]:
        told = ("fid", "kid", "fid_rows", "coverage")
        out["made"] = {k: judged[-1][k] for k in told if k in judged[-1]}
    played = [r for r in records if "regret" in r]
    if played:
        out["regret"] = {"value": played[-1]["regret"], "bound": played[-1]["regret_bound"]}
    timed = {r["round"]: r["clock"] for r in records if "clock" in r}
    if timed:
        out["clock"] = round(sum(timed.values()), 6)
    if settings.target is not None:
        section = "global" if "global" in judged[-1]["metrics"] else "local"
        value = {r["round"]: r["metrics"][section][main]["mean"] for r in judged}
        value = {t: math.nan if v is None else v for t, v in value.items()}
        sent = {r["round"]: b for r, b in zip(records, traffic, strict=True)}
        out["target"] = {
            main: settings.target,
            "section": section,
            "round": rounds_to_target(value, settings.target, higher(main)),
            "bytes": bytes_to_target(value, sent, settings.target, higher(main)),
        }
        first = out["target"]["round"]
        if timed:
            reached = sum(s for t, s in timed.items() if first is not None and t <= first)
            out["target"]["clock"] = None if first is None else round(reached, 6)
    return out


def _tests(record: dict[str, Any]) -> dict[str, Any]:
    return {s: record["metrics"][s] for s in TESTS if s in record["metrics"]}
