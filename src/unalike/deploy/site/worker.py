"""A site at work: join, answer questions until the run is over, come back after every failure."""

import time
from collections.abc import Callable
from pathlib import Path

from unalike.deploy.security.audit import Audit
from unalike.deploy.setup.joining import hello, join
from unalike.deploy.site.policy import Policy
from unalike.deploy.site.site import Site
from unalike.deploy.wire.connection import POLL, TRANSFER, Line
from unalike.deploy.wire.frames import LIMIT, Arrived, Parcel, pack
from unalike.deploy.wire.messages import Damaged, Message, MessageError, message
from unalike.errors import RunError
from unalike.federation.data import Examples
from unalike.run.folder.records import alone

PATIENCE = 5.0  # seconds between attempts at most


def work(
    name: str,
    examples: Examples,
    line: Line,
    folder: Path,
    policy: Policy,
    say: Callable[[str], None],
    patience: float = float("inf"),
) -> Site:
    """Work until the coordinator says that the run is over.

    Args:
        name: The site's name, as in its certificate.
        examples: Its own data.
        line: To the coordinator.
        folder: Where state and audit log are kept.
        policy: What it agrees to.
        say: Called with what a person may want to read.
        patience: Seconds to go on trying while the coordinator cannot be reached.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):  # two with one log and one state would break both
        return _work(name, examples, line, folder, policy, say, patience)


def _work(
    name: str,
    examples: Examples,
    line: Line,
    folder: Path,
    policy: Policy,
    say: Callable[[str], None],
    patience: float,
) -> Site:
    audit, silent, said = Audit(folder / "audit.jsonl"), time.monotonic(), False
    while True:
        try:
            site = _joined(name, examples, line, folder, policy, audit)
            said = False
            say(f"joined as client {site.joined.number} of run {site.joined.run}")
            while not site.finished:
                question = _asked(line, audit)
                silent = time.monotonic()
                if question is not None:
                    _answered(site, line, question, audit, say)
                    del question  # a model, which is not needed while waiting
            return site
        except ConnectionError as error:
            gone = time.monotonic() - silent
            if gone > patience:
                raise RunError(f"the coordinator cannot be reached: {error}.") from None
            if not said:  # once for each time that it is away
                say(f"the coordinator cannot be reached ({error}); trying again until it can")
            said = True
            time.sleep(min(PATIENCE, 0.2 + gone / 4))
        except OSError as error:
            raise RunError(
                f"site '{name}' cannot write to '{folder}' ({error.strerror}); make room, then "
                "join again: it continues with the state it has."
            ) from None


def _joined(
    name: str, examples: Examples, line: Line, folder: Path, policy: Policy, audit: Audit
) -> Site:
    told = pack(message("hello", "", 0, name, note=hello(examples, policy.tell)))
    audit.append("sent", "coordinator", "hello", 0, told)
    answer = _called(line, "Hello", told, 60)
    while answer is None:  # the others are not here yet
        time.sleep(0.5)
        answer = _called(line, "Hello", b"", 60)
    m = answer.message
    if m.kind != "welcome":
        raise MessageError("the coordinator did not answer with a welcome.")
    audit.append("received", "coordinator", m.kind, 0, answer)
    place = folder / "runs" / m.head.run
    return Site(name, join(examples, m), place, policy, line.credentials)


def _called(line: Line, name: str, told: Parcel | bytes, seconds: float) -> Arrived | None:
    """The coordinator's message, if any; a damaged one is requested again."""
    try:
        arrived = line.call(name, told, LIMIT, seconds)
    except Damaged as error:
        raise ConnectionError(str(error)) from None
    if arrived is not None and arrived.message.kind == "ended":
        why = str(arrived.message.note.get("why"))
        if arrived.message.note.get("failed"):
            raise RunError(f"the coordinator has ended the run: {why}")
        raise ConnectionError(why)
    return arrived


def _asked(line: Line, audit: Audit) -> Message | None:
    """The next question, if there is one by now."""
    arrived = _called(line, "Next", b"", POLL + TRANSFER)
    if arrived is None:
        return None
    head = arrived.message.head
    audit.append("received", "coordinator", head.kind, head.number, arrived)
    return arrived.message


def _answered(
    site: Site, line: Line, question: Message, audit: Audit, say: Callable[[str], None]
) -> None:
    answer = site.answer(question)
    if answer.kind == "refusal":
        say(f"refused '{question.kind}': {answer.note['why']}")
    elif question.kind == "train":
        say(f"trained in round {question.note['round'] + 1}")
    told = pack(answer)
    audit.append("sent", "coordinator", answer.kind, answer.head.number, told)
    try:
        line.call("Answer", told, LIMIT, TRANSFER)
    except MessageError as error:  # too late, or the coordinator has another question by now
        say(f"an answer was refused: {error}")
