"""The same run with Flower's SuperLink and SuperNodes as the carrier, TLS and node keys on.

    pytest -m slow tests/deploy/test_flower.py      # flwr installed, or UNALIKE_FLOWER=its folder

Default tests drive the same code by a grid of this process.
"""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from deployed import NAMES, examples, rows, together
from safetensors.torch import load_file

from unalike.deploy import hub
from unalike.deploy.audit import Audit
from unalike.deploy.desk import Desk
from unalike.deploy.keys import issue, make_authority
from unalike.deploy.policy import Policy
from unalike.deploy.post import Post
from unalike.deploy.serving import serve
from unalike.deploy.working import work
from unalike.errors import ConfigError, RunError
from unalike.federation.readers import from_arrays
from unalike.run.build import assemble, task
from unalike.run.config import parse, read_config

SIX = ("fedavg", "scaffold", "aaggff_s", "fedep", "superfed_mm", "fedevg")
RECIPE = """
rounds = 2
seed = 3
[model]
name = "mlp"
hidden = [8]
[method]
name = "{method}"
[local]
epochs = 1
batch_size = 16
lr = 0.1
[evaluation]
every = 2
"""
THREE = NAMES[:3]


def model_of(recipe: Path, names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    config = read_config(str(recipe), [])
    data = together(names, config.seed)
    near = assemble(config, data, task(config, data.examples))
    progress = near.course.begin()
    for t in range(near.course.rounds):
        progress, _, _ = near.course.advance(progress, t)
    found = near.course.model(progress)
    assert found is not None
    return found


def same(folder: Path, recipe: Path, names: tuple[str, ...] = NAMES) -> None:
    found = load_file(folder / "model.safetensors")
    for name, x in model_of(recipe, names).items():
        assert torch.allclose(x, found[name], atol=1e-5), name


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


class Carrier(hub.Carrier):
    """Without Flower's own objects, which may not be installed."""

    def wrapped(self, node: int, raw: bytes) -> Any:
        return SimpleNamespace(node=node, raw=raw)


def test_a_carrier_of_bytes_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "REST", 0.01)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(method="scaffold"))
    desk, threads = Desk(NAMES, Audit(tmp_path / "run" / "audit.jsonl")), []
    for name in NAMES:
        line = Post(tmp_path / f"{name}.sock")
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
    same(tmp_path / "run", recipe)


def test_sites_hear_why_a_run_through_flower_cannot_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "REST", 0.01)
    monkeypatch.setattr(hub, "Carrier", Carrier)
    (tmp_path / "recipe.toml").write_text("rounds = 1")
    left, threads = list[str](), list[threading.Thread]()

    def run(name: str, width: int, line: Post) -> None:
        own = from_arrays(np.zeros((9, width)), [0, 1, 2] * 3)
        try:
            work(name, own, line, tmp_path / name, Policy(), print, 20.0)
        except RunError as error:
            left.append(str(error))
        finally:
            line.close()

    for name, width in (("a", 3), ("b", 4)):
        given = (name, width, Post(tmp_path / f"{name}.sock"))
        threads.append(threading.Thread(target=run, args=given, daemon=True))
        threads[-1].start()
    told = {"folder": str(tmp_path / "run"), "sites": "a b", "seconds": 20.0}
    grid = Grid({i: tmp_path / f"{name}.sock" for i, name in enumerate("ab")})
    with pytest.raises(RunError, match="have different data"):
        hub.coordinate(grid, told | {"recipe": str(tmp_path / "recipe.toml")})
    for thread in threads:
        thread.join(20)
    assert len(left) == 2
    assert all("the coordinator has ended the run: sites 'a' and 'b'" in text for text in left)


def test_a_superlink_that_others_can_reach_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="takes code from anyone"):
        hub.refuse_exposed("10.0.0.5:8000")
    line = "   0: {at}:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n"
    for at, fine in (("00000000", False), ("0500000A", False), ("0100007F", True)):
        (tmp_path / "tcp").write_text("head\n" + line.format(at=at))
        if fine:
            hub.refuse_exposed("127.0.0.1:8000", tmp_path / "tcp")
        else:
            with pytest.raises(ConfigError, match="also listens on other addresses"):
                hub.refuse_exposed("127.0.0.1:8000", tmp_path / "tcp")


def test_where_there_is_no_table_of_listeners_the_port_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.3", 0))
        s.listen()
        link = f"127.0.0.1:{s.getsockname()[1]}"
        monkeypatch.setattr(socket, "gethostbyname_ex", lambda name: (name, [], ["127.0.0.3"]))
        hub.refuse_exposed(link, tmp_path / "none")  # it is loopback, too
        monkeypatch.setattr(hub, "loopback", lambda address: address.startswith("127.0.0.1:"))
        with pytest.raises(ConfigError, match="also listens on other addresses"):
            hub.refuse_exposed(link, tmp_path / "none")


# With Flower itself.


def programs() -> Path | None:
    """Where Flower's programs are."""
    found = os.environ.get("UNALIKE_FLOWER")
    if found:
        return Path(found)
    path = shutil.which("flower-superlink")
    return None if path is None else Path(path).parent


class Flower:
    """A SuperLink on loopback and three SuperNodes with keys."""

    def __init__(self, folder: Path, bin_: Path) -> None:
        self.folder, self.bin, self.running = folder, bin_, list[subprocess.Popen[bytes]]()
        make_authority(folder / "keys")
        issue(folder / "keys", "server", ("localhost", "127.0.0.1"))
        source = Path(hub.__file__).parents[2]
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        fast = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1", "OMP_NUM_THREADS": "1"}
        self.env = {**os.environ, **quiet, **fast, "FLWR_HOME": str(folder / "home")}
        self.env |= {"PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONPATH": str(source)}
        (folder / "home").mkdir()
        (folder / "home" / "config.toml").write_text(
            '[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:8000"\n'
            f'root-certificates = "{folder}/keys/authority.pem"\n'
        )
        tls = ("--ssl-ca-certfile", "keys/authority.pem", "--ssl-certfile", "keys/server.pem")
        tls += ("--ssl-keyfile", "keys/server.key", "--enable-supernode-auth")
        self.start("flower-superlink", *tls, "--disable-runtime-dependency-installation")
        self.until_listening(8000)

    def start(self, program: str, *more: str) -> None:
        name = f"{program}-{len(self.running)}.log"
        with (self.folder / name).open("wb") as log:
            self.running.append(
                subprocess.Popen(
                    [str(self.bin / program), *more],
                    cwd=self.folder,
                    env=self.env,
                    stdout=log,
                    stderr=log,
                )
            )

    def until_listening(self, port: int) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.2)
        raise AssertionError((self.folder / "flower-superlink-0.log").read_text())

    def node(self, k: int, name: str) -> None:
        key = ec.generate_private_key(ec.SECP384R1())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        (self.folder / name).write_bytes(private)
        (self.folder / name).chmod(0o600)
        (self.folder / f"{name}.pub").write_bytes(public + b"\n")
        register = ["flwr", "supernode", "register", f"{name}.pub", "here"]
        done = subprocess.run(
            register, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        more = ("--root-certificates", "keys/authority.pem", "--superlink", "127.0.0.1:8000")
        more += ("--auth-supernode-private-key", name, "--port", str(9100 + k))
        self.start(
            "flower-supernode", *more, "--node-config", f'worker="{self.folder}/{name}.sock"'
        )

    def stop(self) -> None:
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.wait(30)


@pytest.fixture(scope="module")
def flower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flower]:
    bin_ = programs()
    if bin_ is None:
        pytest.skip("Flower is not installed: pip install flwr, or set UNALIKE_FLOWER")
    made = Flower(tmp_path_factory.mktemp("fl"), bin_)
    try:
        for k, name in enumerate(THREE):
            made.node(k, name)
        yield made
    finally:
        made.stop()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("method", SIX)
def test_through_flower_it_is_the_simulated_run(method: str, flower: Flower) -> None:
    folder = flower.folder
    recipe = folder / f"{method}.toml"
    recipe.write_text(RECIPE.format(method=method))
    workers = []
    for name in THREE:
        x, y = rows()[name]
        np.savez(folder / f"{name}.npz", x=x, y=y)
        command = [sys.executable, "-m", "unalike", "join", name, "--data", f"{name}.npz"]
        command += ["--at", f"unix:{folder}/{name}.sock", "--folder", f"{method}-{name}"]
        workers.append(subprocess.Popen(command, cwd=folder, env=flower.env))
    command = [sys.executable, "-m", "unalike", "serve", recipe.name, "--sites", *THREE]
    command += ["--at", "flower:127.0.0.1:8000", "--keys", "keys", "--folder", f"run-{method}"]
    try:
        done = subprocess.run(command, cwd=folder, env=flower.env, check=False)
        assert done.returncode == 0
        for worker in workers:
            assert worker.wait(60) == 0
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    same(folder / f"run-{method}", recipe, THREE)
