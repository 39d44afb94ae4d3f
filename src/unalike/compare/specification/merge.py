"""One raw configuration laid over another."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``under`` with the values of ``over``; tables are joined, everything else is replaced.

    A table that names another thing (another method, another dataset) replaces the whole table,
    since the first one's settings would not fit it.

    >>> merge({"local": {"lr": 0.1, "epochs": 2.0}}, {"local": {"lr": 0.5}})
    {'local': {'lr': 0.5, 'epochs': 2.0}}
    >>> merge({"data": {"name": "mnist", "size": 32}}, {"data": {"name": "digits"}})
    {'data': {'name': 'digits'}}
    """
    out = dict(deepcopy(under))
    for key, value in over.items():
        below = out.get(key)
        if isinstance(below, dict) and isinstance(value, Mapping) and not _renamed(below, value):
            out[key] = merge(below, value)
        else:
            out[key] = deepcopy(value)
    return out


def _renamed(below: Mapping[str, Any], over: Mapping[str, Any]) -> bool:
    return "name" in over and below.get("name") not in (None, over["name"])
