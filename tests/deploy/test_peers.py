"""Peers that exchange directly, with certificates on both ends: the simulated run, node by node."""

import json
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deployed import examples, rows
from safetensors.torch import load_file

from unalike import tree
from unalike.deploy.audit import check
from unalike.deploy.keys import credentials, issue, make_authority
from unalike.deploy.peer import Peer
from unalike.deploy.peering import take_part
from unalike.deploy.policy import Policy
from unalike.federation.build import federate
from unalike.federation.data import Federation
from unalike.federation.partition.natural import Natural
from unalike.run.build import assemble, task
from unalike.run.config import parse

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


def ports(names: tuple[str, ...]) -> dict[str, str]:
    """Free addresses of this machine."""
    held = [socket.socket() for _ in names]
    for s in held:
        s.bind(("127.0.0.1", 0))
    found = {n: f"127.0.0.1:{s.getsockname()[1]}" for n, s in zip(names, held, strict=True)}
    for s in held:
        s.close()
    return found


def together(names: tuple[str, ...], seed: int) -> Federation:
    """The rows of some peers as one federation."""
    held = rows()
    x, y = (np.concatenate([held[n][k] for n in names]) for k in (0, 1))
    groups = np.repeat(names, [len(held[n][1]) for n in names])
    return federate((x, y, groups), Natural(), seed=seed)


def peer(
    name: str, config: dict[str, Any], addresses: dict[str, str], keys: Path, folder: Path
) -> Peer:
    shown = credentials(keys, name)
    return Peer(
        name,
        parse(config),
        examples(name),
        addresses,
        folder / name,
        Policy(),
        shown,
        lambda text: None,
        seconds=20.0,
        arrive=30.0,
    )


def played(
    config: dict[str, Any], names: tuple[str, ...], keys: Path, folder: Path
) -> dict[str, Path]:
    """Peers in threads; the folder of each one's run."""
    addresses, found = ports(names), dict[str, Path]()
    failed: list[BaseException] = []

    def run(name: str) -> None:
        one = peer(name, config, addresses, keys, folder)
        try:
            found[name] = take_part(one)
        except BaseException as error:
            failed.append(error)
        finally:
            one.close()

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if failed:
        raise failed[0]
    assert found.keys() == set(names)
    return found


CASES = [
    ({"name": "ring"}, "fedavg"),
    ({"name": "ring"}, "fedep"),
    ({"name": "ring", "weights": "metropolis", "link_loss": 0.3}, "scaffold"),
    ({"name": "complete"}, "superfed_mm"),
    ({"name": "exponential", "one_peer": True}, "scaffold"),
    ({"name": "rotating"}, "fedavg"),
    ({"name": "rotating"}, "fedep"),
    ({"name": "clusters", "servers": 2, "period": 2}, "fedavg"),
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
        metrics = json.loads((found[name] / "summary.json").read_text())["metrics"]["local"]
        for metric, value in metrics.items():
            assert value == pytest.approx(judged.clients["local"][metric][i], abs=1e-5), metric
        assert len(check(tmp_path / name / "audit.jsonl")) == 64
