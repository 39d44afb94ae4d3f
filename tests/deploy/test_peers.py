"""Peers that exchange directly, with certificates on both ends: the simulated run, node by node."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from deployed import Stopped, Without, peer, ports, together
from safetensors.torch import load_file
from torch import Tensor

from unalike import tree
from unalike.deploy.audit import check
from unalike.deploy.circle import SERVICE
from unalike.deploy.frames import LIMIT, decode, encode
from unalike.deploy.keys import credentials, issue, make_authority
from unalike.deploy.messages import MessageError, message
from unalike.deploy.network import Line
from unalike.deploy.peering import take_part
from unalike.deploy.policy import Policy
from unalike.errors import ConfigError, RunError
from unalike.federation.data import Federation
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import assemble, task
from unalike.run.folder.records import read_lines

FOUR = ("east", "middle", "north", "south")


def raw(topology: dict[str, Any], method: str = "fedavg", rounds: int = 3) -> dict[str, Any]:
    return {
        "rounds": rounds,
        "seed": 3,
        "model": {"name": "mlp", "hidden": [8]},
        "method": {"name": method},
        "topology": topology,
        "local": {"epochs": 1, "batch_size": 16, "lr": 0.1},
    }


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    make_authority(folder)
    for name in (*FOUR, "stranger"):
        issue(folder, name, peer=True)
    return folder


class Circle:
    """Peers in threads of this process."""

    def __init__(self, config: dict[str, Any], names: tuple[str, ...], keys: Path, folder: Path):
        self.config, self.names, self.keys, self.folder = config, names, keys, folder
        self.addresses, self.found = ports(names), dict[str, Path]()
        self.failed: dict[str, BaseException] = {}
        self.threads: dict[str, threading.Thread] = {}

    def start(self, name: str, **more: Any) -> None:
        def run() -> None:
            one = peer(name, self.config, self.addresses, self.keys, self.folder, **more)
            try:
                self.found[name] = take_part(one)
            except BaseException as error:
                self.failed[name] = error
            finally:
                one.close()

        self.threads[name] = threading.Thread(target=run, daemon=True)
        self.threads[name].start()

    def finish(self) -> dict[str, Path]:
        for thread in self.threads.values():
            thread.join(60)
        for error in self.failed.values():
            raise error
        assert self.found.keys() == set(self.names)
        return self.found


def played(
    config: dict[str, Any], names: tuple[str, ...], keys: Path, folder: Path
) -> dict[str, Path]:
    """The folder of each peer's run."""
    circle = Circle(config, names, keys, folder)
    for name in names:
        circle.start(name)
    return circle.finish()


SLOW = pytest.mark.slow
ON_A_RING = ("fedavg", "scaffold", "aaggff_s", "fedep", "superfed_mm")
NEEDS_A_CENTRE = ("fedevg",)  # in simulations, too
CASES = [
    *(({"name": "ring"}, method) for method in ON_A_RING),
    ({"name": "ring", "weights": "metropolis", "link_loss": 0.3}, "scaffold"),
    ({"name": "rotating"}, "fedep"),
    pytest.param({"name": "complete"}, "superfed_mm", marks=SLOW),
    pytest.param({"name": "ring", "link_loss": 0.3}, "aaggff_s", marks=SLOW),
    pytest.param({"name": "ring"}, "aaggff_d", marks=SLOW),
    pytest.param({"name": "ring"}, "afl", marks=SLOW),
    pytest.param({"name": "exponential", "one_peer": True}, "scaffold", marks=SLOW),
    pytest.param({"name": "rotating"}, "scaffold", marks=SLOW),
    pytest.param({"name": "clusters", "servers": 2, "period": 2}, "fedavg", marks=SLOW),
]


@pytest.mark.parametrize(("topology", "method"), CASES)
def test_peers_are_the_simulated_nodes(
    topology: dict[str, Any], method: str, keys: Path, tmp_path: Path
) -> None:
    config = raw(topology, method)
    found = played(config, FOUR, keys, tmp_path)
    data = together(FOUR, 3)
    near = assemble(parse(config), data, task(parse(config), data.examples))
    progress = near.course.begin()
    for t in range(near.course.rounds):
        progress, _, _ = near.course.advance(progress, t)
    judged = near.evaluator(progress.state)
    home = near.recipe.topology.home(4)
    for i, name in enumerate(data.names):
        own = load_file(found[name] / "model.safetensors")
        if not near.recipe.algorithm.personal_models:
            server = tree.row(progress.state.stack, int(home[i]))
            for k, x in server.x.items():
                assert torch.allclose(x, own[k], atol=1e-5), (name, k)
        verdicts = read_lines(found[name] / "clients.jsonl")[-1]["local"]
        assert "accuracy" in verdicts
        for metric, (value,) in verdicts.items():
            assert value == pytest.approx(judged.clients["local"][metric][i], abs=1e-5), metric
        assert (found[name] / "summary.json").exists()
        assert len(check(tmp_path / name / "audit.jsonl")) == 64


@pytest.mark.parametrize("method", NEEDS_A_CENTRE)
def test_what_cannot_run_on_a_ring_is_refused_as_in_a_simulation(
    method: str, keys: Path, tmp_path: Path
) -> None:
    config, data = raw({"name": "ring"}, method), together(FOUR, 3)
    with pytest.raises(ConfigError) as simulated:
        assemble(parse(config), data, task(parse(config), data.examples))
    with pytest.raises(ConfigError, match="topology") as deployed:
        peer("north", config, ports(FOUR), keys, tmp_path)
    assert str(deployed.value) == str(simulated.value)


def without(config: dict[str, Any], gone: dict[str, range]) -> tuple[Federation, Any]:
    """The simulated servers at the end, of a run in which some clients are away in some rounds."""
    data = together(FOUR, 3)
    near = assemble(parse(config), data, task(parse(config), data.examples))
    away = {data.names.index(name): rounds for name, rounds in gone.items()}
    course = near.course
    course.transport = Without(course.transport, away)
    progress = course.begin()
    for t in range(course.rounds):
        progress, _, _ = course.advance(progress, t)
    return data, progress.state.stack.x


def models(found: dict[str, Path]) -> dict[str, dict[str, Tensor]]:
    return {name: load_file(folder / "model.safetensors") for name, folder in found.items()}


@pytest.mark.parametrize(
    "method", ["fedep", *(pytest.param(m, marks=SLOW) for m in ("fedavg", "scaffold", "aaggff_s"))]
)
def test_whoever_no_longer_trains_is_left_out(method: str, keys: Path, tmp_path: Path) -> None:
    config = raw({"name": "ring"}, method)
    circle = Circle(config, FOUR, keys, tmp_path)
    for name in FOUR:
        circle.start(name, policy=Policy(max_rounds=1 if name == "north" else 0))
    own = models(circle.finish())
    data, wanted = without(config, {"north": range(1, 9)})
    for i, name in enumerate(data.names):
        for k, x in wanted.items():
            assert torch.allclose(x[i], own[name][k], atol=1e-5), (name, k)
    i = data.names.index("north")
    for beside in (data.names[i - 1], data.names[(i + 1) % 4]):
        lines = (circle.found[beside] / "heard.jsonl").read_text().splitlines()
        assert "north" in json.loads(lines[0])["heard"]
        assert json.loads(lines[1])["missing"] == {"north": "none of its clients answered"}


def stops(at: str) -> Callable[[str], None]:
    def say(text: str) -> None:
        if text.startswith(at):
            raise Stopped

    return say


@pytest.mark.parametrize("topology", ["ring", pytest.param("rotating", marks=SLOW)])
def test_a_peer_that_comes_back_in_time_changes_nothing(
    topology: str, keys: Path, tmp_path: Path
) -> None:
    config = raw({"name": topology}, "scaffold" if topology == "ring" else "fedavg", rounds=6)
    circle = Circle(config, FOUR, keys, tmp_path)
    for name in FOUR:
        circle.start(name, say=stops("round ") if name == "north" else print)
    circle.threads["north"].join(30)
    assert isinstance(circle.failed.pop("north"), Stopped)
    circle.start("north")
    own = models(circle.finish())
    for folder in circle.found.values():
        for line in (folder / "heard.jsonl").read_text().splitlines():
            assert not json.loads(line).get("missing")
    data, wanted = without(config, {})
    for i, name in enumerate(data.names):
        for k, x in wanted.items():
            assert torch.allclose(x[i if topology == "ring" else 0], own[name][k], atol=1e-5)


@SLOW
def test_the_others_go_on_without_a_peer_and_it_catches_up(keys: Path, tmp_path: Path) -> None:
    config = raw({"name": "complete", "weights": "metropolis"}, rounds=12)
    circle = Circle(config, FOUR, keys, tmp_path)
    reached = threading.Event()

    def say(text: str) -> None:
        if text.startswith("round 5"):
            reached.set()
        if reached.is_set():
            time.sleep(0.2)  # so that there is something left to catch up with

    for name in FOUR:
        circle.start(name, say=stops("round 2") if name == "north" else say, seconds=1.0)
    assert reached.wait(40)
    assert isinstance(circle.failed.pop("north"), Stopped)
    circle.start("north", seconds=5.0)
    found = circle.finish()
    lines = [json.loads(x) for x in (found["north"] / "heard.jsonl").read_text().splitlines()]
    played = [line["round"] for line in lines]
    assert played[:2] == [1, 2]
    assert played[2] > 3, "it went on where the others were"
    assert len(lines[-1]["heard"]) == 4
    said = [json.loads(x) for x in (found["east"] / "heard.jsonl").read_text().splitlines()]
    assert "north" in said[2]["missing"]
    assert sum(said[2]["heard"].values()) == pytest.approx(1.0)
    assert len(said[-1]["heard"]) == 4


def halves(data: Federation) -> dict[str, bool]:
    return {name: i < 2 for i, name in enumerate(data.names)}


@pytest.mark.parametrize("topology", ["ring", pytest.param("complete", marks=SLOW)])
def test_a_network_that_falls_apart_heals(
    topology: str, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two halves that do not hear each other for two rounds, as where these links are lost."""
    config, cut = raw({"name": topology}, rounds=5), range(1, 3)
    config["model"] = {"name": "logistic"}  # without kinks, at which roundings grow
    side = halves(together(FOUR, 3))

    class Cut(Line):
        def __init__(self, site: str, *given: Any, expects: str = "", **more: Any) -> None:
            super().__init__(site, *given, expects=expects, **more)
            self.apart = side[site] != side[expects]

        def call(self, name: str, told: Any, *more: Any) -> Any:
            asked = decode(b"".join(told.pieces()))
            if self.apart and asked.kind == "fetch" and asked.note["round"] in cut:
                raise ConnectionError("the cable is cut")
            return super().call(name, told, *more)

    monkeypatch.setattr("unalike.deploy.circle.Line", Cut)
    together_again = threading.Barrier(4, timeout=60)

    def say(text: str) -> None:
        if text.startswith("round 3"):  # the last one apart: nobody runs ahead of the others
            together_again.wait()

    circle = Circle(config, FOUR, keys, tmp_path)
    for name in FOUR:
        circle.start(name, say=say, seconds=1.0)
    own = models(circle.finish())
    lines = [read_lines(folder / "heard.jsonl") for folder in circle.found.values()]
    for own_lines in lines:
        assert [bool(line["missing"]) for line in own_lines] == [t in cut for t in range(5)]

    data = together(FOUR, 3)
    near = assemble(parse(config), data, task(parse(config), data.examples))
    graph = type(near.recipe.topology)
    links, first = graph.links, [side[name] for name in data.names]

    def lost(self: Any, t: int, n: int) -> Any:
        edges = links(self, t, n)
        assert edges is not None
        apart = [t in cut and first[a] != first[b] for a, b in edges.tolist()]
        return edges[~torch.tensor(apart)]

    monkeypatch.setattr(graph, "links", lost)
    progress = near.course.begin()
    for t in range(5):
        progress, _, _ = near.course.advance(progress, t)
    for i, name in enumerate(data.names):
        for k, x in progress.state.stack.x.items():
            assert torch.allclose(x[i], own[name][k], atol=1e-5), (name, k)


def test_strangers_and_other_recipes_are_refused(keys: Path, tmp_path: Path) -> None:
    config = raw({"name": "ring"})
    addresses = ports(FOUR)
    one = peer("north", config, addresses, keys, tmp_path)
    try:
        for shows, sender, says in (
            ("stranger", "stranger", "'stranger' is not a peer of this run"),
            ("south", "east", "in the name of 'east' came from 'south'"),
        ):
            shown = credentials(keys, shows)
            line = Line(shows, addresses["north"], shown, service=SERVICE, expects="north")
            with pytest.raises(MessageError, match=says):
                line.call("Ask", encode(message("hello", one.run, 1, sender)), LIMIT, 10)
        with pytest.raises(ConnectionError):  # somebody else at the address of a peer
            Line(
                "south",
                addresses["north"],
                credentials(keys, "south"),
                service=SERVICE,
                expects="east",
            ).call("Ask", b"", LIMIT, 5)
        other = peer("south", {**config, "rounds": 9}, addresses, keys, tmp_path)
        try:
            with pytest.raises(RunError, match="have different recipes, lists of peers"):
                take_part(other)
        finally:
            other.close()
    finally:
        one.close()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"topology": {"name": "star"}}, "use 'unalike serve'"),
        ({"clock": {"kind": "simulated"}}, "peers run in real time"),
        ({"attack": {"name": "sign_flip"}}, "for simulations"),
    ],
)
def test_what_peers_cannot_do_is_said(
    change: dict[str, Any], says: str, keys: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=says):
        peer("north", {**raw({"name": "ring"}), **change}, ports(FOUR), keys, tmp_path)
