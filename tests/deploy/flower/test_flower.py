"""What carries messages through Flower, driven by a grid of this process."""

import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from deployed import NAMES, RECIPE, examples, same_model

from unalike.deploy.coordinator.desk import Desk
from unalike.deploy.coordinator.serving import serve
from unalike.deploy.flower import coordinator
from unalike.deploy.flower.site import SocketLine
from unalike.deploy.security.audit import Audit
from unalike.deploy.site.policy import Policy
from unalike.deploy.site.worker import work
from unalike.errors import ConfigError, RunError
from unalike.federation.readers import from_arrays
from unalike.run.configuration.config import parse, read_config


class Grid:
    """Nodes of this process, which hand bytes to the workers' sockets as Flower's app does."""

    def __init__(self, workers: dict[int, Path]) -> None:
        self.workers, self.replies = workers, dict[str, Any]()

    def get_node_ids(self) -> list[int]:
        return list(self.workers)

    def push_messages(self, messages: list[Any]) -> list[str]:
        (m,) = messages
        number = str(time.monotonic_ns())
        threading.Thread(target=self._ask, args=(number, m), daemon=True).start()
        return [number]

    def pull_messages(self, numbers: list[str]) -> list[Any]:
        return [self.replies.pop(n) for n in numbers if n in self.replies]

    def _ask(self, number: str, m: Any) -> None:
        with socket.socket(socket.AF_UNIX) as worker:
            worker.connect(str(self.workers[m.node]))
            worker.sendall(len(m.raw).to_bytes(8, "big") + m.raw)
            with worker.makefile("rb") as stream:
                raw = stream.read(int.from_bytes(stream.read(8), "big"))
        array = SimpleNamespace(numpy=lambda: np.frombuffer(raw, np.uint8))
        self.replies[number] = SimpleNamespace(
            metadata=SimpleNamespace(reply_to_message_id=number),
            has_error=lambda: False,
            content={"message": {"raw": array}},
        )


class Carrier(coordinator.Carrier):
    """Without Flower's own objects, which may not be installed."""

    def wrapped(self, node: int, raw: bytes) -> Any:
        return SimpleNamespace(node=node, raw=raw)


def test_a_carrier_of_bytes_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "REST", 0.01)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(method="scaffold"))
    desk, threads = Desk(NAMES, Audit(tmp_path / "run" / "audit.jsonl")), []
    for name in NAMES:
        line = SocketLine(tmp_path / f"{name}.sock")
        assert (tmp_path / f"{name}.sock").stat().st_mode & 0o077 == 0
        given = (name, examples(name), line, tmp_path / name, Policy(), print, 30.0)
        threads.append(threading.Thread(target=work, args=given, daemon=True))
        threads[-1].start()
    grid = Grid({i: tmp_path / f"{name}.sock" for i, name in enumerate(NAMES)})
    threading.Thread(target=Carrier(grid, desk, {0: NAMES[0]}).run, daemon=True).start()
    config = parse(read_config(str(recipe), []).resolved())
    serve(config, NAMES, tmp_path / "run", desk, print, seconds=60, arrive=30)
    for thread in threads:
        thread.join(20)
    desk.close()
    same_model(tmp_path / "run", recipe)


def test_sites_hear_why_a_run_through_flower_cannot_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "REST", 0.01)
    monkeypatch.setattr(coordinator, "Carrier", Carrier)
    (tmp_path / "recipe.toml").write_text("rounds = 1")
    left, threads = list[str](), list[threading.Thread]()

    def run(name: str, width: int, line: SocketLine) -> None:
        own = from_arrays(np.zeros((9, width)), [0, 1, 2] * 3)
        try:
            work(name, own, line, tmp_path / name, Policy(), print, 20.0)
        except RunError as error:
            left.append(str(error))
        finally:
            line.close()

    for name, width in (("a", 3), ("b", 4)):
        given = (name, width, SocketLine(tmp_path / f"{name}.sock"))
        threads.append(threading.Thread(target=run, args=given, daemon=True))
        threads[-1].start()
    told = {"folder": str(tmp_path / "run"), "sites": "a b", "seconds": 20.0}
    grid = Grid({i: tmp_path / f"{name}.sock" for i, name in enumerate("ab")})
    with pytest.raises(RunError, match="have different data"):
        coordinator.coordinate(grid, told | {"recipe": str(tmp_path / "recipe.toml")})
    for thread in threads:
        thread.join(20)
    assert len(left) == 2
    assert all("the coordinator has ended the run: sites 'a' and 'b'" in text for text in left)


def test_a_superlink_that_others_can_reach_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="takes code from anyone"):
        coordinator.refuse_exposed("10.0.0.5:8000")
    line = "   0: {at}:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n"
    for at, fine in (("00000000", False), ("0500000A", False), ("0100007F", True)):
        (tmp_path / "tcp").write_text("head\n" + line.format(at=at))
        if fine:
            coordinator.refuse_exposed("127.0.0.1:8000", tmp_path / "tcp")
        else:
            with pytest.raises(ConfigError, match="also listens on other addresses"):
                coordinator.refuse_exposed("127.0.0.1:8000", tmp_path / "tcp")


def test_where_there_is_no_table_of_listeners_the_port_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.3", 0))
        s.listen()
        link = f"127.0.0.1:{s.getsockname()[1]}"
        monkeypatch.setattr(socket, "gethostbyname_ex", lambda name: (name, [], ["127.0.0.3"]))
        coordinator.refuse_exposed(link, tmp_path / "none")  # it is loopback, too
        monkeypatch.setattr(
            coordinator, "loopback", lambda address: address.startswith("127.0.0.1:")
        )
        with pytest.raises(ConfigError, match="also listens on other addresses"):
            coordinator.refuse_exposed(link, tmp_path / "none")
