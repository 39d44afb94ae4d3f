"""A deployed run is the simulated one: every method, through bytes and (slow) over sockets."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deployed import NAMES, Deployed, examples, simulated
from safetensors.torch import load_file

from unalike import tree
from unalike.algorithms.table import METHODS
from unalike.deploy.audit import Audit
from unalike.deploy.desk import Desk
from unalike.deploy.diary import REFUSALS
from unalike.deploy.keys import credentials, issue, make_authority
from unalike.deploy.messages import Message
from unalike.deploy.network import Line, Listener
from unalike.deploy.policy import Policy
from unalike.deploy.serving import serve
from unalike.deploy.working import work
from unalike.engine.traffic.ledger import STATISTIC
from unalike.errors import UnalikeError
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import assemble, task
from unalike.run.folder.records import read_lines

SETTINGS: dict[str, dict[str, Any]] = {"phase_shift": {"phases": 5}, "fedaug": {"target": 0.2}}
NOT_HERE = {"pooled": "its one client would have to hold everybody's rows"}


def raw(method: str) -> dict[str, Any]:
    model: dict[str, Any] = {"name": "mlp", "hidden": [8]}
    if method == "latent_disco":
        model = {"name": "vae", "hidden": [16]}
    return {
        "rounds": 3,
        "seed": 3,
        "data": {"name": "digits"},
        "model": model,
        "method": {"name": method, **SETTINGS.get(method, {})},
        "local": {"epochs": 1, "batch_size": 16, "lr": 0.1},
        "deploy": {"noise": "seed"},  # as the simulation draws it
    }


@pytest.mark.filterwarnings("ignore:fedaug leaves")
@pytest.mark.parametrize("method", sorted(METHODS.keys() - NOT_HERE))
def test_every_method(method: str, tmp_path: Path) -> None:
    config = parse(raw(method))
    data = simulated(config.seed)
    try:
        near = assemble(config, data, task(config, data.examples))
    except UnalikeError as error:
        pytest.skip(f"refused in simulation, too: {error}")
    far = Deployed(raw(method), tmp_path)
    assert far.agreed.names == data.names
    a, b = near.course.begin(), far.course.begin()
    for t in range(near.course.rounds):
        a, one, _ = near.course.advance(a, t)
        b, two, _ = far.course.advance(b, t)
        assert not far.heard
        assert one.ids.tolist() == two.ids.tolist()
        assert torch.allclose(one.weights.double(), two.weights.double(), atol=1e-6)
        assert one.traffic == two.traffic
        for x, y in zip(tree.leaves(a.state.stack), tree.leaves(b.state.stack), strict=True):
            assert torch.allclose(x, y, atol=1e-5), method
    one, two = near.evaluator(a.state), far.judge(b.state)
    lacking = set(one.clients) - set(two.clients)
    assert lacking == (set() if near.course.model(a) is not None else {"global"})
    for section in two.clients:
        for metric in two.clients[section]:
            x, y = (torch.tensor(v.clients[section][metric]) for v in (one, two))
            if "vae" not in str(config.model) or metric == "n":  # what judging draws is a row's own
                assert torch.allclose(x, y, atol=1e-5, equal_nan=True), (section, metric)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    make_authority(folder)
    for name in ("server", *NAMES):
        issue(folder, name, hosts=("localhost",) if name == "server" else ())
    return folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:fedaug leaves")
@pytest.mark.parametrize("method", sorted(METHODS.keys() - NOT_HERE))
def test_every_method_over_sockets(method: str, keys: Path, tmp_path: Path) -> None:
    """A coordinator and five sites with certificates, and the folder that they leave."""
    config = parse(raw(method))
    data = simulated(config.seed)
    try:
        near = assemble(config, data, task(config, data.examples))
    except UnalikeError as error:
        pytest.skip(f"refused in simulation, too: {error}")
    desk = Desk(NAMES, Audit(tmp_path / "run" / "audit.jsonl"))
    listener = Listener(desk, "127.0.0.1:0", credentials(keys, "server"))
    sites = []
    for name in NAMES:
        line = Line(name, f"localhost:{listener.port}", credentials(keys, name))
        given = (name, examples(name), line, tmp_path / name, Policy(), print, 20.0)
        sites.append(threading.Thread(target=work, args=given, daemon=True))
        sites[-1].start()
    try:
        serve(config, NAMES, tmp_path / "run", desk, print, seconds=60, arrive=60)
        for site in sites:
            site.join(20)
    finally:
        listener.close()
    progress = near.course.begin()
    for t in range(near.course.rounds):
        progress, _, _ = near.course.advance(progress, t)
    assert not (tmp_path / "run" / REFUSALS).exists()
    model = near.course.model(progress)
    if model is not None:
        found = load_file(tmp_path / "run" / "model.safetensors")
        for name, x in model.items():
            assert torch.allclose(x, found[name], atol=1e-5), name
    verdicts = read_lines(tmp_path / "run" / "clients.jsonl")[-1]["local"]
    judged = near.evaluator(progress.state).clients["local"]
    for metric in verdicts:
        if "vae" not in str(config.model) or metric == "n":
            ours, theirs = (np.array(v[metric], dtype=float) for v in (verdicts, judged))
            np.testing.assert_allclose(ours, theirs, atol=1e-5, err_msg=metric)


@pytest.mark.parametrize("method", ["stc", "topk"])
def test_the_wire_carries_what_is_counted(method: str, tmp_path: Path) -> None:
    far = Deployed(raw(method), tmp_path)
    sent: list[int] = []
    reply = far.remote._reply

    def weighed(m: Any, asked: Any) -> None:
        sent.append(sum(x.numel() * x.element_size() for x in m.tensors.values()))
        reply(m, asked)

    far.remote._reply = weighed  # type: ignore[method-assign]
    state = far.course.begin()
    _, done, _ = far.course.advance(state, 0)
    assert done.traffic.up == sum(sent) + len(sent) * STATISTIC * len(done.stats)


def test_a_code_that_is_none_is_turned_away(tmp_path: Path) -> None:
    far = Deployed(raw("topk"), tmp_path)
    site = far.exchange.sites["north"]
    answer = site.answer

    def garbled(question: Message) -> Message:
        told = answer(question)
        if question.kind != "train":
            return told
        bad = {k: x | 255 if x.dtype == torch.uint8 else x for k, x in told.tensors.items()}
        return told._replace(tensors=bad)

    site.answer = garbled  # type: ignore[method-assign]
    state = far.course.begin()
    _, done, _ = far.course.advance(state, 0)
    assert far.heard == [("north", "an upload cannot be decoded.")]
    assert len(done.ids) == 4
