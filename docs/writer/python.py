"""The reference of the public names, from their docstrings."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import unalike
from unalike import extend
from unalike.callable_package import CallablePackage

ALIASES = {
    "Key": "What a draw is a function of: a 64-bit integer tensor.",
    "Params": "The leaves of a model by name.",
    "Slot": "The name of a slot, which one method fills.",
    "Tree": "Any pytree of tensors.",
}
INTRODUCTION = """# Python

*What can I call from Python?*

The names below and those of [`unalike.extend`](#unalikeextend) are the public interface.
Everything else may change without notice.

```python
import unalike

digits = unalike.federate(unalike.dataset("digits"), unalike.partitioner("iid"))
result = unalike.train(digits, "logistic", "fedavg", rounds=2)
print(result.summary["last"]["global"]["accuracy"]["mean"])
```
"""


def python_page() -> str:
    """Every public name of the package: functions first, then classes."""
    names = sorted(unalike.__all__, key=lambda name: inspect.isclass(getattr(unalike, name)))
    entries = (line for name in names for line in _entry(name))
    return "\n".join([INTRODUCTION, *entries, *_extend()])


def _extend() -> Iterator[str]:
    """What methods of one's own are made of, in one line each."""
    yield "## unalike.extend\n"
    yield from _markdown(inspect.getdoc(extend) or "")
    yield "See [Use your own method](how-to-own-method.md).\n"
    yield "| name | what it is |\n| --- | --- |"
    for name in extend.__all__:
        about = ALIASES.get(name) or _about(getattr(extend, name))
        yield f"| `{name}` | {about} |"
    yield ""


def _about(thing: Any) -> str:
    """The first sentence of what is said about a thing."""
    said = (inspect.getdoc(thing) or "").split("\n\n")[0]
    return _ticks(" ".join(said.split())).replace("|", "\\|")


def _entry(name: str) -> Iterator[str]:
    thing = getattr(unalike, name)
    if isinstance(thing, CallablePackage):
        thing = thing.__wrapped__
    yield f"## {name}\n"
    if inspect.isfunction(thing):
        yield f"```text\nunalike.{name}{_signature(thing)}\n```\n"
    yield from _markdown(inspect.getdoc(thing) or "")
    if inspect.isclass(thing):
        yield from _members(thing)


def _markdown(text: str) -> Iterator[str]:
    """A docstring in Google's style: paragraphs, arguments as a list, examples as code."""
    for part in re.split(r"\n\n(?=\S)", text.strip()):
        head, _, body = part.partition("\n")
        if head == "Args:":
            entries = re.split(r"\n(?=\w)", textwrap.dedent(body))
            for entry in entries:
                argument, _, meaning = " ".join(entry.split()).partition(": ")
                yield f"* `{argument}`: {_ticks(meaning)}"
            yield ""
        elif head == "Example:":
            yield f"```text\n{textwrap.dedent(body).strip()}\n```\n"
        else:
            yield f"{_ticks(part)}\n"


def _ticks(text: str) -> str:
    return text.replace("``", "`")


def _members(cls: type) -> Iterator[str]:
    """The public fields and methods of a class."""
    names = [n for n in getattr(cls, "__dataclass_fields__", {}) if not n.startswith("_")]
    if names:
        yield f"Fields: {', '.join(f'`{n}`' for n in names)}.\n"
    own = [m for m in inspect.getmembers(cls, inspect.isfunction) if m[0] in vars(cls)]
    for name, method in own:
        if not name.startswith("_"):
            about = (inspect.getdoc(method) or "").splitlines()[0]
            yield f"* `{name}{_signature(method)}`: {_ticks(about)}"
    yield ""


def _signature(function: Callable[..., Any]) -> str:
    """The arguments with their defaults, where these are short."""
    shown: list[str] = []
    for p in inspect.signature(function).parameters.values():
        if p.name == "self":
            continue
        if p.kind is p.KEYWORD_ONLY and not any(s.startswith("*") for s in shown):
            shown.append("*")
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        plain = isinstance(p.default, str | int | float | bool | tuple | type(None))
        default = "" if p.default is p.empty else f"={p.default!r}" if plain else "=..."
        shown.append(f"{star}{p.name}{default}")
    return f"({', '.join(shown)})"
