"""The reference of the public names."""

import inspect
from collections.abc import Callable
from typing import Any


def python_page() -> str:
    """Every public name of the package, from its docstring."""
    import unalike

    parts = [
        "# Python\n",
        "What `import unalike` offers, and all that is meant to stay: everything else may change "
        "without notice.\n",
        "```python\nimport unalike\n\n"
        'digits = unalike.federate(unalike.dataset("digits"), unalike.partitioner("iid"))\n'
        'result = unalike.train(digits, "logistic", "fedavg", rounds=2)\n'
        'print(result.summary["last"]["global"]["accuracy"]["mean"])\n```\n',
    ]
    for name in unalike.__all__:
        thing = getattr(unalike, name)
        text = inspect.getdoc(thing) or ""
        parts.append(f"## {name}\n\n{text.splitlines()[0].replace('``', '`')}\n")
        if inspect.isclass(thing):
            parts += _members(thing)
        if inspect.isfunction(thing):
            parts.append(f"```text\nunalike.{name}{_signature(thing)}\n```\n")
        if rest := "\n".join(text.splitlines()[1:]).strip():
            parts.append(f"```text\n{rest}\n```\n")
    return "\n".join(parts)


def _members(cls: type) -> list[str]:
    """The public fields and methods of a class."""
    names = [n for n in getattr(cls, "__dataclass_fields__", {}) if not n.startswith("_")]
    told = [f"Fields: {', '.join(f'`{n}`' for n in names)}.\n"] if names else []
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if name in vars(cls) and not name.startswith("_"):
            about = (inspect.getdoc(method) or "").splitlines()[0].replace("``", "`")
            told.append(f"* `{name}{_signature(method).replace('self, ', '')}`: {about}")
    return [*told, ""] if told else []


def _signature(function: Callable[..., Any]) -> str:
    """The arguments, one on each line, as they are written."""
    shown = []
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and "*" not in shown and not any(s[0] == "*" for s in shown):
            shown.append("*")
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        plain = isinstance(p.default, str | int | float | bool | tuple | type(None))
        default = "" if p.default is p.empty else f"={p.default!r}" if plain else "=..."
        shown.append(f"{star}{p.name}{default}")
    return f"({', '.join(shown)})"
