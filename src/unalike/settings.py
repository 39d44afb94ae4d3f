"""The base of everything that is configured: frozen, typed, strict, self-describing."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict

from unalike.errors import unknown


class Settings(BaseModel):
    """Hyper-parameters with their types, ranges and descriptions; never state.

    An unknown key, a wrong type or a value out of range is refused when the object is made.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Setting(NamedTuple):
    """One field of a ``Settings`` class, as ``unalike list NAME`` shows it."""

    name: str
    type: str
    default: str
    description: str


T = TypeVar("T", bound=type)


def look_up(kind: str, name: str, table: Mapping[str, T]) -> T:
    """``table[name]``, or an error that suggests the nearest valid name."""
    if name not in table:
        raise unknown(kind, name, table)
    return table[name]


def summary(cls: type) -> str:
    """The first line of a class's docstring."""
    return (cls.__doc__ or "").strip().splitlines()[0]


def describe(cls: type[Settings]) -> list[Setting]:
    """Every field with its type, default and meaning."""

    def kind(annotation: Any) -> str:
        text = getattr(annotation, "__name__", None) if isinstance(annotation, type) else None
        return text or str(annotation).replace("typing.", "").replace("NoneType", "None")

    return [
        Setting(
            name,
            kind(f.annotation),
            "required" if f.is_required() else repr(f.get_default(call_default_factory=True)),
            f.description or "",
        )
        for name, f in cls.model_fields.items()
    ]
