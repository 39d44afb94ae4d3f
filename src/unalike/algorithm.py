"""The one protocol: a client half and a server half that meet only in what they send.

``self`` holds hyper-parameters and never state. ``client`` is pure and of static shape, so the
simulator can call it for one client or vmap it over a cohort, and a node can call it on its own.
"""

from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.rng import Key
from unalike.tasks import Task
from unalike.tree import Params
from unalike.uploads import Uploads


class Ctx(NamedTuple):
    """What a client may know about the moment."""

    round: Tensor
    key: Key  # this client's own, in this round
    examples: Tensor  # how many training examples it owns
    role: Tensor  # what the schedule made it this round
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
        """Whether clients with the same download are judged by different weights."""
        ...

    def server_init(self, w: Params, key: Key) -> Any:
        """What the server holds before the first round; has a field ``x``, the shared part."""
        ...

    def client_init(self, w: Params, key: Key) -> Any:
        """What a client keeps before its first round."""
        ...

    def broadcast(self, server: Any) -> Any:
        """What a client downloads."""
        ...

    def client(
        self, down: Any, mine: Any, data: Batches, ctx: Ctx
    ) -> tuple[Any, dict[str, Tensor], Any]:
        """(upload, statistics, what to keep). No branch may depend on a tensor's value."""
        ...

    def server(self, server: Any, ups: Uploads, p: Tensor, cohort: Cohort) -> Any:
        """The server's next state from the uploads and their mixing weights."""
        ...

    def personal(self, down: Any, mine: Any) -> Params | None:
        """The weights this client is judged by; None if it is judged by ``model``."""
        ...

    def model(self, server: Any, key: Key) -> Params | None:
        """The weights for data of no known client; None if only the clients hold whole models."""
        ...


@runtime_checkable
class InFlight(Protocol):
    """An algorithm whose clients hold models that they have not sent yet."""

    @property
    def in_flight(self) -> bool:
        """Whether servers are judged as if these models had been collected."""
        ...

    def flying(self, mine: Any) -> Params:
        """The model that a client holds."""
        ...

    def landed(self, server: Any, mean: Params) -> Any:
        """The server as if it had collected the models, whose mean by examples is given."""
        ...


@runtime_checkable
class Receives(Protocol):
    """An algorithm whose clients are judged by something other than the model they receive."""

    def received(self, down: Any, mine: Any) -> Params:
        """The weights whose loss a client reports before it trains."""
        ...


@runtime_checkable
class Resizes(Protocol):
    """An algorithm whose messages change their size on the way."""

    def stages(self, server: Any) -> dict[int, Any]:
        """The rounds from which on they do, and a server whose messages are of that size."""
        ...


class Stateless:
    """A client keeps nothing and is judged by the download; the server sends all it has."""

    needs: ClassVar[frozenset[str]] = frozenset()

    @property
    def personal_models(self) -> bool:
        """Only if a method says by what else its clients are judged."""
        return type(self).personal is not Stateless.personal

    def client_init(self, w: Params, key: Key) -> Any:
        """Nothing is kept."""
        return ()

    def broadcast(self, server: Any) -> Any:
        """Everything is sent."""
        return server

    def personal(self, down: Any, mine: Any) -> Params | None:
        """The downloaded weights."""
        return down.x

    def model(self, server: Any, key: Key) -> Params | None:
        """The server's weights."""
        return server.x


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
        """As the wrapped method, unless this one says by what else its clients are judged."""
        return type(self).personal is not Wrapper.personal or self.base.personal_models

    def server_init(self, w: Params, key: Key) -> Any:
        """As the wrapped method."""
        return self.base.server_init(w, key)

    def client_init(self, w: Params, key: Key) -> Any:
        """As the wrapped method."""
        return self.base.client_init(w, key)

    def broadcast(self, server: Any) -> Any:
        """As the wrapped method."""
        return self.base.broadcast(server)

    def client(
        self, down: Any, mine: Any, data: Batches, ctx: Ctx
    ) -> tuple[Any, dict[str, Tensor], Any]:
        """As the wrapped method."""
        return self.base.client(down, mine, data, ctx)

    def server(self, server: Any, ups: Uploads, p: Tensor, cohort: Cohort) -> Any:
        """As the wrapped method."""
        return self.base.server(server, ups, p, cohort)

    def personal(self, down: Any, mine: Any) -> Params | None:
        """As the wrapped method."""
        return self.base.personal(down, mine)

    def model(self, server: Any, key: Key) -> Params | None:
        """As the wrapped method."""
        return self.base.model(server, key)
