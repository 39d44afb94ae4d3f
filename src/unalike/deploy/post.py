"""A site's connection if another program brings the messages: a socket in the file system.

Flower starts a process for each message; it hands the bytes in here, to a worker that stays. Only
the user who runs the worker can open the socket.

    length (8 bytes, big endian) | kind (1 byte) | message        one request a connection
    length (8 bytes, big endian) | message                        its answer
"""

import contextlib
import os
import queue
import socket
import threading
from pathlib import Path

from unalike.deploy.frames import LIMIT, Arrived, Parcel, read
from unalike.deploy.keys import Credentials
from unalike.deploy.messages import MessageError
from unalike.deploy.network import chunks

HELLO, WELCOME, QUESTION = b"H", b"W", b"Q"
LAST = 10.0  # seconds that a last answer may take to be fetched
WAIT = 20.0  # seconds to wait for a question before asking again


class Post:
    """What ``working.work`` calls in the place of a line to the network."""

    def __init__(self, path: Path, credentials: Credentials | None = None) -> None:
        """Listens at once; ``credentials`` sign keys of secure aggregation."""
        self.path, self.credentials = path, credentials
        path.unlink(missing_ok=True)
        before = os.umask(0o077)
        try:
            self.server = socket.socket(socket.AF_UNIX)
            self.server.bind(str(path))
        finally:
            os.umask(before)
        self.server.listen(4)
        self._ready = threading.Condition()
        self._hello, self._welcome, self._anew = b"", b"", False
        self._owed = 0  # questions whose answers are not fetched yet
        self._questions: queue.Queue[tuple[bytes, queue.Queue[bytes]]] = queue.Queue()
        self._open: queue.Queue[bytes] | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def call(self, name: str, told: Parcel | bytes, limit: int, seconds: float) -> Arrived | None:
        """As ``Line.call``."""
        raw = self._called(name, b"".join(chunks(told)), seconds)
        return read([raw], limit) if raw else None

    def _called(self, name: str, raw: bytes, seconds: float) -> bytes:
        if name == "Hello":
            with self._ready:
                self._hello, self._anew = raw or self._hello, False
                self._ready.notify_all()
                if self._welcome or self._questions.empty():
                    return self._welcome
            question, self._open = self._questions.get()  # before a welcome, only the last word
            return question
        if name == "Answer":
            if self._open is None:
                raise MessageError("nobody waits for this answer.")
            self._open.put(raw)
            self._open = None
            return b""
        with self._ready:
            if self._anew:
                raise ConnectionError("the coordinator was started again")
        try:
            question, self._open = self._questions.get(timeout=min(WAIT, seconds))
            return question
        except queue.Empty:
            return b""

    def close(self) -> None:
        """Accept nothing more, once everyone who waits for an answer has it."""
        if self._open is not None:  # what was said needs none
            self._open.put(b"")
        with self._ready:
            self._ready.wait_for(lambda: not self._owed, LAST)
        self.server.close()
        self.path.unlink(missing_ok=True)

    def _listen(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                caller, _ = self.server.accept()
                threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with caller, contextlib.suppress(OSError), caller.makefile("rb") as stream:
            size = int.from_bytes(stream.read(8), "big")
            raw = stream.read(size) if 0 < size <= LIMIT else b""
            try:
                answer = self._answer(raw[:1], raw[1:])
                caller.sendall(len(answer).to_bytes(8, "big") + answer)
            finally:
                self._delivered(raw[:1])

    def _delivered(self, kind: bytes) -> None:
        with self._ready:
            self._owed -= kind == QUESTION
            self._ready.notify_all()

    def _answer(self, kind: bytes, raw: bytes) -> bytes:
        if kind == HELLO:
            with self._ready:
                self._ready.wait_for(lambda: bool(self._hello), WAIT)
                return self._hello
        if kind == WELCOME:
            with self._ready:
                self._anew, self._welcome = bool(self._welcome), raw
                return kind
        if kind == QUESTION:
            back: queue.Queue[bytes] = queue.Queue()
            with self._ready:
                self._owed += 1
            self._questions.put((raw, back))
            return back.get()
        return b""
