"""The border between a server and its clients: nothing else of one side is seen by the other."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from unalike.parts.mixing.questions import Question
from unalike.parts.participation.schedule import Plan
from unalike.recipe import Recipe
from unalike.tasks import Judged
from unalike.tree import Params, Tree


class Clients(NamedTuple):
    """All that a server may know about its clients before asking them."""

    n: int
    sizes: Tensor  # [n] training examples, which every answer contains anyway


class Opening(NamedTuple):
    """What a stage begins with, on both sides of the border."""

    recipe: Recipe
    w: Params  # the weights that clients and server start from
    stage: int = 0  # its number, for those who build the recipe elsewhere
    inherited: Params | None = None  # the model of the stage before, which parts may inherit from
    onward: bool = False  # each client starts with the model that it was judged by in the stage
    # before, of which ``w`` has what was shared


class Work(NamedTuple):
    """What clients did, which is not part of any message: it is counted, not sent."""

    samples: float = 0.0  # examples drawn into minibatches
    gradients: float = 0.0  # examples differentiated, as often as each was
    looked: float = 0.0  # examples passed forward to measure the received model
    slots: float = 0.0  # places in minibatches, padding included

    def __add__(self, other: "Work") -> "Work":  # type: ignore[override]
        """Both together."""
        return Work(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def record(self) -> dict[str, float]:
        """For the round's record."""
        padding = 1 - self.samples / self.slots if self.slots else 0.0
        return {
            "samples": self.samples,
            "gradients": self.gradients,
            "looked": self.looked,
            "padding": padding,
        }


class Replies(NamedTuple):
    """Answers of some clients of a round, as they come in."""

    ids: Tensor
    wire: Tree  # stacked; as it travelled
    stats: dict[str, Tensor]
    work: Work = Work()
    lengths: Tensor | None = None  # of each upload, if whoever computed it has measured it
    totals: Sequence[Tree] = ()  # instead of what travelled: sums over groups of them, each times
    # what it counts


class Ahead(NamedTuple):
    """That a round's uploads are only to be summed, known before there are any."""

    u: Tensor  # [n] what each planned client counts, in double precision
    longest: float  # the length up to which an upload may be summed before others are known
    pieces: Sequence[slice] = ()  # of the clients, whose sums are made one by one

    def of(self, some: Tensor, pieces: Sequence[slice]) -> "Ahead":
        """The same of some planned clients, by their positions."""
        return Ahead(self.u[some], self.longest, pieces)


@runtime_checkable
class Summing(Protocol):
    """A transport that can sum uploads while it computes them."""

    def summed(
        self, t: int, plan: Plan, downs: Tree, home: Tensor, ahead: Ahead | None
    ) -> Iterator[Replies]:
        """As ``train``, but what clients sent may come as sums where it is short enough."""
        ...


class Sums(Protocol):
    """Makes sums of uploads that the server does not see."""

    fewest: int  # clients of a sum
    bytes: int  # of one client's part

    def total(self, ids: Tensor, p: Tensor) -> Tree:
        """The weighted sum over some clients; ``Gone`` names those that had no part in it."""
        ...


class Transport(Protocol):
    """The only thing that differs between simulation and deployment."""

    @property
    def clients(self) -> Clients:
        """Who there is."""
        ...

    @property
    def sums(self) -> Sums | None:
        """What makes sums of uploads, if single ones are not to be seen."""
        ...

    def begin(self, opening: Opening) -> None:
        """A stage begins: clients forget what they kept, unless they go onward."""
        ...

    def survey(self, questions: tuple[Question, ...]) -> dict[str, Tensor]:
        """Every client's answers, stacked."""
        ...

    def train(self, t: int, plan: Plan, downs: Tree, home: Tensor) -> Iterator[Replies]:
        """Send each planned client the download of its ``home``; answers come in parts.

        ``downs`` is stacked over the servers. Clients that were planned and are in no part did not
        answer, or were not asked to.
        """
        ...

    def refuse(self, ids: Sequence[int]) -> None:
        """These clients' answers of this round were not used: they keep what they had before."""
        ...

    def evaluate(self, downs: Tree, models: Sequence[Params | None]) -> dict[str, Judged]:
        """Every section that is tested on clients' rows, by the clients themselves.

        Each client judges its personal model on its own rows, and ``models``, one of each server,
        where it is not known to them; neither rows nor personal models cross the border.
        """
        ...

    def ensemble(self, downs: Tree, x: Tensor, noise: Tensor, how: str) -> Tensor:
        """The clients' own models together on rows of the server's."""
        ...

    def mean_weights(self, downs: Tree) -> Params:
        """The plain mean of the clients' own models."""
        ...

    def in_flight(self) -> dict[int, Params]:
        """Server -> the mean, by examples, of the models its clients keep after this round."""
        ...


class Through:
    """A transport around another: passes everything on that it does not change."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner

    @property
    def clients(self) -> Clients:
        """As the inner transport."""
        return self.inner.clients

    @property
    def sums(self) -> Sums | None:
        """As the inner transport."""
        return self.inner.sums

    def begin(self, opening: Opening) -> None:
        """As the inner transport."""
        self.inner.begin(opening)

    def survey(self, questions: tuple[Question, ...]) -> dict[str, Tensor]:
        """As the inner transport."""
        return self.inner.survey(questions)

    def train(self, t: int, plan: Plan, downs: Tree, home: Tensor) -> Iterator[Replies]:
        """As the inner transport."""
        return self.inner.train(t, plan, downs, home)

    def refuse(self, ids: Sequence[int]) -> None:
        """As the inner transport."""
        self.inner.refuse(ids)

    def evaluate(self, downs: Tree, models: Sequence[Params | None]) -> dict[str, Judged]:
        """As the inner transport."""
        return self.inner.evaluate(downs, models)

    def ensemble(self, downs: Tree, x: Tensor, noise: Tensor, how: str) -> Tensor:
        """As the inner transport."""
        return self.inner.ensemble(downs, x, noise, how)

    def mean_weights(self, downs: Tree) -> Params:
        """As the inner transport."""
        return self.inner.mean_weights(downs)

    def in_flight(self) -> dict[int, Params]:
        """As the inner transport."""
        return self.inner.in_flight()
