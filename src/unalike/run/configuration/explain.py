"""A validation error in one sentence: the key, what is wrong, what is allowed."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError

from unalike.errors import ConfigError, unknown
from unalike.run.configuration.sections import SECTIONS
from unalike.settings import Settings, allowed

S = TypeVar("S", bound=Settings)


def check(cls: type[S], values: Mapping[str, Any], key: str, name: str = "") -> S:
    """``cls(**values)``, or one sentence about the first thing that is wrong.

    Args:
        cls: The settings.
        values: As they came from a file.
        key: Where in the file they stand, empty for its top.
        name: What the table names, if it names something: ``fedprox``.
    """
    for given in values:
        if not isinstance(given, str):
            raise ConfigError(f"'{key}' has the key {given!r}, which is not text.")
        if given not in cls.model_fields:
            raise _unknown(cls, given, key, name)
    try:
        return cls(**values)
    except ValidationError as error:
        raise _sentence(cls, error, values, key) from None


SHARES = ("fraction", "part", "portion", "proportion", "ratio")  # other words for one


def shown(value: Any) -> str:
    """A value as an error shows it: in full if it is short."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."


def _unknown(cls: type[Settings], given: str, key: str, name: str) -> ConfigError:
    where = name or key
    if given in SHARES and "share" in cls.model_fields:
        return ConfigError(f"unknown {where} setting '{given}': did you mean '{key}.share'?")
    if name == "none":
        return ConfigError(f"unknown setting '{key}.{given}': '{key}.name' is none; set it first.")
    if elsewhere := _place_of(given, key):
        return ConfigError(f"unknown {where} setting '{given}': did you mean '{elsewhere}'?")
    if name and get_close_matches(given, ["name", *cls.model_fields], n=1) == ["name"]:
        return ConfigError(f"unknown setting '{key}.{given}': did you mean '{key}.name'?")
    if not cls.model_fields:
        return ConfigError(f"unknown setting '{key}.{given}': {where} has no settings.")
    return unknown(f"{where} setting", given, cls.model_fields)


def _place_of(given: str, key: str) -> str:
    """``section.given`` if another section has a setting of this name."""
    found = [s for s, cls in SECTIONS.items() if s != key and given in cls.model_fields]
    return f"{found[0]}.{given}" if found else ""


def _sentence(
    cls: type[Settings], error: ValidationError, values: Mapping[str, Any], key: str
) -> ConfigError:
    first = error.errors()[0]
    place = str(first["loc"][0]) if first["loc"] else ""
    name = ".".join(filter(None, [key, place])) or "the configuration"
    if first["type"] in ("value_error", "assertion_error"):
        return ConfigError(f"'{name}': {str(first['msg']).removeprefix('Value error, ')}.")
    field = cls.model_fields[place]
    if first["type"] == "missing":
        return ConfigError(f"'{name}' is required ({field.description}).")
    return ConfigError(f"'{name}' must be {_a(allowed(field))}, got {shown(values[place])}.")


def _a(words: str) -> str:
    """With articles."""
    return re.sub(r"(^|\bor )(?=number|whole|list)", r"\1a ", words)
