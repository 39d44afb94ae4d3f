"""Settings classes as Markdown tables, in the words of a TOML file."""

import inspect
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from unalike.settings import Settings, limit, sources, summary


def kind(annotation: Any) -> str:
    """A type as the reader of a TOML file knows it."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f'`"{choice}"`' for choice in inner)
    if origin is list:
        return f"list of {kind(inner[0])}"
    if inner:  # a union, or a type with a constraint
        parts = [kind(part) for part in inner if isinstance(part, type) or get_origin(part)]
        return " or ".join(part for part in parts if part != "NoneType")
    words = {
        "str": "text",
        "float": "number",
        "int": "whole number",
        "bool": "true or false",
        "Any": "values",
    }
    name = getattr(annotation, "__name__", str(annotation))
    return words.get(name, name)


def span(field: FieldInfo) -> str:
    """The allowed range in symbols, from a field's constraints."""
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "multiple_of": "multiple of"}
    found = [
        f"{sign} {_number(getattr(rule, name))}"
        for rule in field.metadata
        for name, sign in signs.items()
        if getattr(rule, name, None) is not None
    ]
    return ", ".join(found)


def _number(value: float) -> str:
    return "2⁶³" if value == 2**63 else limit(value)


def toml(value: Any) -> str:
    """A default as it would stand in a file."""
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    return f"`{value}`"


def settings_table(cls: type[Settings]) -> str:
    """Every field of a settings class as a Markdown table, with the sources of the defaults."""
    if not cls.model_fields:
        return "No settings.\n"
    told = sources(cls)
    heads = ["setting", "value", "default", "meaning", *(["default from"] if told else [])]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
    for name, field in cls.model_fields.items():
        allowed = ", ".join(filter(None, [kind(field.annotation), span(field)]))
        default = toml(field.get_default(call_default_factory=True))
        meaning = (field.description or "").replace("|", "\\|")
        cells = [
            f"`{name}`",
            allowed,
            default,
            meaning,
            *([told.get(name, "")] if told else []),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def head_of_file(cls: type) -> str:
    """Where a class is written, and what the head of that file says."""
    module = inspect.getmodule(cls)
    assert module is not None
    path = f"src/{module.__name__.replace('.', '/')}.py"
    text = inspect.getdoc(module) or ""
    return f"Source: `{path}`, which begins:\n\n```text\n{text}\n```\n"


def entry(name: str, cls: type[Settings], *more: str, depth: int = 2) -> str:
    """One named thing: its line, whatever else is known, and its settings."""
    heading = f"{'#' * depth} {name}\n"
    return "\n".join([heading, f"{summary(cls)}\n", *more, settings_table(cls)])
