"""What the targets of examples are."""

from typing import Literal, NamedTuple

Kind = Literal["multiclass", "binary", "characters", "regression"]
CLASSES = ("multiclass", "binary")  # of whole classes, which differ in how many there are
NOT_COUNTED = -100  # stands for a target of a sequence that is neither learned nor judged


def of_classes(count: int) -> Kind:
    """The kind of targets that are so many classes; two need one logit.

    >>> of_classes(2), of_classes(3)
    ('binary', 'multiclass')
    """
    return "binary" if count == 2 else "multiclass"


def measured(kind: Kind) -> bool:
    """Whether targets are numbers, which are brought to scale before they are learned."""
    return kind == "regression"


class Unit(NamedTuple):
    """How a target that is a number was scaled: what is learned is (value - centre) / spread."""

    centre: float = 0.0
    spread: float = 1.0


AS_GIVEN = Unit()
