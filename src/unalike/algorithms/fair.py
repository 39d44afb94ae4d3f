"""What the rules have in common that weigh clients by their losses."""

from collections.abc import Mapping
from typing import ClassVar

from unalike.algorithms.method import Method, Slot


class Fair(Method):
    """A rule from the clients' losses of the received model to their weights.

    With SCAFFOLD such weights would do nothing in the end: once c_i is the gradient of client i,
    every client moves along c, the plain mean, and a weighted mean of equal moves is that move.
    """

    slot: ClassVar[Slot] = "weights"
    refuses: ClassVar[Mapping[str, str]] = {
        "scaffold": "its control variates move every client along the plain mean of all gradients, "
        "which cancels any weights",
    }
