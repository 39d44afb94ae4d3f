"""A site at work: join, answer questions until the run is over, come back after every failure."""

import time
from collections.abc import Callable
from pathlib import Path

from unalike.deploy.audit import Audit
from unalike.deploy.joining import hello, join
from unalike.deploy.messages import LIMIT, Damaged, Message, MessageError, decode, encode, message
from unalike.deploy.network import POLL, Line
from unalike.deploy.policy import Policy
from unalike.deploy.site import Site
from unalike.errors import RunError
from unalike.federation.data import Examples

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
                "join again: it continues with the state that it has."
            ) from None


def _joined(
    name: str, examples: Examples, line: Line, folder: Path, policy: Policy, audit: Audit
) -> Site:
    raw = encode(message("hello", "", 0, name, note=hello(examples)))
    audit.append("sent", "coordinator", "hello", 0, raw)
    answer = line.call("Hello", raw, LIMIT, 60)
    while not answer:  # the others are not here yet
        time.sleep(0.5)
        answer = line.call("Hello", b"", LIMIT, 60)
    m = _read(answer)
    if m.kind != "welcome":
        raise MessageError("the coordinator did not answer with a welcome.")
    audit.append("received", "coordinator", m.kind, 0, answer)
    place = folder / "runs" / m.head.run
    return Site(name, join(examples, m), place, policy, line.credentials)


def _read(raw: bytes) -> Message:
    """A message of the coordinator's; one that was damaged is asked for again."""
    try:
        return decode(raw)
    except Damaged as error:
        raise ConnectionError(str(error)) from None


def _asked(line: Line, audit: Audit) -> Message | None:
    """The next question, if there is one by now."""
    raw = line.call("Next", b"", LIMIT, POLL + 30)
    if not raw:
        return None
    question = _read(raw)
    audit.append("received", "coordinator", question.kind, question.head.number, raw)
    return question


def _answered(
    site: Site, line: Line, question: Message, audit: Audit, say: Callable[[str], None]
) -> None:
    answer = site.answer(question)
    if answer.kind == "refusal":
        say(f"refused '{question.kind}': {answer.note['why']}")
    elif question.kind == "train":
        say(f"trained in round {question.note['round'] + 1}")
    told = encode(answer)
    audit.append("sent", "coordinator", answer.kind, answer.head.number, told)
    try:
        line.call("Answer", told, LIMIT, 600)
    except MessageError as error:  # too late, or the coordinator has another question by now
        say(f"an answer was turned away: {error}")
