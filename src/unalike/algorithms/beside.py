"""FedAvg's server for clients that keep a second model besides the one they send.

The second model is a whole one and starts like the shared one; each method decides how to train it,
and whether clients are tested with it.
"""

from typing import Any

from unalike.algorithm import Wrapper
from unalike.algorithms.fedavg import Down, FedAvg
from unalike.rng import Key
from unalike.tree import Params


class Beside(Wrapper):
    """The shared model is FedAvg's."""

    base: FedAvg

    def client_init(self, w: Params, key: Key) -> Any:
        """The initial model."""
        return self.base.first(w, self.task.weights(w))

    def handed(self, w: Params) -> Any:
        """All of it."""
        return w

    def received(self, down: Down, mine: Any) -> Params:
        """The shared model."""
        return down.x
