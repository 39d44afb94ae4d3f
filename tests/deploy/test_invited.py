"""More sites are invited than a round needs: it ends with the first answers, late ones are lost.

What a site did in a round that it was not counted in is taken back, as in a simulation.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from deployed import NAMES, Deployed, Direct, Without, greeting, simulated

from unalike.deploy.audit import Audit
from unalike.deploy.desk import Desk
from unalike.deploy.frames import encode
from unalike.deploy.messages import Message, MessageError, message
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import assemble, guard_of, program, task


def raw(method: str = "fedavg", **more: Any) -> dict[str, Any]:
    return {
        "rounds": 4,
        "seed": 3,
        "model": {"name": "mlp", "hidden": [8]},
        "method": {"name": method},
        "local": {"epochs": 1, "batch_size": 16, "lr": 0.1},
        **more,
    }


class Racing(Direct):
    """All work, and in each round others are the first to answer."""

    def ask(
        self, questions: Mapping[str, Message], seconds: float
    ) -> Iterator[tuple[str, Message | str]]:
        answers = list(super().ask(questions, seconds))
        first = sum(m.note.get("round", 0) for m in questions.values()) // max(len(answers), 1)
        yield from answers[first:] + answers[:first]


def test_a_round_ends_with_the_answers_it_needs(tmp_path: Path) -> None:
    config = raw("scaffold", participation={"number": 3, "extra": 0.5})
    far = Deployed(config, tmp_path)
    far.exchange = far.remote.exchange = Racing(far.exchange.sites)
    progress, there = far.course.begin(), list[list[int]]()
    for t in range(4):
        progress, done, _ = far.course.advance(progress, t)
        there.append(done.ids.tolist())
    assert {len(ids) for ids in there} == {3}
    assert len({tuple(ids) for ids in there}) > 1, "the same won every time"

    data, everybody = simulated(3), parse(raw("scaffold"))  # five are invited, who are all
    near = assemble(everybody, data, task(everybody, data.examples))
    gone: dict[int, Any] = {i: {t for t in range(4) if i not in there[t]} for i in range(5)}
    near.course.transport = Without(near.course.transport, gone)
    wanted = near.course.begin()
    for t in range(4):
        wanted, _, _ = near.course.advance(wanted, t)
    for k, x in wanted.state.stack.x.items():
        assert torch.allclose(x, progress.state.stack.x[k], atol=1e-5), k


def test_a_round_with_too_few_answers_changes_nothing(tmp_path: Path) -> None:
    far = Deployed(raw("scaffold", faults={"min_replies": 4}), tmp_path)
    there = dict(far.exchange.sites)
    far.exchange.sites = {n: s for n, s in there.items() if n not in ("north", "west")}
    first = far.course.begin()
    second, done, _ = far.course.advance(first, 0)
    assert done.skipped == "3 usable answers, 4 needed"
    for k, x in first.state.stack.x.items():
        assert torch.equal(x, second.state.stack.x[k]), k
    far.exchange.sites = there
    third, done, _ = far.course.advance(second, 1)
    assert len(done.ids) == 5

    data, config = simulated(3), parse(raw("scaffold", faults={"min_replies": 4}))
    near = assemble(config, data, task(config, data.examples))
    gone = {far.agreed.names.index(n): range(1) for n in ("north", "west")}
    near.course.transport = Without(near.course.transport, gone)
    wanted = near.course.begin()
    for t in range(2):
        wanted, _, _ = near.course.advance(wanted, t)
    for k, x in wanted.state.stack.x.items():
        assert torch.allclose(x, third.state.stack.x[k], atol=1e-5), k


def test_whoever_is_late_hears_that_the_question_is_closed(tmp_path: Path) -> None:
    desk = Desk(NAMES[:2], Audit(tmp_path / "audit.jsonl"))
    for name in NAMES[:2]:
        desk.hello(name, greeting(name))
    questions = {n: message("survey", "run", 7, "coordinator") for n in NAMES[:2]}
    asking = desk.ask(questions, 20)
    answers = {n: encode(message("answer", "run", 7, n)) for n in NAMES[:2]}
    timer = threading.Timer(0.3, desk.answer, ["middle", [answers["middle"]]])
    timer.start()
    begun = time.monotonic()
    assert next(asking)[0] == "middle"
    asking.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begun < 10
    with pytest.raises(MessageError, match="question 7 is not open"):
        desk.answer("east", [answers["east"]])


@pytest.mark.parametrize(("plus", "counts"), [([], 1000.0), ([{"name": "dp"}], float("inf"))])
def test_a_promise_of_privacy_refuses_nobody_for_being_different(
    plus: list[dict[str, Any]], counts: float, tmp_path: Path
) -> None:
    far = Deployed(raw(plus=plus), tmp_path)
    stages, _ = program(far.config, task(far.config, far.agreed.shape.blank()), far.agreed.shape)
    assert guard_of(far.config, stages).explode == counts
