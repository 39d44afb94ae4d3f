"""End to end: Flower's SuperLink and three SuperNodes, with TLS and node keys, carry six methods.

Each is a process, as are the coordinators and the sites. The six runs go on at the same time: a
SuperNode looks for messages every three seconds if it has none.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from deployed import NAMES, RECIPE, ports, rows, same_model
from preloaded import Preloaded

from unalike.deploy.security.certificates import issue, make_authority

SIX = ("fedavg", "scaffold", "aaggff_s", "fedep", "superfed_mm", "fedevg")
SITES = NAMES[:3]
PROGRAMS = ("unalike", "flwr", "flwr-clientapp", "flwr-serverapp")
PROGRAMS += ("flower-superlink", "flower-supernode", "flower-superexec")


class Flower:
    """A SuperLink on loopback and SuperNodes with keys."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.running = folder, dict[str, subprocess.Popen[bytes]]()
        found = ports(("link", "stranger", *SITES))
        self.ports = {name: at.rpartition(":")[2] for name, at in found.items()}
        self.link = f"127.0.0.1:{self.ports['link']}"
        make_authority(folder / "keys")
        issue(folder / "keys", "server", ("localhost", "127.0.0.1"))
        own = Path(sys.executable).parent
        self.env = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        self.env |= {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2", "OMP_NUM_THREADS": "1"}
        self.env |= {"FLWR_HOME": str(folder / "home"), "PATH": f"{own}:{os.environ['PATH']}"}
        self.forked = Preloaded(folder, PROGRAMS, self.env)
        self.env["PATH"] = f"{self.forked.bin}:{self.env['PATH']}"
        (folder / "home").mkdir()
        (folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{self.link}"\n'
            f'root-certificates = "{folder}/keys/authority.pem"\n'
        )
        tls = ("--ssl-ca-certfile", "keys/authority.pem", "--ssl-certfile", "keys/server.pem")
        tls += ("--ssl-keyfile", "keys/server.key", "--enable-supernode-auth")
        tls += ("--port", self.ports["link"], "--disable-runtime-dependency-installation")
        self.start("superlink", "flower-superlink", *tls)
        self.until_listening()

    def start(self, name: str, program: str, *more: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                [program, *more], cwd=self.folder, env=self.env, stdout=log, stderr=log
            )

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def until_listening(self) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", int(self.ports["link"]))) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError(self.said("superlink"))

    def key(self, name: str) -> None:
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

    def register(self, name: str) -> None:
        done = subprocess.run(
            ["flwr", "supernode", "register", f"{name}.pub", "here"],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def node(self, name: str, port: str) -> None:
        more = ("--root-certificates", "keys/authority.pem", "--superlink", self.link)
        more += ("--auth-supernode-private-key", name, "--port", port)
        worker = f'worker="{self.folder}/{name}-{{run}}.sock"'
        self.start(f"node-{name}", "flower-supernode", *more, "--node-config", worker)

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(30)
        self.forked.close()


@pytest.fixture
def flower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flower]:
    if os.environ.get("UNALIKE_FLOWER") == "none":  # make test-lowest
        pytest.skip("UNALIKE_FLOWER=none: Flower's bounds are narrower than ours")
    if shutil.which("flower-superlink", path=str(Path(sys.executable).parent)) is None:
        pytest.fail("Flower is not installed beside this Python: pip install -e '.[dev]'")
    made = Flower(tmp_path_factory.mktemp("fl"))
    try:
        yield made
    finally:
        made.stop()


@pytest.mark.timeout(600)
def test_six_methods_through_a_superlink_are_the_simulated_runs(flower: Flower) -> None:
    folder = flower.folder
    flower.key("stranger")
    flower.node("stranger", flower.ports["stranger"])
    for name in SITES:
        x, y = rows()[name]
        np.savez(folder / f"{name}.npz", x=x, y=y)
        flower.key(name)
        flower.register(name)
        flower.node(name, flower.ports[name])
    for method in SIX:
        (folder / f"{method}.toml").write_text(RECIPE.format(method=method))
        for name in SITES:
            socket_ = f"unix:{folder}/{name}-{method}.sock"
            more = ("--data", f"{name}.npz", "--at", socket_, "--folder", f"{method}-at-{name}")
            flower.start(f"{method}-{name}", "unalike", "join", name, *more)
        more = ("--at", f"flower:{flower.link}", "--keys", "keys", "--folder", method)
        flower.start(method, "unalike", "serve", f"{method}.toml", "--sites", *SITES, *more)
    for method in SIX:
        assert flower.running[method].wait(200) == 0, flower.said(method)
        for name in SITES:
            worker = f"{method}-{name}"
            assert flower.running[worker].wait(60) == 0, flower.said(worker)
        same_model(folder / method, folder / f"{method}.toml", SITES)
    assert flower.running["node-stranger"].poll() not in (None, 0), flower.said("node-stranger")
