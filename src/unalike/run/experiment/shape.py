"""What a recipe must know about the data: shapes, and nothing about anybody's examples."""

from dataclasses import replace
from typing import NamedTuple

import torch

from unalike.federation.data import Examples, Federation
from unalike.kinds import AS_GIVEN, Kind, Unit


class Shape(NamedTuple):
    """The same for every client of a federation, so each can build the recipe by itself."""

    n_clients: int
    classes: int
    kind: Kind
    features: tuple[int, ...]
    targets: tuple[int, ...]  # beyond the first axis: () for a label, (T,) for a sequence
    dtype: str  # of the features
    name: str = "data"
    protected: tuple[str, ...] = ()  # the last of the features, which no network sees
    unit: Unit = AS_GIVEN  # how targets that are numbers were scaled
    target_dtype: str = "int64"

    @classmethod
    def of(cls, federation: Federation) -> "Shape":
        """The shape of a federation."""
        e = federation.examples
        dtype = str(e.x.dtype).removeprefix("torch.")
        features, targets = tuple(e.x.shape[1:]), tuple(e.y.shape[1:])
        own = e.classes, e.kind, features, targets, dtype, e.name, e.protected, e.unit
        return cls(federation.n_clients, *own, str(e.y.dtype).removeprefix("torch."))

    def blank(self) -> Examples:
        """Two examples of this shape, to try a network on."""
        x = torch.zeros(2, *self.features, dtype=getattr(torch, self.dtype))
        y = torch.zeros(2, *self.targets, dtype=getattr(torch, self.target_dtype))
        blank = Examples(x, y, self.classes, self.kind, name=self.name, unit=self.unit)
        return replace(blank, protected=self.protected)
