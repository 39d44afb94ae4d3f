"""Pages and their server: names that are HTML, requests that are none, folders that change."""

import http.client
import json
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from breaking.property import COUNTS
from breaking.server import call

from unalike.report import live

pytestmark = [pytest.mark.breaking, pytest.mark.timeout(600)]
SCRIPT, IMAGE = "<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>"
PAYLOADS = (SCRIPT, IMAGE, "<script>alert(5)", "<img src=x onerror=alert(6)", "<script>alert(7)")
OWNERS = (SCRIPT, IMAGE, "x<y&z")
ROWS = "a,b,y,c\n" + "\n".join(
    f"{i % 7},{i * 1.5},{(SCRIPT, IMAGE)[i % 2]},{OWNERS[i % 3]}" for i in range(90)
)
DATA = """rounds = 1
data = {name = "files", path = "d.csv", label = "y", client = "c"}
partition = "natural"
model = "logistic"
"""
FOLDER = "xss<b>'&quot;"
COMPARE = r"""[compare]
title = "</script><script>alert(5)</script>"
question = "<img src=x onerror=alert(6)>"
seeds = 1
methods = [{name = "fedavg", label = "<script>alert(7)</script>"},
  {name = "fedprox", label = "../../../ESCAPED"},
  {name = "fedprox", mu = 1.0, label = "$(touch x)`id`"},
  {name = "fedavgm", label = "a\u202eb"}]
"""


def counted(fine: object, shown: object = "") -> None:
    COUNTS["watch", "survived" if fine else "failed"] += 1
    assert fine, shown


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run and a comparison whose every name is HTML, and their reports."""
    place = tmp_path_factory.mktemp("watched")
    (place / "d.csv").write_text(ROWS)
    (place / "r.toml").write_text(DATA + f'[run]\nfolder = "{FOLDER}"\n')
    (place / "c.toml").write_text(DATA + COMPARE)
    for arguments in (
        ["run", "r.toml"],
        ["compare", "c.toml", "--folder", "compared", "--processes", "1"],
        ["report", FOLDER],
        ["report", "compared"],
    ):
        outcome = call(arguments, place)
        counted(outcome.code == 0, outcome.err)
    return place


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[live.Server]:
    with live.Server(place / "compared", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("folder", [FOLDER, "compared"])
def test_reports_hold_names_as_text(folder: str, place: Path) -> None:
    page = (place / folder / "report.html").read_text()
    counted(not [text for text in PAYLOADS if text in page])
    state = re.search(r'<script type="application/json" id="state">(.*?)</script>', page, re.S)
    counted(state and json.loads(state[1]))


def test_labels_stay_in_their_folder(place: Path) -> None:
    inside = place / "compared" / "cells"
    counted(all(path.is_relative_to(inside) for path in place.parent.rglob("*ESCAPED*")))
    counted(len(list(inside.iterdir())) == 4)
    counted(not (place / "x").exists())


def get(
    server: live.Server, path: str, host: str | None = None, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    asked = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    asked.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    if host != "":
        asked.putheader("Host", host or f"127.0.0.1:{server.server_port}")
    for name, value in headers.items():
        asked.putheader(name, value)
    asked.endheaders()
    answer = asked.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    asked.close()
    return found


def raw(server: live.Server, text: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as asked:
        asked.sendall(text.replace(b"HOST", f"127.0.0.1:{server.server_port}".encode()))
        return asked.recv(200)


def test_the_page(server: live.Server) -> None:
    status, headers, body = get(server, "/")
    counted(status == 200 and len(body) > 1000)
    counted("default-src 'none'" in headers["Content-Security-Policy"])
    counted("Access-Control-Allow-Origin" not in headers)
    counted(not [text for text in PAYLOADS if text.encode() in body])
    state = json.loads(get(server, "/state")[2])
    counted(not [name for name, text in state["sections"].items() for p in PAYLOADS if p in text])
    counted(get(server, f"/state?after={state['version']}")[0] == 204)
    counted(server.server_address[0] == "127.0.0.1")


PATHS = [
    "/../../etc/passwd",
    "/..%2f..%2fetc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "//etc/passwd",
    "/cells",
    "/compare.json",
    "/.lock",
    "/state/../../x",
    "/\\..\\..\\etc",
    "/%00",
    "/favicon.ico",
]


@pytest.mark.parametrize("path", [*PATHS, "/" + "a" * 60000])
def test_paths_that_are_not_there(path: str, server: live.Server) -> None:
    counted(get(server, path)[0] in (404, 414))


@pytest.mark.parametrize("path", ["/state?after=" + "x" * 60000, "/?q=<script>"])
def test_questions_that_mean_nothing(path: str, server: live.Server) -> None:
    counted(get(server, path)[0] == 200)


HOSTS = (
    "evil.com evil.com:{} localhost 127.0.0.1.nip.io:{} 0.0.0.0:{} [::1]:{} localhost:{}.evil.com"
)


@pytest.mark.parametrize("host", ["", *HOSTS.split()])
def test_other_hosts(host: str, server: live.Server) -> None:
    counted(get(server, "/", host.format(server.server_port))[0] == 421)


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "FOO"]
)
def test_other_methods(method: str, server: live.Server) -> None:
    counted(get(server, "/", method=method)[0] in (405, 501))


REQUESTS = {
    "two hosts": b"GET / HTTP/1.1\r\nHost: HOST\r\nHost: evil.com\r\nConnection: close\r\n\r\n",
    "a foreign address": b"GET http://evil/ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n",
    "half an address": b"GET http://[ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n",
    "half a host": b"GET //[ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n",
    "noise": bytes(range(1, 256)) * 8 + b"\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: HOST\r\nX: " + b"a" * 70000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: HOST\r\n" + b"X: y\r\n" * 200 + b"\r\n",
}


@pytest.mark.parametrize("name", REQUESTS)
def test_odd_requests(name: str, server: live.Server, capfd: pytest.CaptureFixture[str]) -> None:
    answer = raw(server, REQUESTS[name])
    counted(b" 200 " not in answer and re.search(rb" 4\d\d", answer), answer)
    counted("Traceback" not in capfd.readouterr().err)


def test_a_crowd(server: live.Server) -> None:
    idle = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(300)]
    begun = time.monotonic()
    counted(get(server, "/state")[0] == 200 and time.monotonic() - begun < 10)
    for one in idle:
        one.close()
    found: list[int] = []

    def ask() -> None:
        found.extend(get(server, "/state")[0] for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted(found == [200] * 50)


@pytest.mark.parametrize(
    ("file", "text"), [("rounds.jsonl", "5\n"), ("summary.json", "{}"), ("config.json", "[1]")]
)
def test_a_file_is_damaged_meanwhile(
    file: str, text: str, place: Path, server: live.Server, capfd: pytest.CaptureFixture[str]
) -> None:
    path = sorted((place / "compared" / "cells").iterdir())[0] / file
    kept = path.read_bytes()
    path.write_text(text)
    server.desk.next = 0.0  # an edition may be made at once
    counted(get(server, "/")[0] in (200, 503))
    path.write_bytes(kept)
    server.desk.next = 0.0  # an edition may be made at once
    counted(get(server, "/")[0] == 200)
    counted("Traceback" not in capfd.readouterr().err)


def test_the_folder_goes_and_comes_back(place: Path, server: live.Server) -> None:
    shutil.move(place / "compared", place / "gone")
    server.desk.next = 0.0
    counted(get(server, "/")[0] in (200, 503))
    shutil.move(place / "gone", place / "compared")
    server.desk.next = 0.0
    counted(get(server, "/")[0] == 200)
