"""Answers that are wrong in every way that has ended or spoiled runs elsewhere: none counts.

Whatever one site answers, it is dropped and said, the round goes on, and the model is the one of a
simulation in which the site was away.
"""

import ast
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from deployed import Deployed, Without, simulated

import unalike
from unalike.deploy.wire.messages import Message
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import assemble
from unalike.run.experiment.task import task

Change = Callable[[dict[str, Any], dict[str, Any]], tuple[dict[str, Any], dict[str, Any]]]


def raw(method: str) -> dict[str, Any]:
    return {
        "rounds": 6,
        "seed": 3,
        "model": {"name": "mlp", "hidden": [8]},
        "method": {"name": method},
        "local": {"epochs": 1, "batch_size": 16, "lr": 0.1},
    }


def tensor(of: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """The first tensor changed."""

    def change(x: dict[str, Any], stats: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        name = next(k for k in x if "bias" in k)
        return {**x, name: of(x[name])}, stats

    return change


def statistic(name: str, value: Any) -> Change:
    return lambda x, stats: (x, {**stats, name: value})


WRONG: dict[str, Change] = {
    "another shape": tensor(lambda x: torch.zeros(3)),
    "a shape that would be broadcast": tensor(lambda x: x[:1].reshape(1, 1)),
    "another type": tensor(lambda x: x.double()),
    "a tensor too few": lambda x, s: (dict(list(x.items())[1:]), s),
    "a tensor too many": lambda x, s: ({**x, "more": torch.zeros(1)}, s),
    "not a number": tensor(lambda x: x * torch.nan),
    "infinite": tensor(lambda x: x + torch.inf),
    "enormous": lambda x, s: ({k: v + 1e30 for k, v in x.items()}, s),
    "a weight below zero": statistic("examples", -5.0),
    "a weight that takes the model over": statistic("examples", 1e18),
    "a number that is text": statistic("steps", "many"),
    "no statistics": lambda x, s: (x, {}),
    "nothing at all": lambda x, s: ({}, {}),
}


def garbled(far: Deployed, name: str, change: Change) -> None:
    """The site's answers to rounds, changed."""
    site = far.exchange.sites[name]
    answer = site.answer

    def wrong(question: Message) -> Message:
        told = answer(question)
        if question.kind != "train":
            return told
        x, stats = change(dict(told.tensors), dict(told.note["stats"]))
        head = told.head.model_copy(update={"note": {**told.note, "stats": stats}})
        return told._replace(head=head, tensors=x)

    site.answer = wrong  # type: ignore[method-assign]


def played(far: Deployed, rounds: int) -> tuple[Any, list[list[int]]]:
    progress, there = far.course.begin(), []
    for t in range(rounds):
        progress, done, _ = far.course.advance(progress, t)
        there.append(done.ids.tolist())
    return progress.state.stack.x, there


def away(method: str, gone: dict[int, Any], rounds: int) -> Any:
    """The simulated model where some are away in some rounds."""
    config = parse(raw(method))
    data = simulated(config.seed)
    near = assemble(config, data, task(config, data.examples))
    near.course.transport = Without(near.course.transport, gone)
    progress = near.course.begin()
    for t in range(rounds):
        progress, _, _ = near.course.advance(progress, t)
    return progress.state.stack.x


QUICK = ("a shape that would be broadcast", "not a number", "a weight that takes the model over")


@pytest.mark.parametrize(
    "wrong", [pytest.param(w, marks=() if w in QUICK else pytest.mark.slow) for w in WRONG]
)
def test_a_wrong_answer_is_dropped_and_said(wrong: str, tmp_path: Path) -> None:
    far = Deployed(raw("fedavg"), tmp_path)
    garbled(far, "north", WRONG[wrong])
    found, there = played(far, 1)
    i = far.agreed.names.index("north")
    assert there == [[j for j in range(5) if j != i]]
    if wrong != "enormous":  # which the guard refuses, and the round's record says
        assert [name for name, _ in far.heard] == ["north"]
        assert far.heard[0][1].count("\n") == 0
    wanted = away("fedavg", {i: range(1)}, 1)
    assert all(torch.allclose(x, found[k], atol=1e-6) for k, x in wanted.items())


def test_one_more_statistic_is_left_out(tmp_path: Path) -> None:
    far = Deployed(raw("fedavg"), tmp_path)
    garbled(far, "north", statistic("cheer", 1.0))
    found, there = played(far, 1)
    assert there == [[0, 1, 2, 3, 4]]
    wanted = away("fedavg", {}, 1)
    assert all(torch.allclose(x, found[k], atol=1e-6) for k, x in wanted.items())


@pytest.mark.parametrize("method", [pytest.param("fedavg", marks=pytest.mark.slow), "scaffold"])
@pytest.mark.parametrize("share", [pytest.param(0.1, marks=pytest.mark.slow), 0.3])
def test_rounds_finish_whoever_drops_out(method: str, share: float, tmp_path: Path) -> None:
    """What a site did in a round that it was not counted in is taken back, as in a simulation."""
    rng, far = random.Random(share), Deployed(raw(method), tmp_path)
    lost: list[tuple[int, str]] = []
    for name, site in far.exchange.sites.items():

        def answer(
            question: Message, own: Callable[[Message], Message] = site.answer, name: str = name
        ) -> Message:
            told = own(question)
            if question.kind == "train" and rng.random() < share:
                lost.append((question.note["round"], name))
                return told._replace(tensors={})
            return told

        site.answer = answer  # type: ignore[method-assign]
    found, there = played(far, 6)
    assert sum(map(len, there)) == 30 - len(lost) < 30
    gone = {i: {t for t in range(6) if i not in there[t]} for i in range(5)}
    wanted = away(method, gone, 6)
    assert all(torch.allclose(x, found[k], atol=1e-5) for k, x in wanted.items())


def test_no_secret_is_on_a_command_line() -> None:
    """Any user of a machine reads those of all others."""
    source = (Path(unalike.__file__).parent / "cli" / "commands" / "sites.py").read_text(
        encoding="utf-8"
    )
    found = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.arguments)]
    names = {a.arg for n in found for a in (*n.args, *n.kwonlyargs)}
    assert {"keys", "policy"} <= names
    assert not [n for n in names if any(w in n for w in ("token", "password", "secret"))]


def test_nothing_that_is_sent_can_run() -> None:
    """No pickle in what is deployed, and torch.load nowhere without weights_only."""
    root = Path(unalike.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if path.is_relative_to(root / "deploy"):
                assert not {"pickle", "marshal", "shelve", "dill", "cloudpickle"} & set(names), path
            call = ""
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                call = ast.unparse(node) if node.func.attr in ("load", "loads") else ""
            if call.startswith(("torch.load(", "pickle.loads(", "pickle.load(")):
                assert "weights_only=True" in call, (path, call)
