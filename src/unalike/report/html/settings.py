"""The settings of a study: what every method and every partition changes, and what all share.

A setting in which methods differ is shown with each of them, one in which partitions differ with
each partition. Of what all runs share, what is not a default is shown, and all is folded away.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from unalike.report.records import Place, Record, Study
from unalike.run.configuration.config import tables
from unalike.run.configuration.dotted import flat
from unalike.run.configuration.sections import SECTIONS
from unalike.settings import Settings, digits, summary

TABLES = (
    "data",
    "partition",
    "shift",
    "model",
    "topology",
    "augment",
    "attack",
)  # each shown as one
USUAL = {  # the others are always shown
    "topology": {"name": "star"},
    "augment": {"name": "none"},
    "attack": {"name": "none"},
}
OF_METHOD = ("method", "plus")
ALWAYS = ("local.epochs", "local.batch_size", "local.lr")  # shown even where they are defaults
SILENT = (
    "seed",
    "deploy",
    "track",
    "engine",
    "run.folder",
    "run.checkpoint_every",
)  # change no result


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
        places = [p for p in study.places if p.method == label and p.config]
        if not places:
            continue
        config = places[0].config
        named = [config["method"], *config.get("plus", [])]
        parts, settings = [], []
        for table in named:
            cls = known.get(table["name"])
            line = summary(cls) if cls is not None else ""
            parts.append((table["name"], line, getattr(cls, "paper", "")))
            prefix = f"{table['name']}." if len(named) > 1 else ""
            settings += [(f"{prefix}{k}", written(v)) for k, v in table.items() if k != "name"]
        runs = [p.run for p in places if p.run is not None]
        data, done = (runs[0].data, runs[0].summary or {}) if runs else ({}, {})
        found.append(
            Method(
                label,
                parts,
                settings + _values(places, apart),
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
        places = [p for p in study.places if p.partition == label and p.config]
        if places:
            own = worded(places[0].config["partition"], "partition", numbers=True)
            others = [f"{key} = {value}" for key, value in _values(places, apart)]
            found.append((label, "; ".join([own, *others])))
    return found


def shared(study: Study) -> list[tuple[str, str]]:
    """What all runs agree in: data, model, work, and of the rest what is not a default."""
    told = [_told(p.config) for p in study.places if p.config]
    usual = {k: v for k, v in _usual().items() if k not in ALWAYS}
    return [
        (key, value)
        for key, value in (told[0].items() if told else ())
        if key != "partition" and value != usual.get(key) and all(t.get(key) == value for t in told)
    ]


def everything(study: Study) -> list[tuple[str, str]]:
    """All settings but those of the methods, with every value they take."""
    rows: dict[str, dict[str, None]] = {}
    for place in study.places:
        for key, value in flat(place.config, lists=True).items():
            if not _within(key, (*OF_METHOD, "seed", "track", "run.folder")):
                rows.setdefault(key, {})[written(value)] = None
    return [(k, " or ".join(values)) for k, values in rows.items() if list(values) != ["none"]]


def worded(table: Mapping[str, Any], kind: str = "", numbers: bool = False) -> str:
    """A named thing and its settings.

    Args:
        table: The name and the settings.
        kind: Where it stands in a configuration; if given, defaults are left out.
        numbers: Whether default numbers and lists are shown as well, unless they are zero.

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


def _apart(study: Study, alike: Callable[[Place], Any]) -> list[str]:
    """The settings in which otherwise equal runs differ, the method's own left out."""
    groups: dict[Any, list[dict[str, str]]] = {}
    for place in study.places:
        if place.config:
            groups.setdefault(alike(place), []).append(_told(place.config))
    fixed = study.asked is None or study.asked.budget.kind == "rounds"
    keys = dict.fromkeys(k for told in groups.values() for t in told for k in t)
    return [
        key
        for key in keys
        if (fixed or key != "rounds")  # else they follow from the budget, see the ledger
        and any(len({t.get(key) for t in told}) > 1 for told in groups.values())
    ]


def _values(places: Sequence[Place], keys: Iterable[str]) -> list[tuple[str, str]]:
    told = [_told(p.config) for p in places]
    values = ((k, dict.fromkeys(t[k] for t in told if k in t)) for k in keys)
    return [(key, " or ".join(found)) for key, found in values if found]


def _told(config: Record) -> dict[str, str]:
    """The settings that can change a result, but for those of the method, in words."""
    out = {"rounds": written(config.get("rounds"))}
    for name in TABLES:
        value: Any = config.get(name) or USUAL.get(name, [])
        some = value if isinstance(value, list) else [value]
        numbers = name == "topology"  # how many neighbours a ring has matters
        out[name] = "; ".join(worded(table, name, numbers) for table in some) or "none"
    sections = {name: config.get(name, {}) for name in SECTIONS}
    out |= {k: written(v) for k, v in flat(sections, lists=True).items() if not _within(k, SILENT)}
    return out


def _usual() -> dict[str, str]:
    """What ``_told`` says of defaults; rounds, data and model are never left out."""
    return _told({n: _defaults(c) for n, c in SECTIONS.items()})


def _defaults(cls: type[Settings]) -> Record:
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in cls.model_fields.items()
    }


def _within(key: str, names: Iterable[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in names)
