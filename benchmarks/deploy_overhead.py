"""What a round over sockets costs beside training, and what the same bytes cost over bare Flower.

python benchmarks/deploy_overhead.py --mb 50
python benchmarks/deploy_overhead.py --mb 50 --flower FOLDER   # where flower-superlink and flwr are
python benchmarks/deploy_overhead.py --mb 50 --sites 3 --sealed

Ours: a coordinator and sites, each a process, with certificates, audit logs and checkpoints; one
step of training on 16 rows. A round is timed by the coordinator; what the sites spend between
question and answer is told apart. Flower: the same number of bytes down and up in its own
`Message`s, no training, no checks, nothing encrypted or saved. Memory is the peak of each process.
"""

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import numpy as np

from unalike.deploy.security.certificates import issue, make_authority

ROWS, FEATURES = 20, 64

RECIPE = """
rounds = {rounds}
[model]
name = "mlp"
hidden = [{width}, {width}]
[split]
validation = 0.0
[local]
lr = 0.001
batch_size = 16
epochs = 1
[evaluation]
every = {rounds}
[deploy]
secure_aggregation = {sealed}
"""

APP = """
import time
import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()


@client.query("echo")
def echo(msg, ctx):
    back = {}
    for name, array in msg.content["arrays"].items():
        x = array.numpy().copy()
        x[:: 1 << 20] += 1 + int(ctx.node_config["partition-id"])  # nothing is known already
        back[name] = Array(x)
    return Message(content=RecordDict({"arrays": ArrayRecord(back)}), reply_to=msg)


@server.main()
def main(grid, ctx):
    c = ctx.run_config
    while len(ids := list(grid.get_node_ids())) < c["sites"]:
        time.sleep(0.2)
    n = int(c["mb"] * 1e6 / 4 / 8)
    for r in range(c["rounds"]):
        x = np.random.default_rng(r).standard_normal((8, n), dtype=np.float32)
        rec = RecordDict({"arrays": ArrayRecord({f"w{i}": Array(x[i]) for i in range(8)})})
        begun = time.time()
        sent = [Message(rec, i, "query.echo", ttl=600.0, group_id=str(r)) for i in ids]
        waiting = set(grid.push_messages(sent))
        while waiting:
            for m in grid.pull_messages(waiting):
                m.content["arrays"]
                waiting.discard(m.metadata.reply_to_message_id)
            time.sleep(0.1)
        print(f"SECONDS {time.time() - begun:.2f}", flush=True)
"""

PROJECT = """
[project]
name = "echo"
version = "1.0.0"
description = "bytes there and back"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "unalike"
[tool.flwr.app.components]
serverapp = "echo.app:server"
clientapp = "echo.app:client"
[tool.flwr.app.config]
mb = 1.0
rounds = 3
sites = 2
"""


class Running:
    """Processes with their peak memory, in MB."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder, self.env, self.pids = folder, env, dict[str, subprocess.Popen[bytes]]()

    def start(self, name: str, *command: str) -> None:
        """Begin."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.pids[name] = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, env=self.env
            )

    def wait(self, name: str) -> float:
        """Peak memory of one that has ended."""
        process = self.pids.pop(name)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
        if status:
            raise SystemExit((self.folder / f"{name}.log").read_text()[-2000:])
        return used.ru_maxrss / 1024

    def stop(self) -> None:
        """End those that are left."""
        for process in self.pids.values():
            process.terminate()
        for process in self.pids.values():
            process.wait(30)


def ours(mb: float, rounds: int, sites: int, sealed: bool, folder: Path) -> None:
    folder.mkdir()
    width = int(((FEATURES + 10) ** 2 / 4 + mb * 1e6 / 4) ** 0.5 - (FEATURES + 10) / 2)
    told = {"rounds": rounds, "width": width, "sealed": str(sealed).lower()}
    (folder / "recipe.toml").write_text(RECIPE.format(**told))
    make_authority(folder / "keys")
    issue(folder / "keys", "server", ("localhost",))
    names = [f"site{k}" for k in range(sites)]
    draw = np.random.default_rng(0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        at = f"localhost:{free.getsockname()[1]}"
    running = Running(folder, {**os.environ, "OMP_NUM_THREADS": "1"})
    unalike = (sys.executable, "-m", "unalike")
    shown = ("--at", at, "--keys", "keys")
    running.start(
        "server", *unalike, "serve", "recipe.toml", "--sites", *names, "--folder", "run", *shown
    )
    for name in names:
        issue(folder / "keys", name)
        x, y = draw.normal(size=(ROWS, FEATURES)), np.arange(ROWS) % 10
        np.savez(folder / f"{name}.npz", x=x.astype(np.float32), y=y)
        running.start(name, *unalike, "join", name, "--data", f"{name}.npz", *shown)
    memory = [running.wait("server"), max(running.wait(name) for name in names)]
    lines = (folder / "run" / "timing.jsonl").read_text().splitlines()
    seconds = [json.loads(line)["seconds"] for line in lines][1:-1]  # the last one judges
    work = [at_work(folder / "sites" / name / "audit.jsonl")[1:-1] for name in names]
    inner = [max(each) for each in zip(*work, strict=True)]
    size = (folder / "run" / "model.safetensors").stat().st_size / 1e6
    _say("unalike, sealed" if sealed else "unalike", size, seconds, memory)
    print(f"  of these, at the slower site: {statistics.median(inner):.2f} s")


def at_work(log: Path) -> list[float]:
    """Seconds between each question to train and its answer."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    asked = {e["number"]: e["time"] for e in lines if e["kind"] == "train"}
    done = {e["number"]: e["time"] for e in lines if e["way"] == "sent" and e["number"] in asked}
    return [(_time(done[n]) - _time(at)).total_seconds() for n, at in asked.items()]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def flower(mb: float, rounds: int, sites: int, programs: Path, folder: Path) -> None:
    (folder / "app" / "echo").mkdir(parents=True)
    (folder / "app" / "pyproject.toml").write_text(PROJECT)
    (folder / "app" / "echo" / "__init__.py").touch()
    (folder / "app" / "echo" / "app.py").write_text(APP)
    (folder / "home").mkdir()
    (folder / "home" / "config.toml").write_text(
        '[superlink]\ndefault = "lo"\n[superlink.lo]\naddress = "127.0.0.1:8000"\ninsecure = true\n'
    )
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    env = {**os.environ, **quiet, "FLWR_HOME": str(folder / "home")}
    env["PATH"] = f"{programs}:{env['PATH']}"
    env.pop("PYTHONPATH", None)
    running = Running(folder, env)
    link = ("flower-superlink", "--insecure", "--disable-runtime-dependency-installation")
    running.start("link", *link)
    time.sleep(8)
    for k in range(sites):
        at = ("--superlink", "127.0.0.1:8000", "--port", str(9100 + k))
        running.start(
            f"node{k}", "flower-supernode", "--insecure", *at, "--node-config", f"partition-id={k}"
        )
    time.sleep(8)
    told = f"mb={mb} rounds={rounds} sites={sites}"
    try:
        running.start("run", "flwr", "run", "app", "lo", "--stream", "--run-config", told)
        running.pids.pop("run").wait(900)
        text = (folder / "run.log").read_text() + (folder / "link.log").read_text()
        seconds = list(map(float, re.findall(r"SECONDS ([\d.]+)", text)))[-rounds:]
        if not seconds:
            raise SystemExit(text[-3000:])
        memory = [_peak(running.pids["link"].pid), _peak(running.pids["node0"].pid)]
        _say("bare Flower", mb, seconds[1:], memory)
    finally:
        running.stop()


def _peak(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return float(found[1]) / 1024 if found else float("nan")


def _say(what: str, mb: float, seconds: list[float], memory: list[float]) -> None:
    print(
        f"{what}: {mb:.0f} MB, {statistics.median(seconds):.2f} s a round "
        f"({min(seconds):.2f} to {max(seconds):.2f}, {len(seconds)} rounds); "
        f"peak memory {memory[0]:.0f} MB at the centre, {memory[1]:.0f} MB at a site",
        flush=True,
    )


if __name__ == "__main__":
    asked = argparse.ArgumentParser()
    asked.add_argument("--mb", type=float, default=50.0)
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--sites", type=int, default=2)
    asked.add_argument("--sealed", action="store_true")
    asked.add_argument("--flower", type=Path)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as place:
        ours(given.mb, given.rounds, given.sites, given.sealed, Path(place) / "ours")
        if given.flower:
            flower(given.mb, given.rounds, given.sites, given.flower, Path(place) / "flower")
