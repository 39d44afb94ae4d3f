"""What methods and partitions are called, in comparisons and in reports of single runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unalike.settings import digits


def combined(names: Iterable[str]) -> str:
    """A method and what it is combined with.

    >>> combined(["fedprox", "fedadam"])
    'fedprox+fedadam'
    """
    return "+".join(names)


def labels(names: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """A label for each: its name, and the settings in which those of one name differ.

    Args:
        names: Of methods or partitions.
        settings: Of each, by dotted key.

    >>> labels(["fedavg", "fedprox", "fedprox"], [{}, {"mu": 0.1}, {"mu": 1.0}])
    ['fedavg', 'fedprox mu=0.1', 'fedprox mu=1']
    """
    out = []
    for name, mine in zip(names, settings, strict=True):
        alike = [s for n, s in zip(names, settings, strict=True) if n == name]
        apart = [k for k in mine if any(other.get(k, ...) != mine[k] for other in alike)]
        out.append(" ".join([name, *(setting(k.rpartition(".")[2], mine[k]) for k in apart)]))
    return out


def setting(key: str, value: Any) -> str:
    """A setting as part of a label.

    >>> setting("hidden", [32, 16]), setting("alpha", 1.0)
    ('hidden=32/16', 'alpha=1')
    """
    return f"{key}={_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return digits(value)
    if isinstance(value, list):
        return "/".join(map(_text, value))
    return str(value)
