"""Comparisons by name: the TOML files in this folder."""

import tomllib
from importlib.resources import files

from unalike.errors import unknown


def names() -> list[str]:
    """What ``unalike compare NAME`` can name, the quick start first."""
    found = [p.name.removesuffix(".toml") for p in files(__name__).iterdir()]
    found = [n for n in found if (files(__name__) / f"{n}.toml").is_file()]
    return sorted(found, key=lambda name: (name != "quickstart", name))


def text(name: str) -> str:
    """The file of a preset."""
    if name not in names():
        raise unknown("preset", name, names())
    return (files(__name__) / f"{name}.toml").read_text(encoding="utf-8")


def about(name: str) -> tuple[str, str, list[str]]:
    """(title, question, scales) of a preset."""
    raw = tomllib.loads(text(name))
    compare = raw["compare"]
    return compare["title"], compare["question"], list(raw.get("scale", {}))
