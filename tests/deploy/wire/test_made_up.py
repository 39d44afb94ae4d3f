"""Messages that are well-formed and wrong, of every kind, in both directions.

Whatever one site answers, a coordinator goes on without it or ends with one sentence, and its model
stays finite; whatever a site is asked, it answers or refuses.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from deployed import NAMES, Deployed, Direct, examples
from torch import Tensor

from unalike.deploy.setup.agreement import agree, read_hello
from unalike.deploy.setup.joining import hello
from unalike.deploy.wire.messages import Message, message
from unalike.errors import UnalikeError

METHODS: tuple[dict[str, Any], ...] = (
    {"name": "fedavg"},
    {"name": "fedep"},
    {"name": "superfed_mm"},
    {"name": "fedevg"},
    {"name": "topk"},
    {"name": "phase_shift", "phases": 5},
    {"name": "fedavg", "sealed": True},
)
ODD = (None, True, -1, 0, 3, 1e30, float("inf"), 1 << 70, "x", "", [], [1], {}, {"a": 1})
MORE = (
    "more",
    "['local']['metrics']['n']",
    "['local']['bins']['more']",
    "['train']['metrics']['x']",
)
FORMS: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: x.float() if x.dtype == torch.float64 else x.double(),
    lambda x: x.reshape(-1)[:0],
    lambda x: x[None],
    lambda x: x.float() * torch.nan,
    lambda x: x.float() * 1e38,
    lambda x: -x.float(),
    lambda x: x != x,
    lambda x: torch.zeros(3, 3),
)


def raw(sealed: bool = False, **method: Any) -> dict[str, Any]:
    return {
        "rounds": 2,
        "seed": 3,
        "model": {"name": "mlp", "hidden": [4]},
        "method": method,
        "local": {"epochs": 1, "batch_size": 64, "lr": 0.1},
        "split": {"validation": 0.2},
        "deploy": {"secure_aggregation": sealed},
    }


def noted(rng: random.Random, note: dict[str, Any]) -> dict[str, Any]:
    """A head's small parts with one of them gone, changed or new."""
    if not note or rng.random() < 0.1:
        return {**note, "more": rng.choice(ODD)}
    name = rng.choice(sorted(note))
    if isinstance(note[name], dict) and rng.random() < 0.7:
        return {**note, name: noted(rng, note[name])}
    if rng.random() < 0.3:
        return {k: v for k, v in note.items() if k != name}
    return {**note, name: rng.choice(ODD)}


def wrong(rng: random.Random, m: Message) -> Message:
    """A message with one thing changed."""
    tensors, note, how = dict(m.tensors), m.note, rng.randrange(5)
    if how == 0:
        tensors[rng.choice(MORE)] = torch.zeros(rng.choice([(), (1,), (2,)]))
    elif how < 3 and tensors:
        name = rng.choice(sorted(tensors))
        if how == 1:
            del tensors[name]
        else:
            tensors[name] = rng.choice(FORMS)(tensors[name])
    else:
        note = noted(rng, note)
    return m._replace(head=m.head.model_copy(update={"note": note}), tensors=tensors)


class Lying(Direct):
    """What one site is asked, or what it answers, is changed, whenever it is of some kind."""

    def __init__(self, sites: Mapping[str, Any], rng: random.Random, kind: str, asks: bool) -> None:
        super().__init__(sites)
        self.rng, self.kind, self.asks, self.happened = rng, kind, asks, 0

    def ask(
        self, questions: Mapping[str, Message], seconds: float
    ) -> Iterator[tuple[str, Message | str]]:
        for name, question in questions.items():
            due = name == "north" and question.kind == self.kind
            self.happened += due
            asked = wrong(self.rng, question) if due and self.asks else question
            ((_, told),) = super().ask({name: asked}, seconds)
            assert isinstance(told, Message)
            yield name, wrong(self.rng, told) if due and not self.asks else told


KINDS = ("survey", "train", "evaluate", "flying", "keys", "mask", "unmask", "begin", "finish")


def lie(seed: int, folder: Path) -> bool:
    """A whole run with one liar; whether there was anything to lie about."""
    rng = random.Random(seed)
    far = Deployed(raw(**METHODS[seed % len(METHODS)]), folder)
    liar = Lying(far.exchange.sites, rng, rng.choice(KINDS), rng.random() < 0.4)
    far.exchange = far.remote.exchange = liar
    said = "."
    try:
        progress = far.course.begin()
        for t in range(far.course.rounds):
            progress, _, _ = far.course.advance(progress, t)
            judged = far.judge(progress.state)
        far.remote.finish(judged.downs, judged.models)
        for x in (far.course.model(progress) or {}).values():
            assert bool(torch.isfinite(x).all()), "a lie is in the model"
    except UnalikeError as error:
        said = str(error)
    assert "\n" not in said
    assert said.endswith(".")
    return liar.happened > 0


def test_whatever_one_site_says_or_is_told(tmp_path: Path) -> None:
    assert sum(lie(seed, tmp_path / str(seed)) for seed in range(7)) > 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_whatever_one_site_says_or_is_told_three_hundred_times(tmp_path: Path) -> None:
    assert sum(lie(seed, tmp_path / str(seed)) for seed in range(300)) > 120


def test_whatever_a_hello_says() -> None:
    rng = random.Random(0)
    fine = {n: hello(examples(n)) for n in NAMES[:3]}
    said = list[str]()
    for _ in range(600):
        told = {**fine, "north": noted(rng, fine["north"])}
        try:
            agreed = agree(
                {n: read_hello(message("hello", "", 0, n, note=h)) for n, h in told.items()}, 3
            )
            agreed.shape.blank()
        except UnalikeError as error:
            said.append(str(error))
    assert len(said) > 300
    assert not any("\n" in text for text in said)
