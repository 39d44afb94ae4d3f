"""The settings of a study: what every method and every partition changes, and what all share.

A setting in which methods differ is told with each of them, one in which partitions differ with
each partition. Of what all runs share, that which is not a default is told, and all is folded away.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from unalike.report.records import Cell, Record, Study
from unalike.run.config import tables
from unalike.run.sections import SECTIONS
from unalike.settings import Settings, digits, summary

TABLES = ("data", "partition", "shift", "model", "topology", "attack")  # each told as one
USUAL = {"topology": {"name": "star"}, "attack": {"name": "none"}}  # the others are always told
OF_METHOD = ("method", "plus")
ALWAYS = ("local.epochs", "local.batch_size", "local.lr")  # told though they be defaults
SILENT = ("seed", "track", "engine", "run.folder", "run.checkpoint_every")  # change no result


class Method(NamedTuple):
    """A method under its label: what it is, its settings, and what clients reveal for it."""

    label: str
    parts: list[tuple[str, str, str]]  # name, one line, paper
    settings: list[tuple[str, str]]
    reveals: list[str]
    privacy: str
    parameters: int | None
    note: str  # what to know of it on these data


def methods(study: Study) -> list[Method]:
    """Every method of the study, with the settings in which it differs from another."""
    known, apart = tables()["method"], _apart(study, lambda c: (c.partition, c.seed))
    found = []
    for label in study.methods:
        cells = [c for c in study.cells if c.method == label and c.config]
        if not cells:
            continue
        config = cells[0].config
        named = [config["method"], *config.get("plus", [])]
        parts, settings = [], []
        for table in named:
            cls = known.get(table["name"])
            line = summary(cls) if cls is not None else ""
            parts.append((table["name"], line, getattr(cls, "paper", "")))
            prefix = f"{table['name']}." if len(named) > 1 else ""
            settings += [(f"{prefix}{k}", written(v)) for k, v in table.items() if k != "name"]
        runs = [c.run for c in cells if c.run is not None]
        data, done = (runs[0].data, runs[0].summary or {}) if runs else ({}, {})
        found.append(
            Method(
                label,
                parts,
                settings + _values(cells, apart),
                list(data.get("survey_reveals", [])),
                _privacy(done.get("privacy")),
                data.get("parameters"),
                data.get("note", ""),
            )
        )
    return found


def _privacy(promise: Record | None) -> str:
    if promise is None:
        return ""
    if promise["epsilon"] is None:
        return "none, since updates were clipped without noise"
    return f"ε = {promise['epsilon']:.3g} at δ = {promise['delta']:g}: {promise['meaning']}"


def partitions(study: Study) -> list[tuple[str, str]]:
    """Every partition with its numbers, and whatever else is changed with it."""
    apart = [k for k in _apart(study, lambda c: (c.method, c.seed)) if k != "partition"]
    found = []
    for label in study.partitions:
        cells = [c for c in study.cells if c.partition == label and c.config]
        if cells:
            own = worded(cells[0].config["partition"], "partition", numbers=True)
            others = [f"{key} = {value}" for key, value in _values(cells, apart)]
            found.append((label, "; ".join([own, *others])))
    return found


def shared(study: Study) -> list[tuple[str, str]]:
    """What all runs agree in: data, model, work, and of the rest what is not a default."""
    told = [_told(c.config) for c in study.cells if c.config]
    usual = {k: v for k, v in _usual().items() if k not in ALWAYS}
    return [
        (key, value)
        for key, value in (told[0].items() if told else ())
        if key != "partition" and value != usual.get(key) and all(t.get(key) == value for t in told)
    ]


def everything(study: Study) -> list[tuple[str, str]]:
    """All settings but those of the methods, with every value they take."""
    rows: dict[str, dict[str, None]] = {}
    for cell in study.cells:
        for key, value in _flat(cell.config):
            if not _within(key, (*OF_METHOD, "seed", "track", "run.folder")):
                rows.setdefault(key, {})[written(value)] = None
    return [(k, " or ".join(values)) for k, values in rows.items() if list(values) != ["none"]]


def worded(table: Mapping[str, Any], kind: str = "", numbers: bool = False) -> str:
    """A named thing and its settings.

    Args:
        table: The name and the settings.
        kind: Where it stands in a configuration; if given, defaults are left out.
        numbers: Whether default numbers and lists are told nevertheless, unless they are zero.

    >>> worded({"name": "ring", "neighbours": 2})
    'ring, neighbours = 2'
    """
    cls = tables().get(kind, {}).get(table["name"])
    usual = {} if cls is None else _defaults(cls)
    words = [str(table["name"])]
    for key, value in table.items():
        number = isinstance(value, int | float | list) and not isinstance(value, bool)
        if key != "name" and (usual.get(key, ...) != value or (numbers and number and value)):
            words.append(f"{key} = {written(value)}")
    return ", ".join(words)


def written(value: Any) -> str:
    """A setting as a person writes it, with every digit that sets it apart.

    >>> written([1.0, 0.1, 0.10000001])
    '[1, 0.1, 0.10000001]'
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return digits(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return str(value)


def _apart(study: Study, place: Callable[[Cell], Any]) -> list[str]:
    """The settings in which cells of one place differ, the method's own left out."""
    groups: dict[Any, list[dict[str, str]]] = {}
    for cell in study.cells:
        if cell.config:
            groups.setdefault(place(cell), []).append(_told(cell.config))
    fixed = study.plan.get("budget", {}).get("kind", "rounds") == "rounds"
    keys = dict.fromkeys(k for told in groups.values() for t in told for k in t)
    return [
        key
        for key in keys
        if (fixed or key != "rounds")  # else they follow from the budget, see the ledger
        and any(len({t.get(key) for t in told}) > 1 for told in groups.values())
    ]


def _values(cells: Sequence[Cell], keys: Iterable[str]) -> list[tuple[str, str]]:
    told = [_told(c.config) for c in cells]
    values = ((k, dict.fromkeys(t[k] for t in told if k in t)) for k in keys)
    return [(key, " or ".join(found)) for key, found in values if found]


def _told(config: Record) -> dict[str, str]:
    """The settings that can change a result, but for those of the method, in words."""
    out = {"rounds": written(config.get("rounds"))}
    for name in TABLES:
        value: Any = config.get(name) or USUAL.get(name, [])
        some = value if isinstance(value, list) else [value]
        numbers = name == "topology"  # how many neighbours a ring has is no detail
        out[name] = "; ".join(worded(table, name, numbers) for table in some) or "none"
    sections = {name: config.get(name, {}) for name in SECTIONS}
    out |= {k: written(v) for k, v in _flat(sections) if not _within(k, SILENT)}
    return out


def _usual() -> dict[str, str]:
    """What ``_told`` says of defaults; rounds, data and model are never left out."""
    return _told({n: _defaults(c) for n, c in SECTIONS.items()})


def _defaults(cls: type[Settings]) -> Record:
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in cls.model_fields.items()
    }


def _flat(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    out = []
    for name, value in config.items():
        if isinstance(value, Mapping):
            out += [(f"{name}.{k}", v) for k, v in value.items()]
        elif isinstance(value, list):
            out += [(f"{name}[{i}].{k}", v) for i, t in enumerate(value) for k, v in t.items()]
        else:
            out.append((name, value))
    return out


def _within(key: str, names: Iterable[str]) -> bool:
    return any(key == name or key.startswith((f"{name}.", f"{name}[")) for name in names)
