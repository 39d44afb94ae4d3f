"""What the targets of examples are."""

from typing import Literal, NamedTuple

Kind = Literal["multiclass", "binary", "characters", "regression"]


class Unit(NamedTuple):
    """How a target that is a number was scaled: what is learned is (value - centre) / spread."""

    centre: float = 0.0
    spread: float = 1.0


AS_GIVEN = Unit()
