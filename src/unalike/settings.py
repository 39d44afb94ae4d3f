"""The base of everything that is configured: frozen, typed, strict, self-describing."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo

from unalike.errors import unknown


class Settings(BaseModel):
    """Hyper-parameters with their types, ranges and descriptions; never state.

    An unknown key, a wrong type or a value out of range is refused when the object is made, and so
    are numbers that are not finite.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _no_idle_setting(self) -> Self:
        """Refuse a setting that would do nothing beside the others."""
        for name, field in type(self).model_fields.items():
            for other, value in _more(field).get("only", {}).items():
                values = value if isinstance(value, tuple) else (value,)
                if (
                    getattr(self, name) != field.get_default()
                    and getattr(self, other) not in values
                ):
                    either = " or ".join(map(json.dumps, values))
                    raise ValueError(f"{name} belongs to {other} = {either}; leave it out")
        return self

    def among(self, record: type, *but: str) -> dict[str, Any]:
        """Those of the settings that a dataclass has fields for, all ``but`` some."""
        return self.model_dump(include={f.name for f in fields(record)}, exclude={*but})


def setting(
    default: Any,
    description: str,
    *,
    source: str = "",
    only: Mapping[str, Any] | None = None,
    **bounds: Any,
) -> Any:
    """A field of a ``Settings`` class.

    Args:
        default: Its default.
        description: What it means, as ``unalike list`` shows it.
        source: Where the default comes from: text, authors' code or our choice.
        only: The value of another setting, or a tuple of values, without which this one would do
            nothing.
        bounds: ``ge``, ``gt``, ``le``, ``lt`` and whatever else pydantic's ``Field`` takes.
    """
    more: dict[str, Any] = {"source": source, "only": dict(only or {})}
    return Field(default=default, description=description, json_schema_extra=more, **bounds)


def sources(cls: type[Settings]) -> dict[str, str]:
    """Where the defaults of a class come from, as far as it says so."""
    found = {name: _more(field).get("source", "") for name, field in cls.model_fields.items()}
    return {name: source for name, source in found.items() if source}


def _more(field: FieldInfo) -> Mapping[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


class Setting(NamedTuple):
    """One field of a ``Settings`` class, as ``unalike list NAME`` shows it."""

    name: str
    allowed: str
    default: str
    description: str


T = TypeVar("T", bound=type)

_KINDS: dict[Any, str] = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    Any: "values",  # of several kinds, which the description names
    dict[str, Any]: "table",
}


def look_up(kind: str, name: str, table: Mapping[str, T]) -> T:
    """``table[name]``, or an error that suggests a valid name: the nearest, or one so described.

    >>> class Logistic:
    ...     "A linear model."
    >>> look_up("model", "linear", {"logistic": Logistic})
    Traceback (most recent call last):
    unalike.errors.ConfigError: unknown model 'linear': did you mean 'logistic'?
    """
    if name not in table:
        raise unknown(kind, name, table, [k for k, v in table.items() if _speaks_of(v, name)])
    return table[name]


def _speaks_of(cls: type, word: str) -> bool:
    return word.lower() in re.findall(r"\w+", summary(cls).lower())


def digits(value: float) -> str:
    """A number in as few characters as tell it apart from others.

    >>> digits(1.0), digits(0.1), digits(0.12345671)
    ('1', '0.1', '0.12345671')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def limit(value: float) -> str:
    """A bound of a setting, whole ones with all their digits.

    >>> limit(0.5), limit(65536), limit(1_000_000_000), limit(1e-12), limit(2**63)
    ('0.5', '65536', '1,000,000,000', '1e-12', '2^63')
    """
    if value == 2**63:
        return "2^63"
    return f"{int(value):,}" if 1e6 <= value < 1e15 and value == int(value) else f"{value:g}"


def summary(cls: type) -> str:
    """The first line of a class's docstring."""
    return (cls.__doc__ or "").strip().splitlines()[0]


def describe(cls: type[Settings]) -> list[Setting]:
    """Every field with what it may be, its default and its meaning."""
    return [
        Setting(name, allowed(field), _default(field), field.description or "")
        for name, field in cls.model_fields.items()
    ]


def allowed(field: FieldInfo) -> str:
    """What a field may be, in words.

    >>> from pydantic import Field
    >>> class Example(Settings):
    ...     share: float = Field(default=0.5, ge=0, lt=1)
    ...     order: Literal["up", "down"] = "up"
    >>> [allowed(field) for field in Example.model_fields.values()]
    ['number from 0 to below 1', '"up" or "down"']
    """
    return _words(field.annotation, field.metadata)


def _words(annotation: Any, metadata: Sequence[Any]) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = [m for a in args[1:] for m in (a.metadata if isinstance(a, FieldInfo) else [a])]
        return _words(args[0], [*metadata, *inner])
    if origin is Literal:
        return _either([json.dumps(a) for a in args])
    if origin in (Union, UnionType):
        words = [_words(a, metadata) for a in args if a is not NoneType]
        return _either([*words, *(["left out"] if NoneType in args else [])])
    if origin is list:
        entries = _words(args[0], [])
        if get_origin(args[0]) is list:
            entries = f"lists{entries.removeprefix('list')}"
        else:
            entries = entries.replace("number", "numbers").replace("text", "texts")
        return f"list of {entries}" + _filled(metadata)
    words = [_KINDS.get(annotation, str(annotation)), _range(metadata)]
    return " ".join(filter(None, words)) + _filled(metadata)


def _filled(metadata: Sequence[Any]) -> str:
    return ", not empty" if _bound(metadata, "min_length") else ""


def _range(metadata: Sequence[Any]) -> str:
    bounds = (_bound(metadata, name) for name in ("ge", "gt", "le", "lt", "multiple_of"))
    ge, gt, le, lt, factor = (None if b is None else limit(b) for b in bounds)
    low = f"from {ge}" if ge else f"above {gt}," if gt else ""
    high = f"to {le}" if le else f"to below {lt}" if lt else ""
    if not high:
        low = f">= {ge}" if ge else f"> {gt}" if gt else ""
    elif not ge:
        high = f"up {high}"
    more = f", a multiple of {factor}" if factor else ""
    return " ".join(filter(None, [low, high])) + more


def _bound(metadata: Sequence[Any], name: str) -> Any:
    return next((getattr(m, name) for m in metadata if getattr(m, name, None) is not None), None)


def _either(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _default(field: FieldInfo) -> str:
    """As it would be written in a file."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "left out" if value is None else json.dumps(value, ensure_ascii=False)
