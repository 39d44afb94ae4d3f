"""The other peers, connected directly: an answer comes back on the connection of its question."""

import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from unalike.deploy.audit import Audit
from unalike.deploy.frames import LIMIT, pack
from unalike.deploy.keys import Credentials
from unalike.deploy.messages import Damaged, Message, MessageError
from unalike.deploy.network import Line
from unalike.errors import ConfigError

SERVICE = "/unalike.Peer/"
PAUSE = 0.2  # seconds between two attempts to reach a peer


def read_peers(path: str) -> dict[str, str]:
    """Name -> address of every peer, from a TOML file of lines ``north = "host:port"``."""
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"'{path}' cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' is not valid TOML: {error}.") from None
    for name, address in found.items():
        port = str(address).rpartition(":")[2]
        if not isinstance(address, str) or ":" not in address or not port.isdigit():
            raise ConfigError(
                f"'{path}' gives peer '{name}' the address {address!r}; write \"host:port\"."
            )
    if len(found) < 2:
        raise ConfigError(f"'{path}' names fewer than two peers.")
    return found


class Circle:
    """An exchange with peers; questions to itself do not leave the process."""

    def __init__(
        self,
        me: str,
        addresses: Mapping[str, str],
        credentials: Credentials | None,
        audit: Audit,
        own: Callable[[Message], Message],
    ) -> None:
        """``own`` answers this peer's questions to itself."""
        self.me, self.audit, self.own, self.limit = me, audit, own, LIMIT
        self.lines = {
            name: Line(me, address, credentials, service=SERVICE, expects=name)
            for name, address in addresses.items()
            if name != me
        }
        self.closed = False
        self.pool = ThreadPoolExecutor(2 * len(addresses))

    def session(self, site: str) -> int:
        """Peers find out by themselves where the run is."""
        return 1

    def ask(
        self, questions: Mapping[str, Message], seconds: float
    ) -> Iterator[tuple[str, Message | str]]:
        """Answers as they come in; a sentence for each peer that gave none in time."""
        out = {
            self.pool.submit(self._patiently, name, m, seconds): name
            for name, m in questions.items()
            if name != self.me
        }
        if self.me in questions:
            yield self.me, self.own(self._stamped(questions[self.me]))
        for done in as_completed(out):
            yield out[done], done.result()

    def _patiently(self, name: str, m: Message, seconds: float) -> Message | str:
        end = time.monotonic() + seconds
        while True:
            try:
                return self.once(name, m, max(0.1, end - time.monotonic()))
            except MessageError as error:
                return str(error)
            except ConnectionError:
                if time.monotonic() + PAUSE >= end:
                    return f"no answer within {seconds:g} seconds"
                time.sleep(PAUSE)

    def once(self, name: str, m: Message, seconds: float) -> Message:
        """A peer's answer; ConnectionError if it cannot be reached, MessageError if it is wrong."""
        if self.closed:
            raise MessageError("this peer has left.")
        asked = self._stamped(m)
        parcel = pack(asked)
        self.audit.append("sent", name, asked.kind, asked.head.number, parcel)
        try:
            back = self.lines[name].call("Ask", parcel, self.limit, seconds)
        except ValueError:  # the line was hung up meanwhile
            raise MessageError("this peer has left.") from None
        except Damaged as error:
            raise ConnectionError(str(error)) from None
        if back is None:
            raise ConnectionError("an empty answer")
        answer = back.message
        if self.closed:
            raise MessageError("this peer has left.")
        self.audit.append("received", name, answer.kind, answer.head.number, back)
        told, head = answer.head, asked.head
        if (told.sender, told.number, told.run) != (name, head.number, head.run):
            raise MessageError(f"the answer of '{name}' is not to the question it was asked.")
        if answer.kind not in ("answer", "refusal"):
            raise MessageError(f"'{answer.kind}' is not an answer.")
        return answer

    def _stamped(self, m: Message) -> Message:
        return m._replace(head=m.head.model_copy(update={"sender": self.me}))

    def close(self) -> None:
        """Hang up."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        for line in self.lines.values():
            line.close()
