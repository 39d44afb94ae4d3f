"""The server of ``unalike watch``: what it answers, to whom, and when it has news."""

import json
import socket
import threading
import time
from http.client import HTTPConnection

import pytest
from written_runs import append_round, config, write_run

from unalike.cli import reporting
from unalike.errors import ConfigError, RunError
from unalike.report import live
from unalike.tables.format import size


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    found = config(tmp_path_factory.mktemp("live") / "run")
    write_run(found, rounds=2)
    return found


@pytest.fixture(scope="module")
def server(made):
    with live.Server(made.run.folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path="/", method="GET", **headers):
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def test_it_listens_on_the_loopback_address_only(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/"


def test_the_page(server):
    answer, body = ask(server)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b'"live":true' in body
    assert "connect-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe-eval" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Python" not in answer.headers["Server"]


def test_head_has_the_headers_of_get_and_no_body(server):
    answer, body = ask(server, method="HEAD")
    assert (answer.status, body) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 100_000


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(server, method):
    answer, _ = ask(server, method=method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path",
    ["/config.json", "/../config.json", "/..%2fconfig.json", "//etc/passwd", "/state/", "/x"],
)
def test_no_file_is_served(server, path):
    answer, body = ask(server, path)
    assert answer.status == 404
    assert b"rounds" not in body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1"])
def test_another_name_is_refused(server, host):
    answer, body = ask(server, "/state", Host=host)
    assert answer.status == 421
    assert b"sections" not in body


def test_localhost_is_a_name_of_this_machine(server):
    answer, _ = ask(server, "/state", Host=f"localhost:{server.server_port}")
    assert answer.status == 200


def test_news_come_when_a_round_is_written(server, made, monkeypatch):
    _, body = ask(server, "/state")
    news = json.loads(body)
    assert "(2 of 6 rounds)" in news["status"]
    assert not news["finished"]
    answer, body = ask(server, f"/state?after={news['version']}")
    assert (answer.status, body) == (204, b"")
    append_round(made, 3)
    monkeypatch.setattr(server.desk, "next", 0.0)  # as if it had rested
    answer, body = ask(server, f"/state?after={news['version']}")
    assert answer.status == 200
    later = json.loads(body)
    assert "(3 of 6 rounds)" in later["status"]
    assert later["charts"]["curves-0"] != news["charts"]["curves-0"]
    assert later["sections"]["commands"] == news["sections"]["commands"]


def test_the_folder_is_not_read_more_often_than_it_may(server, made):
    server.desk.seen, server.desk.next = None, 0.0  # as if it had rested, and there were news
    before = time.monotonic()
    first = server.desk.current()
    assert server.desk.next > before
    server.desk.next = before + 1000  # however slow the machine is
    append_round(made, 4)
    assert server.desk.current() is first


def test_damage_is_reported_and_not_fatal(server, made, monkeypatch):
    def broken():
        raise RunError("'rounds.jsonl' is damaged.")

    monkeypatch.setattr(server.desk.reader, "read", broken)
    append_round(made, 5)
    monkeypatch.setattr(server.desk, "next", 0.0)
    answer, body = ask(server, "/state")
    assert (answer.status, body) == (503, b"'rounds.jsonl' is damaged.")


def test_a_taken_port_is_named(server, made):
    with pytest.raises(ConfigError, match=rf"port {server.server_port} cannot be used"):
        live.Server(made.run.folder, server.server_port)


def test_a_wrong_folder_is_noticed_at_once(tmp_path):
    with pytest.raises(RunError, match="has no records"):
        live.Server(tmp_path, 0)


def test_the_commands(run_folder, tmp_path, capsys, monkeypatch):
    reporting.write(str(run_folder), str(tmp_path / "r.html"))
    written = (tmp_path / "r.html").stat().st_size
    said = capsys.readouterr().out.replace("\n", "")
    assert f"report: {tmp_path / 'r.html'} ({size(written)})" in said

    def interrupted(server, poll_interval):
        raise KeyboardInterrupt

    monkeypatch.setattr(live.Server, "serve_forever", interrupted)
    reporting.serve(str(run_folder), 0)
    out = capsys.readouterr().out
    assert "http://127.0.0.1:" in out
    assert "stopped watching." in out


def speak(server, *lines):
    """What is answered to a request that no library would send."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as talk:
        talk.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        return b"".join(iter(lambda: talk.recv(4096), b"")).split(b"\r\n")[0].decode()


def test_requests_that_no_browser_sends(server):
    here = f"127.0.0.1:{server.server_port}"
    assert "400" in speak(server, "GET http://[ HTTP/1.1", f"Host: {here}")
    assert "421" in speak(server, "GET / HTTP/1.1", f"Host: {here}", "Host: evil.example")
    assert "421" in speak(server, "GET http://evil.example/ HTTP/1.1", f"Host: {here}")
    assert "421" in speak(server, "GET / HTTP/1.1")
    assert "200" in speak(server, f"GET http://{here}/ HTTP/1.1", f"Host: {here}")
