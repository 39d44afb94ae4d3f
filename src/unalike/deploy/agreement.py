"""What sites say of their data, put together: who has which number, which classes there are."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unalike.deploy.messages import Message, MessageError, digest, message
from unalike.deploy.release import release
from unalike.errors import RunError
from unalike.federation.build import PARTITION, stream
from unalike.federation.partition.base import numbered
from unalike.kinds import Kind
from unalike.run.config import Config
from unalike.run.shape import Shape

MOST = 1 << 40  # rows of a site, classes, entries of a shape: more are a mistake


class Hello(BaseModel):
    """What one site says."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    version: str = Field(max_length=32)
    rows: int = Field(ge=1, le=MOST)
    features: list[int] = Field(max_length=8)
    targets: list[int] = Field(max_length=8)
    dtype: str = Field(pattern="^(float32|float64|int64|uint8|bool)$")
    kind: Kind
    classes: int = Field(ge=0, le=1 << 20)
    class_names: list[str] = Field(max_length=1 << 20)
    scale: str = Field(pattern="^(none|pooled|client)$")


class Agreement(NamedTuple):
    """What all sites have in common, and each one's place in it."""

    names: tuple[str, ...]  # by number
    shape: Shape
    class_names: tuple[str, ...]
    first: dict[str, int]  # where a site's rows are among those of all, in the order of names
    rows: int
    rows_of: dict[str, int]
    scale: str


def read_hello(m: Message) -> Hello:
    """A site's hello, if it is one."""
    try:
        told = Hello.model_validate(m.note)
    except ValidationError:
        raise MessageError("the hello of a site does not follow its schema.") from None
    if told.version != release():
        raise MessageError(
            f"the site has version {told.version} of unalike and the coordinator {release()}; "
            "install the same."
        )
    return told


def agree(hellos: Mapping[str, Hello], seed: int) -> Agreement:
    """The common shape; RunError names two sites that differ."""
    names = sorted(hellos)
    first = hellos[names[0]]
    for name in names[1:]:
        for what in ("features", "targets", "dtype", "kind", "scale"):
            a, b = getattr(first, what), getattr(hellos[name], what)
            if a != b:
                raise RunError(
                    f"sites '{names[0]}' and '{name}' have different data: {what} {a} and {b}; "
                    "prepare their files alike."
                )
    class_names = tuple(sorted({c for h in hellos.values() for c in h.class_names}))
    classes = len(class_names) or max(h.classes for h in hellos.values())
    starts = accumulate((hellos[n].rows for n in names), initial=0)
    # The numbers that a simulation gives natural clients of these names.
    order = numbered(np.arange(len(names)), len(names), stream(seed, PARTITION), names).names
    features, targets = tuple(first.features), tuple(first.targets)
    shape = Shape(len(names), classes, first.kind, features, targets, first.dtype)
    return Agreement(
        order,
        shape,
        class_names,
        dict(zip(names, starts, strict=False)),
        sum(h.rows for h in hellos.values()),
        {name: hellos[name].rows for name in names},
        first.scale,
    )


def welcome(agreed: Agreement, name: str, config: Config, run: str) -> Message:
    """What a site needs to build the recipe and find its place."""
    told: dict[str, Any] = config.resolved()
    place = {
        "name": name,
        "number": agreed.names.index(name),
        "clients": len(agreed.names),
        "first": agreed.first[name],
        "rows": agreed.rows,
        "shape": {"classes": agreed.shape.classes},
        "class_names": list(agreed.class_names),
        "config": told,
        "digest": digest(told),
    }
    return message("welcome", run, 0, "coordinator", note=place)
