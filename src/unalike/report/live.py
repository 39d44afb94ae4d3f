"""``unalike watch``: the report of a folder that is still being written, on this machine only.

It answers GET and HEAD of two addresses: the page, and what has changed since a version of it. It
listens on the loopback address, refuses requests made under any other name (so that no other site
can reach it through the browser), and never writes.
"""

import hashlib
import json
import sys
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from unalike.errors import ConfigError, UnalikeError
from unalike.report.html import page
from unalike.report.records import Reader, intact

ADDRESS = "127.0.0.1"
PORT = 8642
REST = 1.0  # least seconds between two editions, however many pages ask
SHARE = 0.25  # of a core at most goes into making editions; training needs the rest
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Edition(NamedTuple):
    """The report at one moment."""

    version: str
    html: bytes
    news: bytes


class Desk:
    """Keeps the newest edition, and makes a new one when the records have changed."""

    def __init__(self, folder: str | Path) -> None:
        """Reads the folder at once, so that a wrong one is noticed before anybody asks."""
        self.reader, self.lock = Reader(folder), Lock()
        self.seen: Any = None
        self.edition = self._make()

    def current(self) -> Edition:
        """The newest edition."""
        with self.lock:
            if time.monotonic() >= self.next and self.reader.signature() != self.seen:
                self.edition = self._make()
            return self.edition

    def _make(self) -> Edition:
        begun = time.process_time()  # the clock runs on while training has the core
        seen = self.reader.signature()  # before reading: what comes later is for the next edition
        with intact(self.reader.folder):
            study = self.reader.read()
            made = page.content(study)
        version = hashlib.sha256(repr(seen).encode()).hexdigest()[:16]
        news = {
            "version": version,
            "methods": study.methods,
            "status": made.status,
            "made": page.date(study),
            "finished": made.finished,
            "sections": made.sections,
            "charts": made.charts,
        }
        html = page.render(study, made, version).encode()
        took = time.process_time() - begun
        self.seen, self.next = seen, time.monotonic() + max(REST, took * (1 / SHARE - 1))
        return Edition(version, html, json.dumps(news).encode())


class Handler(BaseHTTPRequestHandler):
    """Reads one request and answers it."""

    server: "Server"
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "unalike", ""
    timeout = 60  # seconds an idle connection is kept

    def do_GET(self) -> None:
        """The page, or what is new."""
        hosts = self.headers.get_all("Host") or [""]
        try:
            url = urlsplit(self.path)
        except ValueError:
            self._say(HTTPStatus.BAD_REQUEST, "This page does not exist; the report is at /.")
            return
        if len(hosts) > 1 or not {hosts[0], url.netloc or hosts[0]} <= set(self.server.names):
            self._say(HTTPStatus.MISDIRECTED_REQUEST, "This server is for this machine only.")
            return
        if url.path not in ("/", "/state"):
            self._say(HTTPStatus.NOT_FOUND, "There is nothing here; the report is at /.")
            return
        try:
            edition = self.server.desk.current()
        except UnalikeError as error:
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
            return
        if url.path == "/":
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", edition.html)
        elif parse_qs(url.query).get("after") == [edition.version]:
            self._send(HTTPStatus.NO_CONTENT, "", b"")
        else:
            self._send(HTTPStatus.OK, "application/json", edition.news)

    do_HEAD = do_GET

    def _refuse(self) -> None:
        self.close_connection = True  # an unread body would be taken for the next request
        self._say(
            HTTPStatus.METHOD_NOT_ALLOWED, "This server is read-only.", {"Allow": "GET, HEAD"}
        )

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse

    def _say(self, status: HTTPStatus, text: str, extra: dict[str, str] | None = None) -> None:
        self._send(status, "text/plain; charset=utf-8", text.encode(), extra)

    def _send(
        self, status: HTTPStatus, kind: str, body: bytes, extra: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        policy = f"{page.policy(live=True)}; frame-ancestors 'none'"
        headers = {**HEADERS, "Content-Security-Policy": policy, **(extra or {})}
        if status is not HTTPStatus.NO_CONTENT:
            headers |= {"Content-Type": kind, "Content-Length": str(len(body))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a line for every poll would hide what matters."""


class Server(ThreadingHTTPServer):
    """One desk, on a port of the loopback address."""

    daemon_threads = True
    request_queue_size = 128  # connections that wait; those beyond try again after a second

    def __init__(self, folder: str | Path, port: int = PORT) -> None:
        """Port 0 takes any that is free."""
        self.desk = Desk(folder)
        try:
            super().__init__((ADDRESS, port), Handler)
        except (OSError, OverflowError):
            raise ConfigError(
                f"port {port} cannot be used; another program may be using it; choose another: "
                f"--port {PORT + 1}."
            ) from None
        self.names = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    @property
    def url(self) -> str:
        """Where to look."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader who leaves in the middle of an answer is not reported; anything else is."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)
