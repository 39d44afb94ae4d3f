"""How a peer fetches what others have ready, and how it notices that they are gone or ahead.

A neighbour that gave no answer for the time of a whole round counts as gone: in later rounds it is
asked once without waiting, until it is in the same round again or the one before.
"""

import time
from concurrent.futures import as_completed
from typing import NamedTuple

from unalike.deploy.circle import PAUSE
from unalike.deploy.messages import Message, MessageError
from unalike.deploy.network import POLL, TRANSFER
from unalike.deploy.peer import Peer


class Heard(NamedTuple):
    """The answers of a round's neighbours."""

    told: dict[str, Message]
    missing: dict[str, str]  # which neighbours it continues without, and why
    latest: int  # the latest round that any is in of those that have nothing of this one any more


class Fetching:
    """A peer's memory of who is there."""

    def __init__(self, peer: Peer) -> None:
        """Everybody is, at first."""
        self.peer = peer
        self.gone: set[str] = set()

    def everybody(
        self, what: str, t: int, names: list[str], patience: int = 1, *, brief: bool = False
    ) -> Heard:
        """What all these peers have of a round, as far as they have it in time.

        ``patience`` is in rounds' times; a ``brief`` answer only says whether there is something.
        """
        wait = patience * self.peer.seconds
        out = {self.peer.circle.pool.submit(self._one, what, t, n, wait, brief): n for n in names}
        told, missing, latest = dict[str, Message](), dict[str, str](), t
        for done in as_completed(out):
            name, (m, why, at) = out[done], done.result()
            if m is None:
                missing[name] = why
                latest = max(latest, at)
                self.gone.add(name)
                self.peer.shelf.forget(name)
            else:
                told[name] = m
                self.gone.discard(name)
        return Heard(told, missing, latest)

    def _one(
        self, what: str, t: int, name: str, wait: float, brief: bool
    ) -> tuple[Message | None, str, int]:
        """(the answer or None, why there is none, the round that the peer is in)."""
        peer, end = self.peer, time.monotonic() + wait
        waits, at = name not in self.gone, 0
        while True:
            asked = peer.question("fetch", what=what, round=t, wait=waits, brief=brief)
            left = end - time.monotonic()
            try:
                m = peer.circle.once(name, asked, max(1.0, left))
                at = _round(m)
                if m.note.get("held") is True:
                    return m, "", at
                if at > t:
                    return None, f"it is already in round {at + 1}", at
                waits = waits or at >= t - 1  # it is back
            except MessageError as error:
                return None, str(error), at
            except ConnectionError as error:
                if not waits:
                    return None, f"it cannot be reached ({error})", at
                time.sleep(PAUSE)
            if not waits or time.monotonic() >= end:
                return None, f"no answer within {wait:g} seconds", at

    def reachable(self, what: str, t: int, name: str) -> Message | None:
        """What a peer has of a round, however long it takes, while the peer can be reached."""
        peer, last = self.peer, time.monotonic()
        while time.monotonic() - last < peer.seconds:
            asked = peer.question("fetch", what=what, round=t, wait=True)
            try:
                m = peer.circle.once(name, asked, POLL + TRANSFER)
            except ConnectionError:
                time.sleep(PAUSE)
                continue
            except MessageError as error:
                peer.say(f"peer '{name}': {error}")
                return None
            if m.note.get("held") is True:
                return m
            if _round(m) > t:  # it was passed over
                return None
            last = time.monotonic()
        return None


def _round(m: Message) -> int:
    at = m.note.get("round")
    return at if isinstance(at, int) and 0 <= at < 1 << 40 else 0
