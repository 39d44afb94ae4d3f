"""Sites that vanish: the others neither wait for them in every round nor stop at a restart."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from deployed import NAMES, Stopped, Without, examples, greeting, ports, together
from safetensors.torch import load_file

from unalike.deploy import desk as desks
from unalike.deploy import serving
from unalike.deploy.audit import Audit
from unalike.deploy.desk import Desk, NotJoined
from unalike.deploy.frames import encode
from unalike.deploy.messages import MessageError, message
from unalike.deploy.network import Line, Listener
from unalike.deploy.policy import Policy
from unalike.deploy.serving import serve
from unalike.deploy.working import work
from unalike.errors import RunError
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import assemble, task
from unalike.run.folder.records import read_lines

TWO, THREE = NAMES[:2], NAMES[:3]
RAW: dict[str, Any] = {
    "rounds": 4,
    "seed": 3,
    "model": {"name": "mlp", "hidden": [6]},
    "method": {"name": "scaffold"},
    "local": {"epochs": 1, "batch_size": 16, "lr": 0.1},
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "AWAY", 0.4)
    monkeypatch.setattr(desks, "LOOK", 0.02)
    monkeypatch.setattr(serving, "AWAY", 1.5)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Two sites have come, and the first asks for work from now on."""
    made = Desk(TWO, Audit(tmp_path / "audit.jsonl"))
    for name in TWO:
        made.hello(name, greeting(name))

    def there() -> None:
        while not made.closed:
            made.next(TWO[0], 0.1)

    thread = threading.Thread(target=there, daemon=True)
    thread.start()
    yield made
    made.close()
    thread.join(5)


def question(number: int) -> Any:
    return message("survey", "run", number, "coordinator")


@pytest.mark.parametrize(("fewest", "waits"), [(1, False), (2, True)])
def test_who_is_away_is_not_waited_for_if_enough_are_here(
    fewest: int, waits: bool, desk: Desk
) -> None:
    desk.fewest = fewest
    begun = time.monotonic()
    ((site, why),) = desk.ask({TWO[1]: question(1)}, 1.5)
    took = time.monotonic() - begun
    assert (site, took >= 1.5) == (TWO[1], waits)
    assert why == "no answer within 1.5 seconds" if waits else str(why).startswith("silent for ")
    begun = time.monotonic()
    list(desk.ask({TWO[1]: question(2)}, 0.5))
    assert (time.monotonic() - begun >= 0.5) == waits, "in the next round nobody waits at all"


def test_who_has_fetched_its_question_is_at_work_and_not_away(desk: Desk) -> None:
    timer = threading.Timer(0.2, desk.next, [TWO[1], 0.0])
    timer.start()
    ((_, why),) = desk.ask({TWO[1]: question(1)}, 1.0)
    assert why == "no answer within 1 seconds"


def test_an_answer_of_another_run_or_without_a_hello_is_turned_away(tmp_path: Path) -> None:
    desk = Desk(TWO, Audit(tmp_path / "audit.jsonl"))
    with pytest.raises(NotJoined):
        desk.answer(TWO[0], [encode(message("answer", "run", 1, TWO[0]))])
    desk.hello(TWO[0], greeting(TWO[0]))
    asking = desk.ask({TWO[0]: question(1)}, 5.0)
    threading.Thread(target=lambda: list(asking), daemon=True).start()
    desk.next(TWO[0], 2.0)
    with pytest.raises(MessageError, match="'older' is another run"):
        desk.answer(TWO[0], [encode(message("answer", "older", 1, TWO[0]))])
    desk.close()


def test_other_data_than_at_the_beginning_are_refused(tmp_path: Path) -> None:
    desk = Desk(TWO, Audit(tmp_path / "audit.jsonl"))
    desk.hello(TWO[0], greeting(TWO[0]))
    known = desk.arrivals(0)
    other = Desk(TWO, Audit(tmp_path / "audit.jsonl"))
    other.hello(TWO[0], greeting(TWO[0]))
    with pytest.raises(RunError, match="are not what they were when the run began"):
        other.remember({TWO[0]: known[TWO[0]].model_copy(update={"rows": 3})})


def test_a_coordinator_that_is_started_again_goes_on_without_who_is_gone(tmp_path: Path) -> None:
    """One site leaves for good after the first round, and the coordinator is killed after it."""
    at, config = ports(("coordinator",))["coordinator"], parse(RAW)
    sites = {}

    def join(name: str) -> None:
        line = Line(name, at, None)

        def leaves(text: str) -> None:
            if name == "north" and text.startswith("trained in round 2"):
                raise Stopped

        with suppress(RunError, Stopped):
            work(name, examples(name), line, tmp_path / name, Policy(), leaves, 20.0)
        line.close()

    def stops(text: str) -> None:
        said.append(text)
        if text.startswith("round 2"):
            raise Stopped

    said = list[str]()
    for _ in range(2):
        desk = Desk(THREE, Audit(tmp_path / "run" / "audit.jsonl"))
        listener = Listener(desk, at, None)
        if not sites:
            sites = {n: threading.Thread(target=join, args=(n,), daemon=True) for n in THREE}
            for thread in sites.values():
                thread.start()
        with suppress(Stopped):
            serve(config, THREE, tmp_path / "run", desk, stops, seconds=3.0, arrive=30)
        listener.close()
    assert "continuing without north until they are back" in said
    there = [r["clients"] for r in read_lines(tmp_path / "run" / "rounds.jsonl")]
    data = together(THREE, 3)
    i = data.names.index("north")
    assert there == [[0, 1, 2], *[[j for j in range(3) if j != i]] * 3]

    near = assemble(config, data, task(config, data.examples))
    near.course.transport = Without(near.course.transport, {i: range(1, 9)})
    progress = near.course.begin()
    for t in range(4):
        progress, _, _ = near.course.advance(progress, t)
    found = load_file(tmp_path / "run" / "model.safetensors")
    for k, x in progress.state.stack.x.items():
        assert torch.allclose(x[0], found[k], atol=1e-5), k
