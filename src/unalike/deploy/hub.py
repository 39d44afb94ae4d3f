"""Flower as the carrier: questions wait at the desk as always, and Flower takes them to the sites.

Only public objects of Flower are used (``Grid.push_messages``, ``pull_messages``, ``Message``), and
it sees bytes. Its control interface takes code from anyone who reaches it, whatever certificates
say, so a layout in which others can reach it is refused.
"""

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from unalike.deploy.audit import Audit
from unalike.deploy.desk import Desk
from unalike.deploy.frames import Parcel, decode
from unalike.deploy.messages import MessageError
from unalike.deploy.network import loopback
from unalike.deploy.post import HELLO, QUESTION, WELCOME
from unalike.deploy.serving import refuse, serve
from unalike.errors import ConfigError, RunError, UnalikeError
from unalike.run.configuration.config import read_config

REST = 0.3  # seconds between two looks, each of which is a request to the SuperLink
NODES = 3.0  # seconds between two looks at which nodes there are
AGAIN = 5.0  # seconds before a node that failed is asked again
SETTLE = 30.0  # seconds for the last word of a coordinator that failed
APP = files("unalike.deploy") / "flower_app"


def launch(
    file: str, sites: Sequence[str], link: str, folder: Path, seconds: float, root: str | None
) -> None:
    """Hand a run to the SuperLink of this machine, and show what it says until it is over."""
    refuse_exposed(link)
    refuse(read_config(file, []), [name.partition("=")[0] for name in sites])
    folder.mkdir(parents=True, exist_ok=True)
    home = folder / "flower"
    home.mkdir(exist_ok=True)
    safe = f'root-certificates = "{Path(root).resolve()}"' if root else "insecure = true"
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{link}"\n{safe}\n'
    )
    told = (
        f'recipe="{Path(file).resolve()}" folder="{folder.resolve()}" '
        f'run="{folder.resolve().name}" sites="{" ".join(sites)}" seconds={seconds}'
    )
    env = {**os.environ, "FLWR_HOME": str(home.resolve()), "FLWR_TELEMETRY_ENABLED": "0"}
    shutil.copytree(str(APP), home / "app", dirs_exist_ok=True)  # Flower packs what it finds there
    command = ["flwr", "run", str(home / "app"), "here", "--stream", "--run-config", told]
    try:
        done = subprocess.run(command, env=env, check=False)
    except FileNotFoundError:
        raise ConfigError("there is no 'flwr'; install it with pip install flwr.") from None
    if done.returncode or not (folder / "summary.json").exists():
        raise RunError(f"Flower ended without a finished run; '{folder}' can be continued.")


def refuse_exposed(link: str, table: Path = Path("/proc/net/tcp")) -> None:
    """Raise unless a SuperLink can be reached from this machine alone."""
    why = "Flower's control interface takes code from anyone who reaches it"
    if not loopback(link):
        raise ConfigError(f"'{link}' is not a local address, and {why}.")
    number = int(link.rpartition(":")[2])
    exposed = (
        f"the SuperLink at '{link}' also listens on other addresses, and {why}; start it with "
    )
    exposed += "--host 127.0.0.1 and let sites in through a proxy for /v1/fleet/."
    if not table.exists() and _reached(number):  # not every system has such a table
        raise ConfigError(exposed)
    port = f":{number:04X}"
    for version in (table, table.with_name(f"{table.name}6")):
        for line in version.read_text().splitlines()[1:] if version.exists() else ():
            local, _, state = line.split()[1:4]
            inside = local[6:9] == "7F:" or local.startswith(f"{'0' * 24}01000000")
            if state == "0A" and local.endswith(port) and not inside:
                raise ConfigError(exposed)


def _reached(port: int) -> bool:
    """Whether somebody listens at a port of this machine's addresses that others know."""
    for address in socket.gethostbyname_ex(socket.gethostname())[2]:
        with socket.socket() as s:
            s.settimeout(2.0)
            if not loopback(f"{address}:{port}") and s.connect_ex((address, port)) == 0:
                return True
    return False


def coordinate(grid: Any, told: Mapping[str, Any]) -> None:
    """A whole run, in the process that Flower starts for a ServerApp."""
    folder, names = Path(str(told["folder"])), [n.split("=")[0] for n in str(told["sites"]).split()]
    known = dict(n.split("=") for n in str(told["sites"]).split() if "=" in n)
    config = read_config(str(told["recipe"]), [])
    desk = Desk(names, Audit(folder / "audit.jsonl"))
    carrier = Carrier(grid, desk, {int(i): name for name, i in known.items()})
    threading.Thread(target=carrier.run, daemon=True).start()
    try:
        serve(config, names, folder, desk, _say, seconds=float(told["seconds"]))
    except UnalikeError as error:
        desk.end(str(error), failed=True)
        carrier.settle()
        raise
    finally:
        desk.close()


class Carrier:
    """Between the desk and the nodes; one thread, since a grid is not for several."""

    def __init__(self, grid: Any, desk: Desk, known: Mapping[int, str]) -> None:
        """``known`` are the sites of nodes; of others the first word counts."""
        self.grid, self.desk, self.known = grid, desk, dict(known)
        self.site: dict[int, str] = {}  # of nodes that have said hello
        self.welcomed: set[str] = set()
        self.waiting: dict[str, tuple[int, bytes]] = {}  # message -> node and what it was
        self.resting: dict[int, float] = {}  # nodes that failed, and until when they are left alone
        self.told: set[int] = set()  # nodes that were sent the coordinator's last word

    def run(self) -> None:
        """Until the desk is closed."""
        nodes, looked = set[int](), -NODES
        while not self.desk.closed:
            now = time.monotonic()
            if now - looked >= NODES:
                nodes, looked = set(self.grid.get_node_ids()), now
            busy = {node for node, _ in self.waiting.values()}
            busy |= {node for node, end in self.resting.items() if end > now}
            for node in nodes - busy - self.told:
                self._send(node)
            for reply in self.grid.pull_messages(list(self.waiting)) if self.waiting else ():
                self._take(reply)
            time.sleep(REST)

    def settle(self) -> None:
        """Wait until all sites have heard the last word, for some time."""
        end = time.monotonic() + SETTLE
        while time.monotonic() < end and (self.waiting or self.told != self.site.keys()):
            time.sleep(REST)

    def _send(self, node: int) -> None:
        """What a node is to hear next, if anything."""
        site = self.site.get(node)
        if site is not None and self.desk.ended:
            self.told.add(node)
        if site is None:
            self._push(node, HELLO)
        elif site not in self.welcomed and not self.desk.ended:
            if welcome := self.desk.hello(site, b""):
                self.welcomed.add(site)
                self._push(node, WELCOME, welcome)
        elif question := self.desk.next(site, 0.0):
            self._push(node, QUESTION, question)

    def _push(self, node: int, kind: bytes, told: Parcel | None = None) -> None:
        raw = b"".join([kind, *(() if told is None else told.pieces())])
        (number,) = self.grid.push_messages([self.wrapped(node, raw)])
        self.waiting[number] = node, kind

    def wrapped(self, node: int, raw: bytes) -> Any:
        """Bytes as a message of Flower's."""
        from flwr.app import Array, ArrayRecord, Message, RecordDict

        held = ArrayRecord({"raw": Array(np.frombuffer(raw, np.uint8))})
        return Message(RecordDict({"message": held}), node, "query.unalike")

    def _take(self, reply: Any) -> None:
        node, kind = self.waiting.pop(reply.metadata.reply_to_message_id)
        if reply.has_error():  # the node is gone, or its worker: the desk's deadline decides
            _say(f"node {node}: {reply.error.reason}")
            self.resting[node] = time.monotonic() + AGAIN
            return
        raw = reply.content["message"]["raw"].numpy().tobytes()
        try:
            if kind == HELLO:
                self._met(node, raw)
            elif kind == QUESTION:
                self.desk.answer(self.site[node], [raw])
        except MessageError as error:
            _say(f"node {node}: {error}")

    def _met(self, node: int, raw: bytes) -> None:
        """A node says whose it is."""
        site = decode(raw).head.sender
        if self.known.get(node, site) != site:
            raise MessageError(f"it says it is '{site}' but is '{self.known[node]}'.")
        if site in self.site.values():
            raise MessageError(f"another node is already '{site}'.")
        self.desk.hello(site, raw)
        self.site[node] = site


def _say(text: str) -> None:
    print(text, flush=True)
