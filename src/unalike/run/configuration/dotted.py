"""Nested tables by dotted keys, as ``--set`` writes them."""

from collections.abc import Mapping
from typing import Any


def nested(key: str, value: Any) -> dict[str, Any]:
    """The table in which a dotted key stands for the value.

    >>> nested("local.lr", 0.1)
    {'local': {'lr': 0.1}}
    """
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


def flat(table: Mapping[str, Any], prefix: str = "", *, lists: bool = False) -> dict[str, Any]:
    """The values of nested tables by dotted key: the inverse of ``nested``.

    Args:
        table: Settings.
        prefix: What stands before every key.
        lists: Whether to enter lists of tables too, which are counted from zero.

    >>> flat({"local": {"lr": 0.1}, "plus": [{"name": "fedprox"}]})
    {'local.lr': 0.1, 'plus': [{'name': 'fedprox'}]}
    >>> flat({"rounds": 3, "plus": [{"name": "fedprox"}]}, lists=True)
    {'rounds': 3, 'plus.0.name': 'fedprox'}
    """
    out: dict[str, Any] = {}
    for key, value in table.items():
        if lists and isinstance(value, list) and value and isinstance(value[0], Mapping):
            value = {str(i): v for i, v in enumerate(value)}
        if isinstance(value, Mapping) and value:
            out |= flat(value, f"{prefix}{key}.", lists=lists)
        else:
            out[f"{prefix}{key}"] = value
    return out
