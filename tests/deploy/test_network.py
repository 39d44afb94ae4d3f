"""Coordinator and sites over real sockets, with certificates on both ends."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deployed import NAMES, Stopped, examples, greeting, ports, simulated
from safetensors.torch import load_file

from unalike.cli import deploying
from unalike.cli.listing import show
from unalike.deploy.audit import Audit, check
from unalike.deploy.desk import Desk
from unalike.deploy.frames import LIMIT, encode, pack
from unalike.deploy.keys import credentials, issue, make_authority
from unalike.deploy.messages import MessageError, message
from unalike.deploy.network import Line, Listener
from unalike.deploy.policy import Policy
from unalike.deploy.serving import serve
from unalike.deploy.working import work
from unalike.errors import ConfigError, RunError
from unalike.federation.readers import from_arrays
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import assemble, task
from unalike.run.folder.records import read_lines

SIX = ("fedavg", "scaffold", "aaggff_s", "fedep", "superfed_mm", "fedevg")


def raw(method: str) -> dict[str, Any]:
    return {
        "rounds": 2,
        "seed": 3,
        "model": {"name": "mlp", "hidden": [8]},
        "method": {"name": method},
        "local": {"epochs": 1, "batch_size": 16, "lr": 0.1},
    }


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    make_authority(folder)
    issue(folder, "server", hosts=("localhost", "127.0.0.1"))
    for name in (*NAMES, "stranger"):
        issue(folder, name)
    return folder


@pytest.fixture
def listening(keys: Path, tmp_path: Path) -> Iterator[tuple[Desk, str]]:
    desk = Desk(NAMES, Audit(tmp_path / "coordinator" / "audit.jsonl"))
    listener = Listener(desk, "127.0.0.1:0", credentials(keys, "server"))
    yield desk, f"localhost:{listener.port}"
    listener.close()


def started(name: str, address: str, keys: Path, folder: Path, **more: Any) -> threading.Thread:
    """A site at work in a thread of its own."""
    line = Line(name, address, credentials(keys, name))

    def run() -> None:
        policy = more.get("policy", Policy())
        with suppress(RunError):  # a coordinator that stopped is not waited for
            work(name, examples(name), line, folder / name, policy, print, 20.0)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("method", [*SIX, "fedavg, sealed"])
def test_a_run_over_sockets_is_the_simulated_one(
    method: str, listening: tuple[Desk, str], keys: Path, tmp_path: Path
) -> None:
    desk, address = listening
    name, _, sealed = method.partition(", ")
    config = parse(raw(name) | {"deploy": {"secure_aggregation": bool(sealed)}})
    sites = [started(name, address, keys, tmp_path) for name in NAMES]
    folder = serve(config, NAMES, tmp_path / "coordinator", desk, print, seconds=60, arrive=30)
    for site in sites:
        site.join(20)
    data = simulated(config.seed)
    near = assemble(config, data, task(config, data.examples))
    progress = near.course.begin()
    for t in range(near.course.rounds):
        progress, _, _ = near.course.advance(progress, t)
    model = near.course.model(progress)
    assert model is not None
    found = load_file(folder / "model.safetensors")
    for name, x in model.items():
        assert torch.allclose(x, found[name], atol=1e-5)
    records = read_lines(folder / "rounds.jsonl")
    assert [r["clients"] for r in records] == [[0, 1, 2, 3, 4]] * 2
    for place in ("coordinator", *NAMES):
        assert len(check(tmp_path / place / "audit.jsonl")) == 64


def test_a_privacy_budget_survives_a_restart(keys: Path, tmp_path: Path) -> None:
    at = ports(("coordinator",))["coordinator"].replace("127.0.0.1", "localhost")
    config = parse(raw("fedavg") | {"rounds": 3, "plus": [{"name": "dp", "noise_multiplier": 1.0}]})
    sites = list[threading.Thread]()

    def stops(text: str) -> None:
        if text.startswith("round 2"):
            raise Stopped

    for say in (stops, print):
        desk = Desk(NAMES, Audit(tmp_path / "run" / "audit.jsonl"))
        listener = Listener(desk, at, credentials(keys, "server"))
        sites = sites or [started(name, at, keys, tmp_path) for name in NAMES]
        try:
            serve(config, NAMES, tmp_path / "run", desk, say, seconds=60, arrive=60)
        except Stopped:
            pass
        finally:
            listener.close()
    for site in sites:
        site.join(20)
    data = simulated(config.seed)
    near = assemble(config, data, task(config, data.examples))
    assert near.accountant is not None
    spent = [r["epsilon"] for r in read_lines(tmp_path / "run" / "rounds.jsonl")]
    assert spent == [round(near.accountant(t), 6) for t in range(3)]
    assert 0 < spent[0] < spent[1] < spent[2]


def test_strangers_are_turned_away(listening: tuple[Desk, str], keys: Path) -> None:
    _, address = listening
    hello = encode(message("hello", "", 0, "north"))
    with pytest.raises(MessageError, match="'stranger' is not a site of this run"):
        Line("stranger", address, credentials(keys, "stranger")).call("Hello", hello, LIMIT, 10)
    with pytest.raises(MessageError, match="in the name of 'north' came from 'south'"):
        Line("south", address, credentials(keys, "south")).call("Hello", hello, LIMIT, 10)


def test_without_a_certificate_of_the_authority_nobody_gets_in(
    listening: tuple[Desk, str], tmp_path: Path
) -> None:
    _, address = listening
    make_authority(tmp_path / "other")
    issue(tmp_path / "other", "north")
    line = Line("north", address, credentials(tmp_path / "other", "north"))
    with pytest.raises(ConnectionError):
        line.call("Next", b"", LIMIT, 5)


def test_plain_text_stays_on_this_machine(tmp_path: Path) -> None:
    desk = Desk(NAMES, Audit(tmp_path / "audit.jsonl"))
    with pytest.raises(ConfigError, match="nothing would be encrypted"):
        Listener(desk, "0.0.0.0:0", None)
    with pytest.raises(ConfigError, match="nothing would be encrypted"):
        Line("north", "10.0.0.1:9000", None)


def test_certificates_are_checked_and_made_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path)
    with pytest.raises(RunError, match=r"there is no '.*authority.pem'"):
        deploying.make_keys(place, (), (), 365, False)
    for names, days in ((("north", "south"), 365), (("west",), 7)):
        deploying.make_keys(place, names, (), days, False)
    capsys.readouterr()
    deploying.make_keys(place, (), (), 365, False)
    assert capsys.readouterr().out.splitlines() == [
        "authority: valid for 3649 days",
        "north: valid for 364 days",
        "south: valid for 364 days",
        "west: valid for 6 days; make a new one soon",
    ]
    before = (tmp_path / "north.key").read_bytes()
    deploying.make_keys(place, ("north",), (), 365, False)
    (tmp_path / "north.key").write_bytes(before)  # only half of the new pair was copied
    with pytest.raises(RunError, match=r"north.key' is not the key of '.*north.pem'"):
        deploying.make_keys(place, (), (), 365, False)
    with pytest.raises(RunError, match=r"north.key' is not the key of '.*north.pem'"):
        credentials(tmp_path, "north")


def test_what_a_policy_may_say_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    show("policy")
    said = capsys.readouterr().out
    assert all(name in said for name in Policy.model_fields)


def test_there_is_no_other_call_and_no_other_address(
    listening: tuple[Desk, str], keys: Path
) -> None:
    _, address = listening
    line = Line("north", address, credentials(keys, "north"))
    for call in ("Shutdown", "Run", "Register", ""):
        with pytest.raises(ConnectionError):
            line.call(call, b"", LIMIT, 5)
    line.close()
    port = int(address.rpartition(":")[2])
    for other in ("127.0.0.2", "127.1.2.3"):
        with socket.socket() as s:
            s.settimeout(2)
            assert s.connect_ex((other, port)) != 0


def test_a_message_counts_once(listening: tuple[Desk, str], keys: Path) -> None:
    desk, address = listening
    line = Line("north", address, credentials(keys, "north"))
    answer = encode(message("answer", "run", 7, "north"))
    with pytest.raises(ConnectionError, match="says 'hello' before"):
        line.call("Answer", answer, LIMIT, 10)
    line.call("Hello", greeting("north"), LIMIT, 10)
    with pytest.raises(MessageError, match="question 7 is not open"):
        line.call("Answer", answer, LIMIT, 10)
    got = desk.ask({"north": message("survey", "run", 7, "coordinator")}, 10)
    thread = threading.Timer(0.5, lambda: line.call("Answer", answer, LIMIT, 10))
    thread.start()
    assert [site for site, _ in got] == ["north"]
    thread.join()
    with pytest.raises(MessageError, match="question 7 is not open"):
        line.call("Answer", answer, LIMIT, 10)


@pytest.mark.parametrize("failed", [True, False])
def test_sites_hear_why_the_coordinator_leaves(
    failed: bool, listening: tuple[Desk, str], keys: Path, tmp_path: Path
) -> None:
    desk, address = listening
    said, left = list[str](), list[str]()
    line = Line("north", address, credentials(keys, "north"))

    def run() -> None:
        try:
            work("north", examples("north"), line, tmp_path / "n", Policy(), said.append, 1.0)
        except RunError as error:
            left.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert wait_until(lambda: desk.session("north") > 0)
    desk.end("site 'west' did not connect within 5 seconds.", failed=failed)
    thread.join(20)
    line.close()
    assert not thread.is_alive()
    if failed:
        assert left == [
            "the coordinator has ended the run: site 'west' did not connect within 5 seconds."
        ]
    else:
        assert "site 'west' did not connect" in said[0]


def test_a_run_that_cannot_begin_ends_at_sites_too(tmp_path: Path) -> None:
    """Two sites whose rows have different lengths, and the commands of both ends."""
    at, left = ports(("coordinator",))["coordinator"], list[str]()
    (tmp_path / "recipe.toml").write_text("rounds = 1")

    def run(name: str, width: int) -> None:
        own = from_arrays(np.zeros((9, width)), [0, 1, 2] * 3)
        line = Line(name, at, None)
        try:
            work(name, own, line, tmp_path / name, Policy(), print, 20.0)
        except RunError as error:
            left.append(str(error))
        finally:
            line.close()

    given = (("a", 3), ("b", 4))
    sites = [threading.Thread(target=run, args=pair, daemon=True) for pair in given]
    for site in sites:
        site.start()
    with pytest.raises(RunError, match="have different data"):
        deploying.serve(
            str(tmp_path / "recipe.toml"), ["a", "b"], at, None, str(tmp_path / "run"), [], 20.0
        )
    for site in sites:
        site.join(20)
    assert [text.partition(":")[0] for text in left] == ["the coordinator has ended the run"] * 2
    assert "have different data" in left[0]


def wait_until(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + 10
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


def test_an_audit_log_shows_what_was_changed(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl")
    for i in range(3):
        audit.append("sent", "north", "train", i, pack(message("train", "run", i, "north")))
    lines = audit.path.read_text().splitlines(keepends=True)
    for wrong in ([lines[0], lines[2]], [lines[0].replace("north", "south"), *lines[1:]]):
        audit.path.write_text("".join(wrong))
        with pytest.raises(RunError, match="line 2 does not match"):
            check(audit.path)


def test_a_site_refuses_what_its_policy_does_not_allow(
    listening: tuple[Desk, str], keys: Path, tmp_path: Path
) -> None:
    desk, address = listening
    for name in NAMES:
        policy = Policy(survey=name != "west")
        started(name, address, keys, tmp_path, policy=policy)
    with pytest.raises(RunError, match=r"'west' did not answer the survey .*allows no survey"):
        serve(parse(raw("fedep")), NAMES, tmp_path / "coordinator", desk, print, seconds=20)
