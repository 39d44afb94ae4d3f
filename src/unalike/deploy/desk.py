"""The coordinator's desk: one question at a time for each site, and the answers that come back.

Sites fetch their questions, so they only ever make outgoing connections. An answer counts once, and
only if it belongs to the site's current question: late, duplicate or invented answers are refused.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from unalike.deploy.agreement import Hello, read_hello
from unalike.deploy.audit import Audit
from unalike.deploy.exchange import AGAIN
from unalike.deploy.frames import CHUNK, LIMIT, Parcel, pack, read
from unalike.deploy.messages import Message, MessageError, message
from unalike.errors import RunError

LAST_WORD = 3.0  # seconds that sites have to receive it
AWAY = 60.0  # seconds of silence, of a site that has no work: those that are there ask every 20
LOOK = 1.0  # seconds between two checks of who is away
MOST = 2000  # characters of the message to sites when the coordinator leaves


class NotJoined(MessageError):
    """A site that has not contacted the coordinator since it was started."""


class Asked(NamedTuple):
    """A question that waits for its answer."""

    number: int
    message: Message  # its bytes are made when it is fetched: a model is not kept once a site


class Desk:
    """What coordinator and network threads share."""

    def __init__(self, names: Sequence[str], audit: Audit) -> None:
        """For sites of these names and no others."""
        self.names, self.audit = frozenset(names), audit
        self.limit = LIMIT
        self.fewest = 1  # sites that must answer before the time is up
        self.closed = False
        self._ending: Parcel | None = None
        self._left: set[str] = set()  # sites that have received it
        self._ready = threading.Condition()
        self._hellos: dict[str, Hello] = {}
        self._sessions: dict[str, int] = dict.fromkeys(names, 0)
        self._welcomes: dict[str, Parcel] = {}
        self._asked: dict[str, Asked] = {}
        self._answers: dict[str, Message | str] = {}
        self._seen = dict.fromkeys(names, time.monotonic())  # when each was last heard of
        self._busy: set[str] = set()  # those that have fetched the question that they have

    # What the network calls, in threads of its own.

    def hello(self, site: str, raw: bytes) -> Parcel | None:
        """Take a site's hello; return its welcome, once all sites are here."""
        with self._ready:
            self._known(site)
            if not raw:  # it only asks whether all sites are here
                self._joined(site)
                return self._ended(site) or self._welcomes.get(site)
            m = self._read(site, [raw], CHUNK)
            if m.kind != "hello":
                raise MessageError("a site begins with 'hello'.")
            told = read_hello(m)
            if self._hellos.setdefault(site, told) != told:
                raise MessageError("this site's data have changed since it joined.")
            self._sessions[site] += 1
            self._busy.discard(site)
            if self._asked.pop(site, None) is not None:
                self._answers[site] = AGAIN
            self._ready.notify_all()
            return self._welcomes.get(site)

    def next(self, site: str, seconds: float) -> Parcel | None:
        """The site's question; nothing if there is none within some seconds."""
        with self._ready:
            self._known(site)
            self._joined(site)
            self._ready.wait_for(
                lambda: site in self._asked or self.closed or self._ending is not None, seconds
            )
            if ending := self._ended(site):
                return ending
            asked = self._asked.get(site)
            if asked is None:
                return None
            self._busy.add(site)
        parcel = pack(asked.message)
        self.audit.append("sent", site, asked.message.kind, asked.number, parcel)
        return parcel

    def answer(self, site: str, pieces: Iterable[bytes]) -> None:
        """Take a site's answer to the question it has."""
        with self._ready:
            self._known(site)
            self._joined(site)
            asked = self._asked.get(site)
        m = self._read(site, pieces, self.limit)
        with self._ready:
            if asked is None or self._asked.get(site) is not asked or m.head.number != asked.number:
                raise MessageError(f"question {m.head.number} is not open for this site.")
            if m.head.run != asked.message.head.run:
                raise MessageError(f"'{m.head.run}' is another run.")
            if m.kind not in ("answer", "refusal"):
                raise MessageError(f"'{m.kind}' is not an answer.")
            del self._asked[site]
            self._busy.discard(site)
            self._answers[site] = m
            self._ready.notify_all()

    def _read(self, site: str, pieces: Iterable[bytes], limit: int) -> Message:
        arrived = read(pieces, limit)
        m = arrived.message
        if m.head.sender != site:
            raise MessageError(f"a message in the name of '{m.head.sender}' came from '{site}'.")
        self.audit.append("received", site, m.kind, m.head.number, arrived)
        return m

    def _known(self, site: str) -> None:
        if site not in self.names:
            raise MessageError(f"'{site}' is not a site of this run.")
        self._seen[site] = time.monotonic()

    def _joined(self, site: str) -> None:
        if not self._sessions[site]:
            raise NotJoined("a site says 'hello' before it asks for work.")

    # What the coordinator calls.

    def remember(self, hellos: Mapping[str, Hello]) -> None:
        """What sites said when the run began; their data may not change since."""
        with self._ready:
            for site, told in hellos.items():
                if self._hellos.setdefault(site, told) != told:
                    raise RunError(
                        f"the data of site '{site}' are not what they were when the run began."
                    )

    def arrivals(self, seconds: float, enough: int | None = None) -> dict[str, Hello]:
        """The hellos of sites that came within some seconds; waits for all of them or enough."""
        wanted = len(self.names) if enough is None else enough
        with self._ready:
            self._ready.wait_for(lambda: len(self._here()) >= wanted, seconds)
            return {site: self._hellos[site] for site in self._here()}

    def _here(self) -> list[str]:
        return [site for site, times in self._sessions.items() if times]

    def welcome(self, each: Mapping[str, Message]) -> None:
        """Sites may begin."""
        with self._ready:
            self._welcomes = {site: pack(m) for site, m in each.items()}
            for site, m in each.items():
                self.audit.append("sent", site, m.kind, m.head.number, self._welcomes[site])
            self._ready.notify_all()

    def session(self, site: str) -> int:
        """How often the site has said hello."""
        with self._ready:
            return self._sessions[site]

    def ask(
        self, questions: Mapping[str, Message], seconds: float
    ) -> Iterator[tuple[str, Message | str]]:
        """Answers as they come in; a sentence for each site that gave none in time.

        Who is away is not waited for, as long as enough others are here.
        """
        with self._ready:
            for site, m in questions.items():
                self._answers.pop(site, None)
                self._asked[site] = Asked(m.head.number, m)
            self._ready.notify_all()
        waiting, end = set(questions), time.monotonic() + seconds
        try:
            while waiting:
                with self._ready:
                    left = min(LOOK, end - time.monotonic())
                    self._ready.wait_for(partial(self._any, waiting), max(left, 0))
                    got = sorted(waiting & self._answers.keys())
                    if not got and (time.monotonic() >= end or self._alone(waiting)):
                        break
                for site in got:
                    waiting.discard(site)
                    with self._ready:
                        answer = self._answers.pop(site)
                    yield site, answer
        finally:
            with self._ready:
                for site in waiting:
                    self._asked.pop(site, None)  # a late answer does not count
                    self._busy.discard(site)
        for site in sorted(waiting):
            silent = time.monotonic() - self._seen[site]
            late = time.monotonic() >= end
            why = (
                f"no answer within {seconds:g} seconds"
                if late
                else f"silent for {silent:.0f} seconds"
            )
            yield site, why

    def _alone(self, waiting: set[str]) -> bool:
        """Whether all that are waited for are away, and enough others are not."""
        here = sum(not self._away(site) for site in self.names)
        return here >= self.fewest and all(map(self._away, waiting))

    def _away(self, site: str) -> bool:
        return site not in self._busy and time.monotonic() - self._seen[site] > AWAY

    def _any(self, sites: set[str]) -> bool:
        return bool(sites & self._answers.keys())

    def end(self, why: str, failed: bool) -> None:
        """Every site that asks from now on is told why there is nothing to do, and whether to wait.

        Returns as soon as all sites have asked; sites that are training do not ask.
        """
        note = {"why": why[:MOST], "failed": failed}
        with self._ready:
            self._ending = pack(message("ended", "", 0, "coordinator", note=note))
            self._ready.notify_all()
            here = set(self._here())
            self._ready.wait_for(lambda: here <= self._left, LAST_WORD)

    @property
    def ended(self) -> bool:
        """Whether there is a last word."""
        return self._ending is not None

    def _ended(self, site: str) -> Parcel | None:
        """The final message, for a site that asks."""
        if self._ending is not None:
            self._left.add(site)
            self._ready.notify_all()
        return self._ending

    def close(self) -> None:
        """Nobody waits any longer."""
        with self._ready:
            self.closed = True
            self._ready.notify_all()
