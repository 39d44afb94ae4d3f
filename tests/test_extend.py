"""What methods of one's own are made of: enough for an algorithm, a codec, a rule and a wrapper."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from federations import Data, distance, federation, network_task, play
from torch import Tensor

from unalike import extend
from unalike.algorithms.table import METHODS
from unalike.errors import ConfigError
from unalike.extend import (
    Algorithm,
    Draft,
    FedAvg,
    InPlace,
    Method,
    Sgd,
    Slot,
    Trait,
    Wrapper,
    fedavg,
    rng,
    setting,
    tree,
)

from unalike.algorithms.method import compose  # isort: skip

PAGE = Path(__file__).parent.parent / "docs" / "how-to-own-method.md"


def test_names_are_sorted_and_all_there() -> None:
    assert extend.__all__ == sorted(extend.__all__)
    for name in extend.__all__:
        assert hasattr(extend, name)


def test_the_page_uses_nothing_internal() -> None:
    found = re.findall(r"(?:from|import) (unalike[\w.]*)", PAGE.read_text(encoding="utf-8"))
    assert set(found) == {"unalike", "unalike.extend"}


class Signs(Method):
    """Clients send the signs of their updates, times a length."""

    slot: ClassVar[Slot] = "privacy"
    length: float = setting(0.01, "of every number", gt=0)

    def change(self, draft: Draft) -> Draft:
        return replace(draft, channel=(*draft.channel, SignCodec(self.length)))


@dataclass(frozen=True)
class SignCodec(InPlace):
    length: float

    def encode(self, up: Any, memory: Any, key: Any) -> tuple[Any, Any]:
        return tree.map(lambda x: self.length * torch.sign(x), up), memory


@dataclass(frozen=True)
class Half(FedAvg):
    """The server goes half of the way."""

    def server(self, server: Any, ups: Any, p: Tensor, cohort: Any) -> Any:
        return super().server(server, ups, p / 2, cohort)


class HalfWay(Method):
    """FedAvg whose server goes half of the way."""

    slot: ClassVar[Slot] = "algorithm"

    def change(self, draft: Draft) -> Draft:
        return replace(draft, base=lambda d: Half(**vars(fedavg(d))))


@dataclass(frozen=True)
class Noisy(Wrapper):
    """Adds a draw of the client's own to what it keeps of nothing but its upload."""

    base: Algorithm

    def client(self, down: Any, mine: Any, data: Any, ctx: Any, start: Any = None) -> Any:
        up, stats, mine = self.base.client(down, mine, data, ctx, start)
        shift = 1e-3 * rng.uniform(rng.fold_in(ctx.key, 99))
        delta = tree.map(lambda x: x + shift.to(x.dtype), up.delta)
        return up._replace(delta=delta), stats, mine


class Noise(Method):
    """A wrapper around any method that sends a model."""

    refuses = {Trait.SENDS_NO_MODEL: "there is no model to add anything to"}

    def change(self, draft: Draft) -> Draft:
        return replace(draft, wraps=(*draft.wraps, lambda base, d: Noisy(base)))


def made(*methods: tuple[str, Method]) -> tuple[Any, Data]:
    task, _ = network_task("dense", torch.float64)
    data = federation(dtype=torch.float64)
    draft = Draft(task, 6, 3, (1, 4, 4), 3, opt=Sgd(0.05))
    return compose(draft, methods, "star").recipe(), data


@pytest.mark.parametrize("method", [Signs(), HalfWay(), Noise()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("beside", ["", "fedaug", "phase_shift", "feddisco"])
def test_both_engines_agree_and_each_part_acts(method: Method, beside: str) -> None:
    other = [(beside, METHODS[beside]())] if beside else []
    recipe, data = made(("mine", method), *other)
    one, all_ = (play(recipe, data, 3, engine=e).x for e in ("sequential", "vectorized"))
    assert distance(one, all_) < 1e-9
    without, _ = made(*other)
    assert distance(play(without, data, 3).x, all_) > 1e-6


def test_half_of_the_way() -> None:
    """One round from the same start: half of FedAvg's step."""
    (half, data), (whole, _) = made(("mine", HalfWay())), made()
    start = half.algorithm.task.init(rng.key(7))
    moved = tree.sub(play(half, data, 1).x, start)
    assert distance(tree.sub(play(whole, data, 1).x, start), tree.scale(2.0, moved)) < 1e-9


@pytest.mark.parametrize(
    ("method", "beside", "why"),
    [
        (HalfWay(), "fedadam", "no step of FedAvg's server"),
        (Signs(), "scaffold", "mean of the clients' own"),
        (Noise(), "fedevg", "no model to add anything to"),
    ],
)
def test_they_are_refused_like_others(method: Method, beside: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        made(("mine", method), (beside, METHODS[beside]()))
