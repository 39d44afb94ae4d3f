"""A hundred faults (make test-faults): the model is right, or a sentence says what to do.

Right is what a simulation comes to in which those clients are away that the run's own record says
were away; but for answers that were refused or late nobody may be. Faults that end a process or a
thread end with a sentence, and the same command continues.
"""

import errno
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from deployed import NAMES, Stopped, Without, examples, peer, ports, together
from safetensors.torch import load_file

from unalike import tree
from unalike.deploy import circle, keeping, serving
from unalike.deploy.audit import Audit, check
from unalike.deploy.desk import Desk
from unalike.deploy.frames import LIMIT, Arrived, Parcel, decode, encode
from unalike.deploy.keys import Credentials, credentials, issue, make_authority
from unalike.deploy.messages import MessageError
from unalike.deploy.network import Line, Listener
from unalike.deploy.peering import take_part
from unalike.deploy.policy import Policy
from unalike.deploy.serving import serve
from unalike.deploy.working import work
from unalike.errors import RunError, UnalikeError
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import assemble, task
from unalike.run.folder.records import read_lines

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]
THREE = NAMES[:3]
ROUNDS, SECONDS, EACH = 4, 8.0, 5

ON_THE_WAY = ("dropped", "unacknowledged", "delayed", "duplicated", "garbled", "garbled question")
STOPPING = ("full disk", "full disk of the coordinator", "expired", "wrong key", "old version")
REFUSED = ("not finite", "late", "replayed")
OF_PEERS = ("peer dropped", "peer garbled", "peer stopped", "peer with a full disk")
CASES = [(k, i) for i in range(EACH) for k in (*ON_THE_WAY, *STOPPING, *REFUSED, *OF_PEERS)]


def recipe(topology: str, method: str) -> dict[str, Any]:
    return {
        "rounds": ROUNDS,
        "seed": 3,
        "model": {"name": "mlp", "hidden": [6]},
        "method": {"name": method},
        "topology": {"name": topology},
        "local": {"epochs": 1, "batch_size": 16, "lr": 0.1},
    }


class Plan:
    """One fault: at which call of whom, and whether it has happened."""

    def __init__(self, kind: str, seed: int) -> None:
        rng = random.Random(f"{kind} {seed}")
        self.kind, self.rng = kind, rng
        self.victim, self.at = rng.choice(THREE), rng.randrange(1, 6)
        self.method = rng.choice(["fedavg", "scaffold"])
        self.happened, self.refused = False, 0
        self.sent: list[bytes] = []
        self._lock, self._calls = threading.Lock(), 0

    def now(self, site: str) -> bool:
        """Whether the fault is to happen at this call of the site's; it happens once."""
        with self._lock:
            self._calls += site == self.victim
            due = site == self.victim and self._calls == self.at and not self.happened
            self.happened = self.happened or due
            return due

    def garbled(self, raw: bytes) -> bytes:
        b = bytearray(raw)
        for _ in range(self.rng.randrange(1, 4)):
            b[self.rng.randrange(len(b))] ^= 1 << self.rng.randrange(8)
        return bytes(b)


def faulty(plan: Plan) -> type[Line]:
    """Lines on which a plan's fault happens."""

    class Faulty(Line):
        def call(
            self, name: str, told: Parcel | bytes, limit: int, seconds: float
        ) -> Arrived | None:
            raw = b"".join(told.pieces()) if isinstance(told, Parcel) else told

            def go(told: bytes = raw) -> Arrived | None:
                return super(Faulty, self).call(name, told, limit, seconds)

            kind = plan.kind.removeprefix("peer ")
            if kind == "old version" and name == "Hello" and raw and plan.now(self.site):
                m = decode(raw)
                note = {**m.note, "version": "0.0.1"}
                return go(encode(m._replace(head=m.head.model_copy(update={"note": note}))))
            if kind == "garbled question" and name == "Next":
                back = go()
                if back is not None and plan.now(self.site):
                    decode(plan.garbled(encode(back.message)))
                return back
            if name not in ("Answer", "Ask"):
                return go()
            return _sent(plan, kind, self.site, raw, go)

    return Faulty


def _sent(plan: Plan, kind: str, site: str, raw: bytes, go: Callable[..., Any]) -> Any:
    trains = kind in ("not finite", "late") and "steps" in (decode(raw).note.get("stats") or {})
    if kind in ("not finite", "late") and not trains:
        return go()
    if site == plan.victim:
        plan.sent.append(raw)
    if kind not in (*ON_THE_WAY, *REFUSED) or not plan.now(site):
        return go()
    if kind == "dropped":
        raise ConnectionError("the line was cut")
    if kind == "unacknowledged":
        go()
        raise ConnectionError("the line was cut")
    if kind == "garbled":
        return go(plan.garbled(raw))
    if kind == "not finite":
        m = decode(raw)
        bad = {k: torch.full_like(x, torch.nan) for k, x in m.tensors.items()}
        return go(encode(m._replace(tensors=bad)))
    if kind in ("delayed", "late"):
        time.sleep(1.0 if kind == "delayed" else 3.0)
        return go()
    back = go()  # and once more, or an older one once more
    try:
        go(raw if kind == "duplicated" else plan.sent[0])
    except MessageError:
        plan.refused += 1
    return back


def full(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk on which the victim's write fails once."""
    whole = keeping.write

    def write(path: Path, data: Any) -> None:
        if plan.victim in path.parts and plan.now(plan.victim):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        whole(path, data)

    monkeypatch.setattr(keeping, "write", write)


def right(config: dict[str, Any], gone: dict[int, range | set[int]], names: tuple[str, ...]) -> Any:
    """(names by number, the servers of the simulation in which some were away)."""
    data = together(THREE, 3)
    near = assemble(parse(config), data, task(parse(config), data.examples))
    near.course.transport = Without(near.course.transport, gone)  # type: ignore[arg-type]
    progress = near.course.begin()
    for t in range(ROUNDS):
        progress, _, _ = near.course.advance(progress, t)
    return data.names, progress.state.stack.x


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    make_authority(folder)
    issue(folder, "server", hosts=("localhost", "127.0.0.1"))
    for name in THREE:
        issue(folder, name, peer=True)
    return folder


class Star:
    """A coordinator and three sites in threads; whoever stops with a sentence is started again."""

    def __init__(self, plan: Plan, keys: Path, folder: Path) -> None:
        self.plan, self.keys, self.folder = plan, keys, folder
        self.config = recipe("star", plan.method)
        self.said: list[str] = []
        self.listens = threading.Event()
        self.address = ports(("coordinator",))["coordinator"].replace("127.0.0.1", "localhost")
        self.line = faulty(plan)
        self.seconds = 2.0 if plan.kind == "late" else SECONDS

    def site(self, name: str) -> None:
        if self.plan.kind == "old version":  # said once, so somebody must be there to hear it
            assert self.listens.wait(60)
        for _ in range(4):
            line = None
            try:
                shown = self._shown(name)
                line = self.line(name, self.address, shown)
                work(name, examples(name), line, self.folder / name, Policy(), print, 20.0)
                return
            except UnalikeError as error:
                self.said.append(str(error))
            finally:
                if line is not None:
                    line.close()

    def _shown(self, name: str) -> Credentials:
        """A certificate; the victim's is wrong at first."""
        wrong = self.plan.kind in ("expired", "wrong key") and name == self.plan.victim
        if wrong and not self.plan.happened:
            self.plan.happened = True
            other = self.folder / "other"
            make_authority(other)
            issue(other, name, days=0 if self.plan.kind == "expired" else 365)
            self._knock(name, credentials(other, name))  # one that is expired is said here
        return credentials(self.keys, name)

    def _knock(self, name: str, shown: Credentials) -> None:
        assert self.listens.wait(60)
        line = Line(name, self.address, shown)
        try:
            line.call("Next", b"", LIMIT, 5)
        except ConnectionError as error:
            raise RunError(f"turned away ({error}).") from None
        finally:
            line.close()
        raise AssertionError("a stranger got in")

    def coordinate(self) -> Path:
        for _ in range(3):
            place = self.folder / "coordinator"
            desk = Desk(THREE, Audit(place / "audit.jsonl"))
            listener = Listener(desk, self.address, credentials(self.keys, "server"))
            self.listens.set()
            try:
                given = (parse(self.config), THREE, place, desk, print)
                return serve(*given, seconds=self.seconds, arrive=60)
            except RunError as error:
                self.said.append(str(error))
            finally:
                listener.close()
        raise AssertionError(self.said)

    def run(self) -> Path:
        sites = [threading.Thread(target=self.site, args=(n,), daemon=True) for n in THREE]
        for thread in sites:
            thread.start()
        found = self.coordinate()
        for thread in sites:
            thread.join(40)
        return found


def play_star(plan: Plan, keys: Path, folder: Path) -> None:
    star = Star(plan, keys, folder)
    found = star.run()
    assert plan.happened, "the fault did not happen"
    records = read_lines(found / "rounds.jsonl")
    assert [r["round"] for r in records] == list(range(1, ROUNDS + 1)), "a round counted twice"
    gone: dict[int, Any] = {
        i: {t for t, r in enumerate(records) if i not in r["clients"]} for i in range(3)
    }
    away = sum(map(len, gone.values()))
    assert away == (1 if plan.kind in ("not finite", "late") else 0), (gone, star.said)
    _, wanted = right(star.config, gone, THREE)
    model = load_file(found / "model.safetensors")
    for k, x in wanted.items():
        assert torch.allclose(x[0], model[k], atol=1e-5), (plan.kind, k, star.said)
    if plan.kind in STOPPING:
        assert star.said, "it should have been said"
        assert all(s.count("\n") == 0 and s.endswith(".") for s in star.said), star.said
    if plan.kind in ("duplicated", "replayed"):
        assert plan.refused == 1
    for place in ("coordinator", *THREE):
        check(folder / place / "audit.jsonl")


def play_peers(plan: Plan, keys: Path, folder: Path) -> None:
    config, addresses = recipe("ring", plan.method), ports(THREE)
    found: dict[str, Path] = {}
    said: list[str] = []

    def stops(text: str) -> None:
        if plan.kind == "peer stopped" and text.startswith("round ") and plan.now(plan.victim):
            raise Stopped

    def run(name: str) -> None:
        for _ in range(3):
            say = stops if name == plan.victim else lambda text: None
            one = peer(name, config, addresses, keys, folder, say, 20.0)
            try:
                found[name] = take_part(one)
                return
            except Stopped:
                continue
            except UnalikeError as error:
                said.append(str(error))
            finally:
                one.close()

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in THREE]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(80)
    assert plan.happened, "the fault did not happen"
    assert found.keys() == set(THREE), said
    names, wanted = right(config, {}, THREE)
    for i, name in enumerate(names):
        model = load_file(found[name] / "model.safetensors")
        for line in read_lines(found[name] / "heard.jsonl"):
            assert not line["missing"], (plan.kind, line)
        for k, x in wanted.items():
            assert torch.allclose(tree.row(x, i), model[k], atol=1e-5), (plan.kind, name, said)
        check(folder / name / "audit.jsonl")
    assert bool(said) == (plan.kind == "peer with a full disk"), said


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_a_fault_is_survived(
    kind: str, seed: int, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(kind, seed)
    if kind in ("full disk", "peer with a full disk"):
        full(plan, monkeypatch)
    if kind == "full disk of the coordinator":
        plan.victim, plan.at = "coordinator", plan.rng.randrange(1, ROUNDS)
        store = serving.Checkpoint.store

        def stored(self: Any, *given: Any) -> None:
            if plan.now("coordinator"):
                raise OSError(errno.ENOSPC, "No space left on device")
            store(self, *given)

        monkeypatch.setattr(serving.Checkpoint, "store", stored)
    if kind == "old version":
        plan.at = 1
    if kind in ("not finite", "late"):
        plan.at = min(plan.at, ROUNDS)
    if kind == "peer stopped":
        plan.at = plan.rng.randrange(1, ROUNDS)
    if kind in OF_PEERS:
        monkeypatch.setattr(circle, "Line", faulty(plan))
        play_peers(plan, keys, tmp_path)
    else:
        play_star(plan, keys, tmp_path)
