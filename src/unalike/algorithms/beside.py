"""FedAvg's server around clients that keep a model beside the one they send.

The model is a whole one, and begins as the shared one does; what a method makes of it, and whether
its clients are judged by it, is its own affair.
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
