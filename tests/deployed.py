"""Sites of this process, which hear and say nothing but bytes."""

import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors.torch import load_file
from torch import Tensor

from unalike import rng
from unalike.deploy.agreement import Agreement, agree, read_hello, welcome
from unalike.deploy.frames import LIMIT, decode, encode
from unalike.deploy.joining import hello, join
from unalike.deploy.keys import credentials
from unalike.deploy.messages import Message, message
from unalike.deploy.peer import Peer
from unalike.deploy.policy import Policy
from unalike.deploy.remote import Remote
from unalike.deploy.site import Site
from unalike.engine.course import Course
from unalike.engine.evaluation.server import Evaluator
from unalike.engine.transport import Replies, Through, Transport
from unalike.federation.build import federate
from unalike.federation.data import Examples, Federation
from unalike.federation.datasets.digits import Digits
from unalike.federation.partition.natural import Natural
from unalike.federation.readers.arrays import from_arrays
from unalike.parts.schedule import Plan
from unalike.run.configuration.config import Config, parse, read_config
from unalike.run.experiment.build import assemble, guard_of, program, task
from unalike.tree import Tree

NAMES = ("east", "middle", "north", "south", "west")
RUN = "a-run"


def rows() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The data of five sites, of unequal sizes and labels."""
    digits = Digits().load()
    x, y = digits.x.numpy()[:300], digits.y.numpy()[:300]
    order = np.argsort(y + 3 * np.random.default_rng(0).random(len(y)), kind="stable")
    parts = np.split(order, [40, 70, 110, 170])
    return {name: (x[part], y[part]) for name, part in zip(NAMES, parts, strict=True)}


def simulated(seed: int) -> Federation:
    """The same rows as one federation."""
    held = rows()
    x, y = (np.concatenate([held[n][k] for n in NAMES]) for k in (0, 1))
    groups = np.repeat(NAMES, [len(held[n][1]) for n in NAMES])
    return federate((x, y, groups), Natural(), seed=seed)


def examples(name: str) -> Examples:
    return from_arrays(*rows()[name])


def greeting(name: str) -> bytes:
    """A site's hello as it travels."""
    return encode(message("hello", "", 0, name, note=hello(examples(name))))


SITES = ("coast", "hills", "town")  # of messy tables


def table(site: str, seed: int) -> pl.DataFrame:
    """Ages with gaps, a constant, a ward that only some sites have, and an outcome."""
    rng = np.random.default_rng(seed)
    n = 40 + 20 * seed
    age = rng.normal(50 + 10 * seed, 12, n).round(1)
    wards = np.array(["a", "b", "c", "d"])[: 2 + seed]
    ward = rng.choice(wards, n)
    return pl.DataFrame(
        {
            "site": [site] * n,
            "age": [None if rng.random() < 0.1 else float(v) for v in age],
            "smoker": rng.integers(0, 2, n),
            "ward": [None if rng.random() < 0.05 else str(w) for w in ward],
            "ill": (age + 5 * (ward == "b") + rng.normal(0, 5, n) > 60).astype(int),
        }
    )


class Direct:
    """An exchange without a network: every message is encoded and decoded."""

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self.sites = dict(sites)
        self.sessions = dict.fromkeys(sites, 1)
        self.limit = LIMIT

    def ask(
        self, questions: Mapping[str, Message], seconds: float
    ) -> Iterator[tuple[str, Message | str]]:
        for name, question in questions.items():
            if name not in self.sites:
                yield name, "it is not here"
                continue
            told = decode(encode(question))
            yield name, decode(encode(self.sites[name].answer(told)))

    def session(self, site: str) -> int:
        return self.sessions[site]


class Deployed:
    """A coordinator and its sites."""

    def __init__(self, raw: dict[str, Any], folder: Path) -> None:
        self.config: Config = parse(raw)
        said = {n: read_hello(message("hello", "", 0, n, note=hello(examples(n)))) for n in NAMES}
        self.agreed: Agreement = agree(said, self.config.seed)
        self.folder = folder
        self.exchange = Direct({n: self.site(n) for n in NAMES})
        made = task(self.config, self.agreed.shape.blank())
        stages, _ = program(self.config, made, self.agreed.shape)
        w = made.init(rng.fold_in(rng.stream(self.config.seed, "init"), -2))
        sites = self.exchange.sites
        sizes = torch.tensor([len(sites[n].federation.rows(0).order) for n in self.agreed.names])
        self.heard: list[tuple[str, str]] = []
        self.remote = Remote(
            self.exchange,
            RUN,
            self.agreed.names,
            sizes,
            self.config.seed,
            heard=lambda *said: self.heard.append(said),
            sealed=self.config.deploy.secure_aggregation,
        )
        self.course = Course(
            stages, self.remote, self.config.seed, guard_of(self.config, stages), w
        )
        self.judge = Evaluator(self.course, None, self.config.seed)

    def site(self, name: str, policy: Policy | None = None) -> Site:
        """The site as it is after it joined, with what its folder keeps."""
        greeting = decode(encode(welcome(self.agreed, name, self.config, RUN)))
        return Site(name, join(examples(name), greeting), self.folder / name, policy or Policy())


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


def model_of(recipe: Path, names: tuple[str, ...]) -> dict[str, Tensor]:
    """The simulated run's model."""
    config = read_config(str(recipe), [])
    data = together(names, config.seed)
    near = assemble(config, data, task(config, data.examples))
    progress = near.course.begin()
    for t in range(near.course.rounds):
        progress, _, _ = near.course.advance(progress, t)
    found = near.course.model(progress)
    assert found is not None
    return found


def same_model(folder: Path, recipe: Path, names: tuple[str, ...] = NAMES) -> None:
    """A deployed run ended with the simulated run's model."""
    found = load_file(folder / "model.safetensors")
    for name, x in model_of(recipe, names).items():
        assert torch.allclose(x, found[name], atol=1e-5), name


class Without(Through):
    """Clients that do not answer in some rounds."""

    def __init__(self, inner: Transport, gone: dict[int, range]) -> None:
        super().__init__(inner)
        self.gone = gone

    def train(self, t: int, plan: Plan, downs: Tree, home: Tensor) -> Iterator[Replies]:
        there = torch.tensor([t not in self.gone.get(i, ()) for i in plan.ids.tolist()])
        return self.inner.train(t, Plan(*(f[there] for f in plan)), downs, home)


def peer(
    name: str,
    config: dict[str, Any],
    addresses: dict[str, str],
    keys: Path,
    folder: Path,
    say: Callable[[str], None] = lambda text: None,
    seconds: float = 20.0,
    **more: Any,
) -> Peer:
    policy, shown = more.get("policy", Policy()), credentials(keys, more.get("shows", name))
    given = (parse(config), examples(name), addresses, folder / name, policy, shown, say)
    return Peer(name, *given, seconds=seconds, arrive=30.0)


class Stopped(BaseException):
    """In place of kill -9, inside a thread."""
