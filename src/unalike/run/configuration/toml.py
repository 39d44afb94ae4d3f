"""Plain data as TOML; the standard library only reads it."""

import json
from collections.abc import Mapping
from typing import Any


def as_toml(raw: Mapping[str, Any]) -> str:
    """A configuration as text: values first, then its tables.

    >>> print(as_toml({"rounds": 3, "local": {"lr": 0.1}, "plus": [{"name": "fedadam"}]}))
    rounds = 3
    plus = [{ name = "fedadam" }]
    <BLANKLINE>
    [local]
    lr = 0.1
    <BLANKLINE>
    """
    top = [f"{_key(k)} = {_value(v)}" for k, v in raw.items() if not isinstance(v, Mapping)]
    tables = [
        "\n".join([f"[{_key(k)}]", *(f"{_key(n)} = {_value(v)}" for n, v in table.items())])
        for k, table in raw.items()
        if isinstance(table, Mapping)
    ]
    return "\n\n".join([*(["\n".join(top)] if top else []), *tables]) + "\n"


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(value: str) -> str:
    """As in JSON, except that TOML wants the delete character escaped as well."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
