"""What sites say about their data, put together: each site's number, and the classes of all."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unalike.deploy.setup.joining import columned, kind_of
from unalike.deploy.wire.messages import Message, MessageError, digest, message
from unalike.deploy.wire.release import release
from unalike.errors import RunError
from unalike.federation.build import PARTITION, stream
from unalike.federation.columns import Column, Pending, Reading, Scale
from unalike.federation.partition.base import numbered
from unalike.kinds import Kind
from unalike.run.configuration.config import Config
from unalike.run.experiment.shape import Shape

MOST = 1 << 40  # rows of a site, classes, entries of a shape: more are a mistake


class Read(BaseModel):
    """How a site's rows were read."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    form: Literal["arrays", "table", "images"]
    label: str = Field(max_length=1 << 10)
    layout: str = Field(max_length=16)
    size: int = Field(ge=0, le=MOST)
    gaps: bool
    whole: bool


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
    columns: list[list[str]] = Field(max_length=1 << 16)  # name, role, levels
    drop_first: bool
    scale: str = Field(pattern="^(none|pooled|client)$")
    reading: Read
    given: list[int] = Field(min_length=3, max_length=3)  # rows that train, validate, test
    units: bool  # whether rows are split in units, such as all of one patient


class Agreement(NamedTuple):
    """What all sites have in common, and each one's place in it."""

    names: tuple[str, ...]  # by number
    shape: Shape
    class_names: tuple[str, ...]
    first: dict[str, int]  # where a site's rows are among those of all, in the order of names
    rows: int
    rows_of: dict[str, int]
    reading: Reading  # of new rows, by the shared model
    pending: Pending  # what is still to be learned about features, from all sites together
    given: dict[str, tuple[int, int, int]]  # rows of each site whose part its file says
    units: bool  # whether any site deals its rows in units

    @property
    def brought(self) -> tuple[bool, bool]:
        """Whether files bring validation rows, and test rows."""
        _, validation, test = zip(*self.given.values(), strict=True)
        return any(validation), any(test)


def read_hello(m: Message) -> Hello:
    """A site's hello, if it is one."""
    try:
        told = Hello.model_validate(m.note)
    except ValidationError:
        raise MessageError("a site's hello does not follow the schema.") from None
    if told.version != release():
        raise MessageError(
            f"the site has version {told.version} of unalike and the coordinator {release()}; "
            "install the same."
        )
    return told


_COMMON = ("targets", "dtype", "kind", "drop_first", "scale")


def agree(hellos: Mapping[str, Hello], seed: int) -> Agreement:
    """The common shape; RunError names two sites that differ."""
    names = sorted(hellos)
    class_names = tuple(sorted({c for h in hellos.values() for c in h.class_names}))
    # A site that lacks a class alone would have another kind: the classes of all sites count.
    alike = {
        n: h.model_copy(update={"kind": kind_of(h.kind, class_names)}) for n, h in hellos.items()
    }
    first = alike[names[0]]
    for name in names[1:]:
        for what in _COMMON if first.columns else (*_COMMON, "features"):
            a, b = getattr(first, what), getattr(alike[name], what)
            if a != b:
                raise RunError(
                    f"sites '{names[0]}' and '{name}' have different data: {what} {a} and {b}; "
                    "prepare their files in the same way."
                )
    columns = _columns(hellos)
    classes = len(class_names) or max(h.classes for h in hellos.values())
    if classes == 1:
        raise RunError(
            f"all labels of all sites are '{(*class_names, '0')[0]}'; classification needs at "
            "least two classes."
        )
    starts = accumulate((hellos[n].rows for n in names), initial=0)
    # The numbers that a simulation gives natural clients of these names.
    order = numbered(np.arange(len(names)), len(names), stream(seed, PARTITION), names).names
    width = sum(c.width for c in columns)
    features, targets = (width,) if columns else tuple(first.features), tuple(first.targets)
    shape = Shape(len(names), classes, first.kind, features, targets, first.dtype)
    return Agreement(
        order,
        shape,
        class_names,
        dict(zip(names, starts, strict=False)),
        sum(h.rows for h in hellos.values()),
        {name: hellos[name].rows for name in names},
        _read(hellos),
        Pending(columns, first.drop_first, cast(Scale, first.scale)),
        {name: cast(tuple[int, int, int], tuple(hellos[name].given)) for name in names},
        any(h.units for h in hellos.values()),
    )


def _read(hellos: Mapping[str, Hello]) -> Reading:
    """As the first site reads; gaps are filled and labels are text where any site's are."""
    each = [h.reading for _, h in sorted(hellos.items())]
    gaps, whole = any(r.gaps for r in each), all(r.whole for r in each)
    return Reading(**{**each[0].model_dump(), "gaps": gaps, "whole": whole})


def _columns(hellos: Mapping[str, Hello]) -> tuple[Column, ...]:
    """The columns of a table with the levels of all sites; RunError names two that differ."""
    names = sorted(hellos)
    try:
        each = {name: [columned(c) for c in hellos[name].columns] for name in names}
    except ValueError as error:
        raise RunError(f"a site describes its columns wrongly: {error}.") from None
    like = [(c.name, c.role) for c in each[names[0]]]
    for name in names[1:]:
        other = [(c.name, c.role) for c in each[name]]
        if other != like:
            odd = next(iter(sorted(set(like) ^ set(other))), ("their order", ""))
            raise RunError(
                f"sites '{names[0]}' and '{name}' have different columns, such as '{odd[0]}'; "
                "prepare their files in the same way."
            )
    found = []
    for own in zip(*each.values(), strict=True):
        column = own[0]
        if column.role == "levels":  # fixed ones are the same everywhere
            levels = tuple(sorted({level for c in own for level in c.levels}))
            column = column._replace(width=len(levels), levels=levels)
        found.append(column)
    return tuple(found)


def welcome(agreed: Agreement, name: str, config: Config, run: str) -> Message:
    """What a site needs to build the recipe and find its place."""
    told: dict[str, Any] = config.resolved()
    place = {
        "name": name,
        "number": agreed.names.index(name),
        "clients": len(agreed.names),
        "first": agreed.first[name],
        "rows": agreed.rows,
        "classes": agreed.shape.classes,
        "brought": list(agreed.brought),
        "columns": [[c.name, c.role, *c.levels] for c in agreed.pending.columns],
        "class_names": list(agreed.class_names),
        "config": told,
        "digest": digest(told),
    }
    return message("welcome", run, 0, "coordinator", note=place)
