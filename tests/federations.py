"""Small federations, tasks whose training can be done by hand, and one way to run a recipe."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from unalike import rng, tree
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import compose
from unalike.algorithms.table import METHODS
from unalike.batches import Batch
from unalike.cohort import Cohort
from unalike.engine.course import Course
from unalike.engine.faults import Faults, FaultyTransport
from unalike.engine.loop import Loop, Round, State
from unalike.engine.server.guard import Guard
from unalike.engine.simulation.simulate import Engine, Simulation
from unalike.engine.transport import Transport
from unalike.federation.data import Examples, Rows
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.mixing.questions import Own, Question
from unalike.parts.optim import Sgd
from unalike.parts.schedule import Participation, Plan
from unalike.parts.topology import Clusters, Ring, Star, Topology
from unalike.recipe import Kept, Program, Recipe
from unalike.tasks import MultiClass, Task
from unalike.tree import Params, Tree

SIZES = (5, 9, 16, 20, 30, 40)  # ragged on purpose
CLASSES = 3
GUARD = Guard()
STILL = ("still", "normed")
TOPOLOGIES = {"star": Star(), "ring": Ring(), "clusters": Clusters(2, 2)}


class Data(NamedTuple):
    """Examples and who owns which of them."""

    examples: Examples
    rows: Rows

    @property
    def n_clients(self) -> int:
        """How many clients there are."""
        return len(self.rows.start) - 1


def rows_of(sizes: Sequence[int]) -> Rows:
    """Consecutive rows, so many for each client."""
    return Rows(torch.arange(sum(sizes)), np.concatenate([[0], np.cumsum(sizes)]))


def federation(
    shape: tuple[int, ...] = (1, 4, 4),
    sizes: Sequence[int] = SIZES,
    *,
    dtype: torch.dtype = torch.float32,
    tokens: int = 0,
) -> Data:
    """Random features (or symbols) with skewed labels."""
    n, draw = sum(sizes), np.random.default_rng(1)
    x = torch.from_numpy(draw.random((n, *shape))).to(dtype)
    if tokens:
        x = torch.from_numpy(draw.integers(0, tokens, (n, *shape)))
    owner = np.repeat(np.arange(len(sizes)), sizes)
    skewed = np.where(draw.random(n) < 0.6, owner % CLASSES, draw.integers(0, CLASSES, n))
    return Data(Examples(x, torch.from_numpy(skewed), CLASSES), rows_of(sizes))


def conv() -> nn.Module:
    """Everything that is hard to make pure: batch statistics and dropout."""
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Dropout2d(0.2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(48, CLASSES),
    )
    net.head = ("6.",)  # type: ignore[assignment]
    return net


def dense() -> nn.Module:
    """A perceptron."""
    return MODELS["mlp"](hidden=[7, 6]).build((1, 4, 4), CLASSES)


def normed() -> nn.Module:
    """The perceptron with normalised hidden layers."""
    return MODELS["mlp"](hidden=[7, 6], batch_norm=True).build((1, 4, 4), CLASSES)


def lstm() -> nn.Module:
    """The stacked LSTM, small."""
    model = MODELS["stacked_lstm"](vocabulary=6, embedding=3, hidden=4, bias=True)
    return model.build((2,), CLASSES)


def network_task(
    name: str, dtype: torch.dtype = torch.float32, *, tracked: bool = True
) -> tuple[Task, Data]:
    """One of the networks as a task, with data it can take.

    Without ``tracked``, or as ``still`` or ``normed``, BatchNorm keeps no running statistics.
    """
    makers = {"conv": conv, "still": conv, "dense": dense, "normed": normed, "lstm": lstm}
    module = makers[name]().to(dtype)
    data = federation((2,), tokens=6) if name == "lstm" else federation(dtype=dtype)
    return MultiClass(Network(module, track_statistics=tracked and name not in STILL)), data


Named = str | tuple[str, dict[str, Any]]


def drafted(
    task: Task,
    data: Data,
    *methods: Named,
    topology: str | Topology = "star",
    rounds: int = 4,
    **parts: Any,
) -> Draft:
    """The draft of some methods by name, with settings where given."""
    graph = TOPOLOGIES[topology] if isinstance(topology, str) else topology
    named = [(m, {}) if isinstance(m, str) else m for m in methods]
    draft = Draft(
        task,
        data.n_clients,
        data.examples.classes,
        tuple(data.examples.x.shape[1:]),
        rounds,
        topology=graph,
    )
    draft = replace(draft, **{"opt": Sgd(0.05), **parts})
    made = [(name, METHODS[name](**settings)) for name, settings in named]
    return compose(draft, made, type(graph).__name__.lower())


def composed(task: Task, data: Data, *methods: Named, **parts: Any) -> Recipe:
    """The recipe of some methods by name, with settings where given."""
    return drafted(task, data, *methods, **parts).recipe()


def asked(
    question: Question, labels: np.ndarray, classes: int, key: Tensor | None = None
) -> np.ndarray:
    """A client's answer about its labels."""

    def features() -> Tensor:
        raise AssertionError("a question about labels looked at features")

    own = Own(np.asarray(labels), classes, features)
    return question.answer(own, rng.key(0) if key is None else key)


def sampled(fraction: float, epochs: float = 1.0) -> dict[str, Any]:
    """The parts of a draft that say who works how much."""
    return {"participation": Participation(fraction), "epochs": epochs}


def state_of(simulation: Simulation, i: int) -> Tree:
    """What the method made a client keep."""
    kept = simulation.states.get(torch.tensor([i]))
    return tree.row(kept, 0).mine if tree.leaves(kept) else kept.mine


def kept_by(simulation: Simulation) -> dict[int, Tree]:
    """What every client keeps that took part."""
    return {i: state_of(simulation, i) for i in simulation.states.touched}


def keep(simulation: Simulation, states: dict[int, Tree]) -> None:
    """Let clients keep something."""
    for i, mine in states.items():
        one = tree.map(lambda x: torch.as_tensor(x)[None], Kept(mine, ()))
        simulation.states.put(torch.tensor([i]), one)


class Played(NamedTuple):
    """A run that was watched."""

    states: list[State]  # before every round, and after the last
    rounds: list[Round]
    loop: Loop
    simulation: Simulation
    kept: list[dict[int, Tree]]  # after every round

    @property
    def server(self) -> Any:
        """The first server's last state."""
        return self.states[-1].servers[0]

    @property
    def x(self) -> Params:
        """The first server's last model."""
        return self.server.x  # type: ignore[no-any-return]

    def trace(self, name: str = "w") -> list[float]:
        """A scalar of the first server after every round."""
        return [float(s.servers[0].x[name]) for s in self.states[1:]]


def play(
    recipe: Recipe,
    data: Data,
    rounds: int = 4,
    w: Params | None = None,
    *,
    batch_size: int = 8,
    seed: int = 0,
    engine: Engine = "vectorized",
    guard: Guard = GUARD,
    faults: Faults | None = None,
    **options: Any,
) -> Played:
    """Run a recipe for some rounds."""
    w = recipe.algorithm.task.init(rng.key(7)) if w is None else w
    recipe = replace(recipe, batch_size=batch_size)
    simulation = Simulation(
        recipe, data.examples, data.rows, w, data.n_clients, seed=seed, engine=engine, **options
    )
    transport = simulation if faults is None else FaultyTransport(simulation, faults, seed)
    loop = Loop(recipe, transport, range(rounds), seed, guard)
    states, reports, kept = [loop.begin(w)], [], []
    for t in range(rounds):
        state, report = loop.advance(states[-1], t)
        states.append(state)
        reports.append(report)
        kept.append(kept_by(simulation))
    return Played(states, reports, loop, simulation, kept)


def walk(
    program: Program,
    data: Data,
    rounds: int | None = None,
    w: Params | None = None,
    *,
    batch_size: int = 8,
    seed: int = 0,
    engine: Engine = "vectorized",
    around: Callable[[Simulation], Transport] = lambda simulation: simulation,
    **options: Any,
) -> Played:
    """Run the stages of a program, or its first rounds; a round's traffic is all that it cost."""
    stages = tuple(replace(s, recipe=replace(s.recipe, batch_size=batch_size)) for s in program)
    first = stages[0].recipe
    w = first.algorithm.task.init(rng.key(7)) if w is None else w
    simulation = Simulation(
        first, data.examples, data.rows, w, data.n_clients, seed=seed, engine=engine, **options
    )
    course = Course(stages, around(simulation), seed, GUARD, w)
    progress = course.begin()
    states, reports, kept = [progress.state], [], []
    for t in range(course.rounds if rounds is None else rounds):
        progress, report, before = course.advance(progress, t)
        states.append(progress.state)
        reports.append(report._replace(traffic=report.traffic + before))
        kept.append(kept_by(simulation))
    return Played(states, reports, course.loop, simulation, kept)


def distance(a: Tree, b: Tree) -> float:
    """The length of a - b in units of the length of a, leaves seen as one vector."""
    a, b = (
        {k: v.double() for k, v in tree.named(t).items() if v.is_floating_point()} for t in (a, b)
    )
    assert a.keys() == b.keys()
    gap = sum(float((a[k] - b[k]).square().sum()) for k in a)
    size = sum(float(a[k].square().sum()) for k in a)
    return float((gap / size) ** 0.5) if size else gap**0.5


def same(a: Tree, b: Tree) -> bool:
    """Whether two trees are equal bit for bit."""
    a, b = tree.named(a), tree.named(b)
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@dataclass(frozen=True)
class Works:
    """Everybody takes part and does his own number of epochs."""

    epochs: tuple[float, ...]

    def plan(self, t: int, span: range, n: int, key: Tensor) -> Plan:
        """The same in every round."""
        ids = torch.arange(n)
        epochs = torch.tensor(self.epochs, dtype=torch.float64)
        return Plan(ids, torch.zeros_like(ids), torch.ones(n, dtype=torch.bool), epochs)


@dataclass(frozen=True)
class Handmade:
    """A task without buffers whose rows have a loss that can be written down."""

    names: tuple[str, ...] = ("w",)
    curve: Callable[[Tensor], Tensor] | None = None

    classifies: ClassVar[bool] = True
    headline: ClassVar[str] = "loss"
    called: ClassVar[str] = "a task made by hand"
    draws: ClassVar[int] = 0

    def curved(self, curve: Callable[[Tensor], Tensor]) -> Self:
        """The task with its loss through a curve."""
        return replace(self, curve=curve)

    @property
    def network(self) -> Any:
        """The names of the weights, which is all that a method asks of it."""
        return SimpleNamespace(weights=self.names, buffers=(), head=(), seeds_global=False)

    def split(self, w: Params) -> tuple[Params, Params]:
        """Everything is trainable."""
        return w, {}

    def weights(self, w: Params) -> Params:
        """Everything is trainable."""
        return w

    def loss(self, w: Params, batch: Batch) -> tuple[Tensor, Params]:
        """The mean over the real rows."""
        mean = (self.each_loss(w, batch) * batch.real).sum() / batch.real.sum().clamp(min=1)
        return (mean if self.curve is None else self.curve(mean)), {}

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row."""
        raise NotImplementedError


class Quadratic(Handmade):
    """1/2 (w - x)^2: a row is the place of its own minimum."""

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row."""
        return 0.5 * (w["w"] - batch.x) ** 2


class Product(Handmade):
    """1/2 (g f x - y)^2 with x, y in two columns."""

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row."""
        return 0.5 * (w["g"] * w["f"] * batch.x[:, 0] - batch.x[:, 1]) ** 2


class Linear(Handmade):
    """1/2 (<w, x> - y)^2 with y in the last column."""

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row."""
        return 0.5 * (batch.x[:, :-1] @ w["w"] - batch.x[:, -1]) ** 2


def scalars(values: Sequence[float], sizes: Sequence[int] | None = None) -> Data:
    """Clients all of whose rows are one number (or one vector of numbers)."""
    sizes = [1] * len(values) if sizes is None else sizes
    x = torch.tensor(values, dtype=torch.float64).repeat_interleave(torch.tensor(sizes), 0)
    return Data(Examples(x, torch.zeros(len(x), dtype=torch.long), 2), rows_of(sizes))


def at(**values: float) -> Params:
    """Scalar weights."""
    return {k: torch.tensor(v, dtype=torch.float64) for k, v in values.items()}


def cohort(
    examples: Sequence[float],
    ids: Sequence[int] | None = None,
    *,
    n: int | None = None,
    survey: dict[str, Tensor] | None = None,
    t: int = 0,
    **stats: Sequence[float],
) -> Cohort:
    """A cohort as a server sees it."""
    who = torch.arange(len(examples)) if ids is None else torch.tensor(ids)
    numbers = {"examples": examples, "steps": [1.0] * len(examples), **stats}
    return Cohort(
        t,
        who,
        {k: torch.tensor(v, dtype=torch.float64) for k, v in numbers.items()},
        survey or {},
        torch.arange(len(who) if n is None else n),
        rng.key(0),
    )
