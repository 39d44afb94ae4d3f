"""The one protocol: a client half and a server half that meet only in what they send.

``self`` holds hyper-parameters and never state. ``client`` is pure and of static shape, so the
simulator can call it for one client or vmap it over a cohort, and a node can call it on its own.
"""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from torch import Tensor

from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.rng import Key
from unalike.tasks import Task
from unalike.tree import Params, Tree
from unalike.uploads import Uploads


class Ctx(NamedTuple):
    """What a client may know about the current round."""

    round: Tensor
    key: Key  # this client's own, in this round
    examples: Tensor  # how many training examples it owns
    role: Tensor  # its role in this round
    reply: Tensor  # whether it uploads; otherwise it trains and keeps the result
    rate: Tensor  # the learning-rate schedule's factor


class Algorithm(Protocol):
    """Server state, download, upload and what a client keeps are pytrees of the method's choice."""

    @property
    def task(self) -> Task:
        """What is learned."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """Statistics its server half reads, beyond examples and steps."""
        ...

    @property
    def personal_models(self) -> bool:
        """Whether clients with the same download are tested with different weights."""
        ...

    def server_init(self, w: Params, key: Key) -> Any:
        """What the server holds before the first round; has a field ``x``, the shared part."""
        ...

    def client_init(self, w: Params, key: Key) -> Any:
        """What a client keeps before its first round."""
        ...

    def handed(self, w: Params) -> Tree:
        """The part of a new initial model that clients keep, and downloads do not bring them."""
        ...

    def broadcast(self, server: Any) -> Any:
        """What a client downloads; one with a model in it has it in a field ``x``."""
        ...

    def client(
        self, down: Any, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Any, dict[str, Tensor], Any]:
        """(upload, statistics of its own, what to keep). No branch may depend on a tensor's value.

        Local training begins at the download, or at ``start``, a model of the same form. A model's
        change is uploaded in a field ``delta``, as the difference from the download either way.
        """
        ...

    def upload_like(self, down: Any) -> Any:
        """A tree of the structure, shapes and types of an upload; its numbers mean nothing."""
        ...

    def server(self, server: Any, ups: Uploads, p: Tensor, cohort: Cohort) -> Any:
        """The server's next state from the uploads and their mixing weights."""
        ...

    @property
    def separable(self) -> bool:
        """Whether ``server`` may be vmapped over servers of one client each.

        It reads no more of the cohort than the round, and no branch depends on a tensor's value.
        """
        ...

    def tells(self, servers: Any) -> Tree:
        """What servers send to their neighbours, stacked: one row per server."""
        ...

    def hears(self, servers: Any, means: Tree) -> Any:
        """The servers after each has heard its neighbours, as weighted means of what they sent.

        To save memory, the models in ``servers.x`` may already be the means.
        """
        ...

    def personal(self, down: Any, mine: Any) -> Params | None:
        """The weights this client is tested with; None if it is tested with ``model``."""
        ...

    def far_end(self, down: Any, mine: Any) -> Params | None:
        """Where a line from the shared model to this client's own ends."""
        ...

    def received(self, down: Any, mine: Any) -> Params | None:
        """The weights whose loss a client reports before it trains."""
        ...

    def model(self, server: Any, key: Key) -> Params | None:
        """The weights for data of no known client; None if only the clients hold whole models."""
        ...

    def leaves(self, server: Any, key: Key) -> Params | None:
        """What the next stage begins with or inherits: usually the model."""
        ...

    def products(self, server: Any) -> dict[str, dict[str, Tensor]]:
        """Results beside the model, by name: arrays that a run writes down at its end."""
        ...

    def flying(self, mine: Any) -> Params | None:
        """A client's model on its way to the server; None if servers are tested as they are."""
        ...

    def landed(self, server: Any, mean: Params) -> Any:
        """The server to be tested, from the mean of what ``flying`` gave for those that trained."""
        ...


class Stateless:
    """A client keeps nothing and uses the download; the server sends all it has."""

    needs: ClassVar[frozenset[str]] = frozenset()

    @property
    def personal_models(self) -> bool:
        """Only if a method tests its clients with another model."""
        return type(self).personal is not Stateless.personal

    def client_init(self, w: Params, key: Key) -> Any:
        """Nothing is kept."""
        return ()

    def handed(self, w: Params) -> Tree:
        """Nothing is kept."""
        return ()

    def broadcast(self, server: Any) -> Any:
        """Everything is sent."""
        return server

    @property
    def separable(self) -> bool:
        """Only if a method says so."""
        return False

    def tells(self, servers: Any) -> Tree:
        """The models."""
        return servers.x

    def hears(self, servers: Any, means: Tree) -> Any:
        """The mean of the models replaces the server's own."""
        return servers._replace(x=means)

    def personal(self, down: Any, mine: Any) -> Params | None:
        """The downloaded weights."""
        return down.x

    def far_end(self, down: Any, mine: Any) -> Params | None:
        """The weights it is tested with."""
        return self.personal(down, mine)

    def received(self, down: Any, mine: Any) -> Params | None:
        """The weights it is tested with."""
        return self.personal(down, mine)

    def model(self, server: Any, key: Key) -> Params | None:
        """The server's weights."""
        return server.x

    def leaves(self, server: Any, key: Key) -> Params | None:
        """The model."""
        return self.model(server, key)

    def products(self, server: Any) -> dict[str, dict[str, Tensor]]:
        """The model is all there is."""
        return {}

    def flying(self, mine: Any) -> Params | None:
        """Nothing is on its way."""
        return None

    def landed(self, server: Any, mean: Params) -> Any:
        """The server with that model."""
        return server._replace(x=mean)


class Wrapper:
    """A method around another: forwards everything it does not change."""

    base: Any

    @property
    def task(self) -> Task:
        """The task of the wrapped method."""
        return self.base.task

    @property
    def needs(self) -> frozenset[str]:
        """As the wrapped method."""
        return self.base.needs

    @property
    def personal_models(self) -> bool:
        """As the wrapped method, unless this one tests its clients with another model."""
        return type(self).personal is not Wrapper.personal or self.base.personal_models

    def server_init(self, w: Params, key: Key) -> Any:
        """As the wrapped method."""
        return self.base.server_init(w, key)

    def client_init(self, w: Params, key: Key) -> Any:
        """As the wrapped method."""
        return self.base.client_init(w, key)

    def handed(self, w: Params) -> Tree:
        """As the wrapped method."""
        return self.base.handed(w)

    def broadcast(self, server: Any) -> Any:
        """As the wrapped method."""
        return self.base.broadcast(server)

    def client(
        self, down: Any, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Any, dict[str, Tensor], Any]:
        """As the wrapped method."""
        return self.base.client(down, mine, data, ctx, start)

    def upload_like(self, down: Any) -> Any:
        """As the wrapped method."""
        return self.base.upload_like(down)

    def server(self, server: Any, ups: Uploads, p: Tensor, cohort: Cohort) -> Any:
        """As the wrapped method."""
        return self.base.server(server, ups, p, cohort)

    @property
    def separable(self) -> bool:
        """As the wrapped method, unless this one has a server half of its own."""
        return type(self).server is Wrapper.server and self.base.separable

    def tells(self, servers: Any) -> Tree:
        """As the wrapped method."""
        return self.base.tells(servers)

    def hears(self, servers: Any, means: Tree) -> Any:
        """As the wrapped method."""
        return self.base.hears(servers, means)

    def personal(self, down: Any, mine: Any) -> Params | None:
        """As the wrapped method."""
        return self.base.personal(down, mine)

    def far_end(self, down: Any, mine: Any) -> Params | None:
        """As the wrapped method, unless this one tests its clients with another model."""
        own = type(self).personal is not Wrapper.personal
        return self.personal(down, mine) if own else self.base.far_end(down, mine)

    def received(self, down: Any, mine: Any) -> Params | None:
        """As the wrapped method."""
        return self.base.received(down, mine)

    def model(self, server: Any, key: Key) -> Params | None:
        """As the wrapped method."""
        return self.base.model(server, key)

    def leaves(self, server: Any, key: Key) -> Params | None:
        """The model."""
        return self.model(server, key)

    def inherit(self, model: Params) -> Self:
        """With what the wrapped method takes from the stage before, if anything."""
        inherit = getattr(self.base, "inherit", None)
        return self if inherit is None else replace(self, base=inherit(model))  # type: ignore[type-var]

    def products(self, server: Any) -> dict[str, dict[str, Tensor]]:
        """As the wrapped method."""
        return self.base.products(server)

    def flying(self, mine: Any) -> Params | None:
        """As the wrapped method."""
        return self.base.flying(mine)

    def landed(self, server: Any, mean: Params) -> Any:
        """As the wrapped method."""
        return self.base.landed(server, mean)


class Nested(Wrapper):
    """A wrapper whose server, downloads and clients hold the wrapped method's in ``base``."""

    @property
    def personal_models(self) -> bool:
        """As the wrapped method."""
        return self.base.personal_models

    def upload_like(self, down: Any) -> Any:
        """As the wrapped method."""
        return self.base.upload_like(down.base)

    def personal(self, down: Any, mine: Any) -> Params | None:
        """As the wrapped method."""
        return self.base.personal(down.base, mine.base)

    def far_end(self, down: Any, mine: Any) -> Params | None:
        """As the wrapped method."""
        return self.base.far_end(down.base, mine.base)

    def received(self, down: Any, mine: Any) -> Params | None:
        """As the wrapped method."""
        return self.base.received(down.base, mine.base)

    def model(self, server: Any, key: Key) -> Params | None:
        """As the wrapped method."""
        return self.base.model(server.base, key)
