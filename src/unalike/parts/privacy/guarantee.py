"""What a run promises about its clients; what the promise is worth is counted elsewhere."""

from dataclasses import dataclass
from typing import Literal

Adjacency = Literal["replace", "zero_out"]
_CHANGE = {
    "replace": "one client's data were replaced by any others",
    "zero_out": "one client's updates were left out",
}


@dataclass(frozen=True)
class Guarantee:
    """What is promised: to whom, about what, and with which noise."""

    noise: float  # z
    delta: float
    adjacency: Adjacency = "replace"
    local: bool = False  # even the server sees only noisy updates

    @property
    def meaning(self) -> str:
        """The promise in a sentence; epsilon itself grows with the rounds."""
        seen = "a client's updates" if self.local else "the models, but not single updates,"
        return (
            f"(epsilon, {self.delta:g})-differential privacy of clients: bounds how well "
            f"anyone who sees {seen} can tell whether {_CHANGE[self.adjacency]}; numbers of "
            "examples and steps and results of tests are not covered"
        )

    @property
    def multiplier(self) -> float:
        """Noise in units of the most that one client can change."""
        return self.noise / (2 if self.adjacency == "replace" else 1)
