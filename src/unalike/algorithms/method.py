"""From a method's name and settings to an algorithm: methods fill slots, slots compose.

A draft starts as plain FedAvg. Every named method changes one slot of it, so several can be
combined (FedProx's objective, FedAdam's server, AAggFF's weights); two that want the same slot, or
one that cannot live with another, are refused with a reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from unalike.algorithm import Algorithm
from unalike.algorithms.fedavg import FedAvg, Step
from unalike.channel import Channel
from unalike.errors import ConfigError
from unalike.parts.mixing.base import Mixing
from unalike.parts.mixing.examples import ByExamples
from unalike.parts.objective import Nothing, Term
from unalike.parts.optim import Optimizer, Sgd
from unalike.parts.privacy.accountant import Guarantee
from unalike.parts.private import SHARED, Private
from unalike.parts.schedule import Participation, Phased, Sampled, Schedule
from unalike.parts.topology import Star, Topology
from unalike.recipe import Decay, Filter, Recipe, Transform
from unalike.settings import Settings
from unalike.tasks import Task

Slot = Literal[
    "objective",
    "server",
    "weights",
    "work",
    "private",
    "data",
    "schedule",
    "algorithm",
    "defence",
    "privacy",
    "",
]


@dataclass(frozen=True)
class Draft:
    """A recipe under construction; every default is FedAvg's."""

    task: Task
    n_clients: int
    classes: int
    shape: tuple[int, ...]
    rounds: int
    opt: Optimizer = Sgd(0.1)
    epochs: float = 1.0
    participation: Participation = Participation()
    topology: Topology = Star()
    term: Term = Nothing()
    server_opt: Optimizer = Sgd(1.0)
    private: Private = SHARED
    step: Step = "joint"
    mixing: Mixing = ByExamples()
    work: Callable[[Mixing], Mixing] | None = None  # weights of updates from those of an average
    transform: Transform | None = None
    channel: Channel = ()
    batch_size: int = 32
    decay: Decay = Decay()
    filters: tuple[Filter, ...] = ()
    guarantee: Guarantee | None = None
    checks: tuple[Callable[["Draft", Recipe], None], ...] = ()  # of the whole, once it is made
    phases: int = 0
    make: Callable[["Draft"], Algorithm] | None = None
    pooled: bool = False

    def fedavg(self) -> FedAvg:
        """The composed default."""
        return FedAvg(self.task, self.opt, self.term, self.server_opt, self.private, self.step)

    def recipe(self) -> Recipe:
        """The finished recipe."""
        algorithm = self.fedavg() if self.make is None else self.make(self)
        schedule: Schedule = Sampled(self.participation, self.epochs)
        if self.phases:
            schedule = Phased(self.phases, self.participation, self.epochs)
        made = Recipe(
            algorithm,
            self.mixing if self.work is None else self.work(self.mixing),
            schedule,
            self.topology,
            self.transform,
            self.channel,
            self.filters,
            self.guarantee,
            self.batch_size,
            self.decay,
        )
        for check in self.checks:
            check(self, made)
        return made


# Topologies that ask the same of a method as another: there, too, every client is its own server.
LIKE = {"complete": "ring", "random": "ring"}


class Method(Settings):
    """A named method: its settings and the one slot of the draft it fills."""

    slot: ClassVar[Slot] = ""
    accepts: ClassVar[frozenset[str]] = frozenset(get_args(Slot))
    refuses: ClassVar[Mapping[str, str]] = {}  # a method's name or a slot -> why not
    topologies: ClassVar[frozenset[str]] = frozenset({"star", "rotating", "clusters", "ring"})
    paper: ClassVar[str] = ""

    def change(self, draft: Draft) -> Draft:
        """The draft with this method's slot filled."""
        return draft


def compose(draft: Draft, methods: Sequence[tuple[str, Method]], topology: str) -> Draft:
    """Apply the named methods in turn, or say why they do not go together."""
    for i, (name, method) in enumerate(methods):
        if LIKE.get(topology, topology) not in method.topologies:
            also = {other for other, like in LIKE.items() if like in method.topologies}
            raise ConfigError(
                f"method '{name}' cannot run on topology '{topology}'; "
                f"it works on {', '.join(sorted(method.topologies | also))}."
            )
        for other, earlier in methods[:i]:
            if method.slot and method.slot == earlier.slot:
                raise ConfigError(
                    f"methods '{other}' and '{name}' both set the {method.slot}; keep one of them."
                )
        for other, beside in methods:
            why = method.refuses.get(other) or method.refuses.get(beside.slot)
            if beside is not method and why:
                raise ConfigError(
                    f"method '{name}' cannot be combined with '{other}': {why}; drop one of them."
                )
            if beside is not method and beside.slot and beside.slot not in method.accepts:
                raise ConfigError(
                    f"method '{name}' cannot be combined with '{other}', which sets the "
                    f"{beside.slot}; drop one of them."
                )
        draft = method.change(draft)
    return draft


def plain_sgd(draft: Draft, method: str) -> Sgd:
    """The draft's local optimizer, which this method's mathematics needs to be momentum-free."""
    opt = draft.opt
    if not isinstance(opt, Sgd) or opt.momentum:
        raise ConfigError(
            f"method '{method}' is derived for plain SGD: set local.optimizer = 'sgd' and "
            "local.momentum = 0."
        )
    return opt
