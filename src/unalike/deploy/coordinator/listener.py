"""The coordinator's end of the network: sites call it, and the desk answers."""

from collections.abc import Iterator
from typing import Any

import grpc  # type: ignore[import-untyped]

from unalike.deploy.coordinator.desk import Desk
from unalike.deploy.security.certificates import Credentials
from unalike.deploy.wire.connection import POLL, SERVICE, answered, joined, listen
from unalike.deploy.wire.frames import CHUNK, Parcel


class Listener(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The coordinator's end of the network."""

    def __init__(self, desk: Desk, address: str, credentials: Credentials | None) -> None:
        """Listens at once; without credentials only on a loopback address."""
        self.desk, self.secure = desk, credentials is not None
        self.server, self.port = listen(self, address, credentials, 4 + 2 * len(desk.names))

    def service(self, details: Any) -> Any:
        """The handler of a call, by its name."""
        calls = {"Hello": self._hello, "Next": self._next, "Answer": self._answer}
        call = calls.get(details.method.removeprefix(SERVICE))
        if call is None:
            return None
        return answered(call, details, self.secure)

    def _hello(self, site: str, pieces: Iterator[bytes]) -> Parcel | None:
        return self.desk.hello(site, joined(pieces, CHUNK))

    def _next(self, site: str, pieces: Iterator[bytes]) -> Parcel | None:
        joined(pieces, CHUNK)
        return self.desk.next(site, POLL)

    def _answer(self, site: str, pieces: Iterator[bytes]) -> None:
        self.desk.answer(site, pieces)

    def close(self) -> None:
        """Answer nobody any more."""
        self.desk.close()
        self.server.stop(2.0).wait()
