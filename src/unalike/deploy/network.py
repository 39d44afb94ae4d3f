"""gRPC between a coordinator and its sites, with certificates on both ends.

The coordinator listens on one address; sites connect to it, say hello, fetch questions and send
answers. Messages travel in chunks, and no more is read than the coordinator has declared. Without
certificates only a loopback address is accepted, for trials.
"""

import ipaddress
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]

from unalike.deploy.desk import Desk, NotJoined
from unalike.deploy.frames import CHUNK, Arrived, Parcel, read
from unalike.deploy.keys import Credentials
from unalike.deploy.messages import Damaged, MessageError
from unalike.errors import ConfigError, RunError

SERVICE = "/unalike.Coordinator/"
POLL = 20.0  # seconds that a site waits for a question before it asks again
TRANSFER = 3600.0  # seconds that a large message may take on a slow line; a dead one is noticed
OPTIONS = [
    ("grpc.max_receive_message_length", 2 * CHUNK),
    ("grpc.max_send_message_length", 2 * CHUNK),
    ("grpc.keepalive_time_ms", 30_000),  # which distinguishes a dead connection from a slow one
    ("grpc.initial_reconnect_backoff_ms", 200),  # a site that comes back is soon found
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.so_reuseport", 0),  # two coordinators on one address would share its sites
]


def chunks(told: Parcel | bytes | None) -> Iterator[bytes]:
    """What is to be sent, in pieces; at least one, which may be empty."""
    if isinstance(told, Parcel):
        yield from told.pieces()
        return
    view = memoryview(told or b"")
    for start in range(0, max(len(view), 1), CHUNK):
        yield bytes(view[start : start + CHUNK])


def joined(pieces: Iterator[bytes], limit: int) -> bytes:
    """The pieces together; nothing is read beyond the limit."""
    whole = bytearray()
    for piece in pieces:
        if len(whole) + len(piece) > limit:
            raise MessageError(f"a message is over the limit of {limit} bytes.")
        whole += piece
    return bytes(whole)


def listen(
    handler: grpc.GenericRpcHandler, address: str, credentials: Credentials | None, threads: int
) -> tuple[Any, int]:
    """(a server at work, its port); without credentials only on a loopback address."""
    if credentials is None and not loopback(address):
        raise ConfigError(
            f"'{address}' can be reached from other machines, and nothing would be encrypted; "
            "make certificates with 'unalike keys', or listen on 127.0.0.1."
        )
    server = grpc.server(ThreadPoolExecutor(threads), handlers=[handler], options=OPTIONS)
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            pair = [(credentials.key, credentials.certificate)]
            port = server.add_secure_port(
                address, grpc.ssl_server_credentials(pair, credentials.authority, True)
            )
    except RuntimeError:
        port = 0
    if not port:
        raise RunError(f"nothing can listen on '{address}'; is it in use?")
    server.start()
    return server, port


def answered(
    call: Callable[[str, Iterator[bytes]], Parcel | None], details: Any, secure: bool
) -> Any:
    """The handler of a call: ``call`` is told who calls, and its mistakes become sentences."""
    given = dict(details.invocation_metadata)

    def run(pieces: Iterator[bytes], context: Any) -> Iterator[bytes]:
        try:
            yield from chunks(call(_caller(context, given, secure), pieces))
        except NotJoined as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except Damaged as error:
            context.abort(grpc.StatusCode.DATA_LOSS, str(error))
        except MessageError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    return grpc.stream_stream_rpc_method_handler(run)


def _caller(context: Any, given: dict[str, Any], secure: bool) -> str:
    """The name in the caller's certificate, or on a loopback address the one it gives."""
    if not secure:
        return str(given.get("site", ""))
    names = context.auth_context().get("x509_common_name", [])
    return names[0].decode() if names else ""


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


class Line:
    """A site's end of the network."""

    def __init__(
        self,
        site: str,
        address: str,
        credentials: Credentials | None,
        *,
        service: str = SERVICE,
        expects: str = "",
    ) -> None:
        """Dials when it is first used.

        Whoever answers must have a certificate for the host in ``address``, or where it
        ``expects`` a peer, for the peer of this name, wherever that is.
        """
        if credentials is None and not loopback(address):
            raise ConfigError(
                f"'{address}' is another machine, and nothing would be encrypted; give the "
                "folder of this site's certificate with --keys."
            )
        if credentials is None:
            self.channel = grpc.insecure_channel(address, options=OPTIONS)
        else:
            c = credentials
            trust = grpc.ssl_channel_credentials(c.authority, c.key, c.certificate)
            name = [("grpc.ssl_target_name_override", expects)] if expects else []
            self.channel = grpc.secure_channel(address, trust, options=[*OPTIONS, *name])
        self.site, self.service, self.credentials = site, service, credentials
        self._alone = threading.Lock()

    def call(self, name: str, told: Parcel | bytes, limit: int, seconds: float) -> Arrived | None:
        """The message in return, if any; ConnectionError if nobody can be reached."""
        ask: Callable[..., Any] = self.channel.stream_stream(f"{self.service}{name}")
        try:
            pieces = ask(chunks(told), timeout=seconds, metadata=(("site", self.site),))
            first = next((p for p in pieces if p), b"")
            return read(itertools.chain([first], pieces), limit) if first else None
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                raise MessageError(str(error.details())) from None
            raise ConnectionError(str(error.details() or error.code().name)) from None

    def close(self) -> None:
        """Hang up."""
        self.channel.close()


def loopback(address: str) -> bool:
    """Whether an address is reached from this machine alone."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
