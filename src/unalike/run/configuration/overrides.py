"""``--set a.b=value`` on top of a file."""

import tomllib
from typing import Any

from unalike.errors import ConfigError

LISTS = ("plus", "shift")


def override(raw: dict[str, Any], *items: str) -> None:
    """Set every ``key=value`` in a raw configuration; a value is read as TOML, else as text.

    Whole tables and names come first, whatever their order, since another name clears the settings
    that belonged to the old one. Of equal keys the last counts.

    >>> raw = {"method": {"name": "scaffold", "server_lr": 1.0}}
    >>> override(raw, "method.mu=0.1", "method.name=fedprox", "rounds=5")
    >>> raw
    {'method': {'name': 'fedprox', 'mu': 0.1}, 'rounds': 5}
    """
    parsed = [(*_parsed(item), item) for item in items]
    for path, value, item in sorted(parsed, key=lambda p: (len(p[0]) > 1, p[0][-1] != "name")):
        _put(raw, path, value, item)


def _parsed(item: str) -> tuple[list[str], Any]:
    key, equals, text = item.partition("=")
    path = [part.strip() for part in key.split(".")]
    if not equals or not all(path):
        raise ConfigError(f"--set '{item}' is not of the form key=value, for example rounds=50.")
    if "\n" in item.strip() or "\r" in item.strip():
        raise ConfigError(f"--set {item!r} has a line break; give each setting separately.")
    try:
        return path, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return path, text.strip()
    except (ValueError, RecursionError):
        raise ConfigError(
            f"--set '{item:.40} ...' is too long a number or nested too deeply for a setting."
        ) from None


def _put(raw: dict[str, Any], path: list[str], value: Any, item: str) -> None:
    *parents, last = path
    place: Any = raw
    for name in parents:
        if isinstance(place, list):
            place = _element(place, name, item)
        else:
            if isinstance(place.get(name), str):  # method = "fedprox" is short for a table
                place[name] = {"name": place[name]}
            place = place.setdefault(name, [] if place is raw and name in LISTS else {})
        if not isinstance(place, dict | list):
            raise ConfigError(f"--set '{item}': '{name}' is a value, not a table.")
    if isinstance(place, list):
        raise ConfigError(f"--set '{item}': name an element of the list, such as {parents[-1]}.0.")
    if last == "name" and place.get("name") not in (None, value):
        place.clear()  # the settings of another choice would not fit this one
    place[last] = value


def _element(items: list[Any], index: str, item: str) -> Any:
    if not (index.isascii() and index.isdigit()) or int(index[:9]) >= len(items):
        raise ConfigError(
            f"--set '{item}': there is no element '{index}' in a list of {len(items)}; "
            "add one in the file, or all of them: --set 'plus=[\"fedprox\"]'."
        )
    if isinstance(items[int(index)], str):
        items[int(index)] = {"name": items[int(index)]}
    return items[int(index)]
