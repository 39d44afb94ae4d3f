"""The rounds of an experiment, one at a time, with what is written down about each."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from unalike.engine.course import Progress
from unalike.engine.evaluation.server import Evaluation
from unalike.engine.graph.consensus import Gap, distance
from unalike.engine.loop import Round
from unalike.engine.traffic.ledger import Traffic
from unalike.engine.traffic.links import Sent, per_link
from unalike.errors import RunError
from unalike.generator import refuse_draws, states
from unalike.own_code import blamed
from unalike.run.alarm import alarm, kept_back
from unalike.run.experiment.live import Experiment
from unalike.run.folder.origins import named
from unalike.run.folder.products import frame
from unalike.run.measures.divergence import recorded
from unalike.run.measures.fidelity import Fidelity
from unalike.run.measures.last_look import last_look
from unalike.run.measures.leaks import leaks
from unalike.run.summary import summarise

DEPLOYED = "deployed"  # of ``Experiment.engine``: clients are elsewhere
HOPELESS = 3  # rounds in a row whose answers were all refused
EDGES = 10_000  # entries of a combination matrix that a record holds; more would fill the disk
LINKS = 100  # whose bytes a record holds one by one


class Step(NamedTuple):
    """One round and what came of it."""

    round: int  # the first is 1
    progress: Progress
    record: dict[str, Any]  # a line of rounds.jsonl
    clients: dict[str, Any] | None  # a line of clients.jsonl, if the round was evaluated
    seconds: float
    judging: float  # of these, those of the evaluation
    judged: Evaluation | None = None


def rounds(made: Experiment, progress: Progress | None = None, done: int = 0) -> Iterator[Step]:
    """Every round after the first ``done``; the last one of a stage is always evaluated."""
    course, every = made.course, made.cadence.every
    last, refused, gap = {span.stop for span in course.spans}, 0, Gap()
    with blamed(named(made.config), "the features of real examples"):
        fidelity = Fidelity(made) if made.config.evaluation.fidelity else None
    for t in range(done, course.rounds):
        begun = time.perf_counter()
        with blamed(named(made.config), f"round {t + 1}"):
            if progress is None:
                progress = course.begin()
            with made.simulation.lone():
                progress, report, before = course.advance(progress, t)
        refused = refused + 1 if report.skipped and report.rejected else 0
        if refused == min(HOPELESS, course.rounds):
            raise RunError(_diverged(t, report))
        judged, trained = None, time.perf_counter()
        if (t + 1) % every == 0 or t + 1 in last:
            when, drawn = f"the evaluation of round {t + 1}", states()
            with blamed(named(made.config), when), made.simulation.lone():
                judged = made.evaluator(progress.state)
            if made.engine != DEPLOYED:  # there others judge, and a network's threads may draw
                refuse_draws(drawn, made.recipe.algorithm.task.network.seeds_global, when)
        judging = round(time.perf_counter() - trained, 4)
        clients = None
        if judged is not None:
            clients = {"round": t + 1, **judged.clients, "reliability": judged.reliability}
            clients |= {k: v for k in ("nodes", "line", "steps") if (v := getattr(judged, k))}
            clients |= last_look(made, progress.state) if t + 1 == course.rounds else {}
            for name, arrays in course.products(progress).items():
                if picture := frame(arrays, (t + 1) / course.rounds):
                    clients[name] = picture
        record = _record(report, judged, before) | _links(course.loop.sent)
        note = kept_back(made.simulation.states.unsound - report.rejected.keys())
        record["notes"] += [note] if note else []
        if judged is not None:
            task, e = made.recipe.algorithm.task, made.federation.examples
            note = alarm(judged.spread, task.ignorance(e.classes, e.x[0].numel()))
            record["notes"] += [note] if note else []
        if judged is not None and len(progress.state.mixing) > 1:
            record |= _together(report, progress, gap)
        if judged is not None:
            record |= leaks(made, progress.state)
            with blamed(named(made.config), f"the features of round {t + 1}"):
                record |= {} if fidelity is None else fidelity(made, progress)
        stage = {"stage": progress.stage + 1} if len(course.program) > 1 else {}
        record = {"round": t + 1, **stage, **record}
        if judged is not None and made.reference is not None:
            algorithm, key = made.recipe.algorithm, course.judging
            record |= recorded(algorithm, progress.state, made.reference, key)
        if t == 0:
            _count(record, made.earlier)
        if made.accountant is not None:
            record["epsilon"] = round(made.accountant(t), 6)
        seconds = round(time.perf_counter() - begun, 4)
        yield Step(t + 1, progress, record, clients, seconds, judging, judged)


def _diverged(t: int, report: Round) -> str:
    """What to say when nobody sends anything that can be used."""
    client, why = next(iter(report.rejected.items()))
    return (
        f"every update was refused for {HOPELESS} rounds in a row, or in all rounds, up to round "
        f"{t + 1} (client {client} sent {why}), so training has diverged; lower local.lr."
    )


def conclusion(made: Experiment, records: list[dict[str, Any]]) -> dict[str, Any]:
    """The summary of all rounds, with the privacy that was promised."""
    headline = made.recipe.algorithm.task.headline
    summary = summarise(records, made.config.evaluation, headline)
    if made.accountant is not None:
        promise = made.accountant.promise
        summary["privacy"] = {
            "epsilon": records[-1]["epsilon"],
            "delta": promise.delta,
            "meaning": promise.meaning,
        }
    return summary


def _record(report: Round, judged: Evaluation | None, before: Traffic) -> dict[str, Any]:
    traffic = report.traffic + before
    return {
        "clients": report.ids.tolist(),
        "weights": [round(float(p), 9) for p in report.weights],
        "rejected": {str(i): why for i, why in report.rejected.items()},
        "skipped": report.skipped,
        "notes": list(report.notes),
        **{name: _rounded(value) for name, value in report.logged.items()},
        **_told(report),
        "bytes_down": traffic.down,
        "bytes_up": traffic.up,
        "bytes_across": traffic.across,
        "bytes_before": before.total,  # of these, what was sent before the round began
        "bytes_at_once": report.load.at_once,
        "bytes_link": report.load.link,
        "messages": traffic.messages,
        **({} if report.seconds is None else {"clock": round(report.seconds, 6)}),
        **report.worked,
        "metrics": None if judged is None else judged.spread,
    }


def _links(moments: list[Sent]) -> dict[str, Any]:
    """The bytes of the round over each link, both directions together."""
    if not moments or sum(len(m.bytes) for m in moments) > 2 * LINKS:
        return {}
    ends, sizes = per_link(moments)
    return {"links": [[*pair, n] for pair, n in zip(ends.tolist(), sizes.tolist(), strict=True)]}


def _told(report: Round) -> dict[str, Any]:
    """What clients reported of the received model, and what servers made of their neighbours."""
    told: dict[str, Any] = {}
    if "loss" in report.stats:
        told["losses"] = _rounded(report.stats["loss"])
    edges = sum(len(row) for row in report.mixed.values())
    if 0 < edges <= EDGES:
        told["mixing"] = {
            str(j): {str(i): round(weight, 6) for i, weight in row.items()}
            for j, row in report.mixed.items()
        }
    return told


def _together(report: Round, progress: Progress, gap: Gap) -> dict[str, Any]:
    """How far servers are from their mean, and how fast the round's combination joins them."""
    state = progress.state
    found: dict[str, Any] = {"consensus": round(distance(state.stack.x), 9)}
    if report.mixed and (size := gap(report.mixed, len(state.mixing))) is not None:
        found["spectral_gap"] = round(size, 9)
    return found


def _count(record: dict[str, Any], earlier: dict[str, float]) -> None:
    """Add what a run in another folder, which this one builds on, has sent and computed."""
    for name, amount in earlier.items():
        record[name] += amount
        if name.startswith("bytes_"):
            record["bytes_before"] += amount


def _rounded(value: Any) -> Any:
    """A number, or one of each client, with as many digits as a record needs."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [_rounded(v) for v in value] if isinstance(value, list) else round(float(value), 9)
