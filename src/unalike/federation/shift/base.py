"""What every shift shares: a federation in, a changed copy out."""

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from unalike.settings import Settings

if TYPE_CHECKING:  # the table of shifts can be listed without loading torch
    from unalike.federation.data import Federation


class Shift(Settings):
    """A change of what clients hold, after it is settled who holds what."""

    @abstractmethod
    def apply(self, federation: "Federation", rng: np.random.Generator) -> "Federation":
        """The federation with the change made; the one given is left as it was."""
