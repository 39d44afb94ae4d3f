"""The rounds of an experiment, one at a time, with what is written down about each."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from unalike.engine.evaluate import Evaluation
from unalike.engine.loop import Round, State
from unalike.run.build import Experiment
from unalike.run.stages import NOTHING, Spent
from unalike.run.summary import summarise


class Step(NamedTuple):
    """One round and what came of it."""

    round: int  # the first is 1
    state: State
    record: dict[str, Any]  # a line of rounds.jsonl
    clients: dict[str, Any] | None  # a line of clients.jsonl, if the round was evaluated
    seconds: float


def rounds(made: Experiment, state: State, done: int = 0) -> Iterator[Step]:
    """Every round after the first ``done``; the last one is always evaluated."""
    config = made.config
    for t in range(done, config.rounds):
        begun = time.perf_counter()
        state, report = made.loop.advance(state, t)
        judged = None
        if (t + 1) % config.evaluation.every == 0 or t + 1 == config.rounds:
            judged = made.evaluator(state)
        clients = None
        if judged is not None:
            clients = {"round": t + 1, **judged.clients, "reliability": judged.reliability}
        record = _record(report, judged, made.earlier if t == 0 else NOTHING)
        record = {"round": t + 1, **record}
        if made.accountant is not None:
            record["epsilon"] = round(made.accountant(t), 6)
        yield Step(t + 1, state, record, clients, round(time.perf_counter() - begun, 4))


def conclusion(made: Experiment, records: list[dict[str, Any]]) -> dict[str, Any]:
    """The summary of all rounds, with the privacy that was promised."""
    summary = summarise(records, made.config.evaluation)
    if made.accountant is not None:
        promise = made.accountant.promise
        summary["privacy"] = {
            "epsilon": records[-1]["epsilon"],
            "delta": promise.delta,
            "meaning": promise.meaning,
        }
    return summary


def _record(report: Round, judged: Evaluation | None, earlier: Spent) -> dict[str, Any]:
    traffic, before = report.traffic, earlier.traffic
    return {
        "clients": report.ids.tolist(),
        "weights": [round(float(p), 9) for p in report.weights],
        "rejected": {str(i): why for i, why in report.rejected.items()},
        "skipped": report.skipped,
        "notes": list(report.notes),
        **{name: _rounded(value) for name, value in report.logged.items()},
        "bytes_down": traffic.down + before.down,
        "bytes_up": traffic.up + before.up,
        "bytes_across": traffic.across + before.across,
        "bytes_before": before.total,  # of these, what was sent before the round began
        "messages": traffic.messages + before.messages,
        **report.worked,
        "samples": report.worked.get("samples", 0.0) + earlier.samples,
        "metrics": None if judged is None else judged.spread,
    }


def _rounded(value: float | Tensor) -> float | list[float]:
    """A number, or one for each client that answered."""
    if isinstance(value, Tensor):
        return [round(float(v), 9) for v in value]
    return round(value, 9)
