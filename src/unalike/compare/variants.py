"""The entries of ``compare.methods`` and ``compare.partitions``: labels and changed settings."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import product
from typing import Any
from unicodedata import normalize

from unalike.compare.labels import combined, labels, setting
from unalike.compare.merge import merge
from unalike.errors import ConfigError, unknown
from unalike.run.configuration.config import tables
from unalike.run.configuration.dotted import flat, nested

METHOD_KEYS = ("label", "plus", "topology", "set")
PARTITION_KEYS = ("label", "data", "model", "shift", "set")
FIXED = ("seed", "run", "compare", "method.name")  # what a sweep cannot vary
SHARED = ("data", "partition", "shift", "split", "seed")  # what a federation depends on
OWN = ("method", "plus")  # what a method is
COMMON = "all methods have in common; list it under compare.partitions"
PERSONAL = "is the method's own; list it under compare.methods"
LONGEST = 100  # bytes of a slug: a folder's name is two of them and a seed, and has at most 255


@dataclass(frozen=True)
class Variant:
    """A label and what it changes in the file."""

    label: str
    name: str
    changes: dict[str, Any]
    sets: frozenset[str] = frozenset()  # the keys that its entry gives itself
    sweep: dict[str, Any] = field(default_factory=dict)
    slug: str = ""  # the label as part of a folder's name


def methods(entries: Sequence[Any], base: Mapping[str, Any]) -> list[Variant]:
    """The methods to compare; a method's ``plus`` comes on top of the file's own."""
    key, out = "compare.methods", []
    parts = [_entry(f"{key}[{i}]", e, METHOD_KEYS) for i, e in enumerate(entries)]
    for i, (given, extra) in enumerate(parts):
        if "name" not in given:
            known = ", ".join(sorted(tables()["method"]))
            raise ConfigError(f"'{key}[{i}]' needs a name: one of {known}.")
        plus = _list(f"{key}[{i}].plus", extra.get("plus", []))
        changes: dict[str, Any] = {"method": given}
        if plus:
            changes["plus"] = [*base.get("plus", []), *map(_table, plus)]
        if "topology" in extra:
            changes["topology"] = _one(f"{key}[{i}].topology", extra["topology"])
        changes = merge(_set(f"{key}[{i}].set", extra, SHARED, COMMON), changes)
        name = combined([str(given["name"]), *(str(_table(p).get("name")) for p in plus)])
        sets = frozenset(flat(changes))
        out.append(Variant(str(extra.get("label", "")), name, changes, sets))
    return _labelled(out, key)


def partitions(entries: Sequence[Any], base: Mapping[str, Any]) -> list[Variant]:
    """The partitions to compare on, each possibly with its own data, model and shifts."""
    key, out = "compare.partitions", []
    usual = _one("partition", base.get("partition", "dirichlet"))
    if not entries:
        return [Variant(str(usual.get("name", "")), str(usual.get("name", "")), {})]
    for i, entry in enumerate(entries):
        given, extra = _entry(f"{key}[{i}]", entry, PARTITION_KEYS)
        others = _set(f"{key}[{i}].set", extra, OWN, PERSONAL)
        given = merge(_one(f"{key}[{i}].set.partition", others.get("partition", {})), given)
        own: dict[str, Any] = {"partition": given}
        own |= {k: _one(f"{key}[{i}].{k}", extra[k]) for k in ("data", "model") if k in extra}
        if "shift" in extra:
            own["shift"] = [_table(s) for s in _list(f"{key}[{i}].shift", extra["shift"])]
        own = merge(others, own)
        changes = own | {"partition": merge(usual, given)}
        name = str(changes["partition"].get("name", ""))
        sets = frozenset(flat(own)) - {"partition"}
        out.append(Variant(str(extra.get("label", "")), name, changes, sets))
    return [replace(v, name=v.label) for v in _labelled(out, key)]


def swept(
    sweep: Mapping[str, Any], listed: Sequence[Variant], placed: Sequence[Variant]
) -> tuple[list[Variant], list[Variant]]:
    """Methods and conditions for every value of the swept settings.

    A setting of a method makes variants of those methods that have it; every other setting makes
    a new condition under which all methods are compared.
    """
    values = _sweep(sweep)
    inner = {k: v for k, v in values.items() if k.startswith("method.")}
    outer = {k: v for k, v in values.items() if k not in inner}
    found: set[str] = set()
    methods: list[Variant] = []
    for variant in listed:
        cls = tables()["method"].get(str(variant.changes["method"]["name"]))
        known = {} if cls is None else cls.model_fields
        own = {k: v for k, v in inner.items() if k.removeprefix("method.") in known}
        found |= own.keys()
        methods += _spread(variant, own, " ", len("method."))
    for key in inner.keys() - found:
        raise ConfigError(
            f"'compare.sweep' varies '{key}', but no compared method has a setting "
            f"'{key.removeprefix('method.')}'; see: unalike list NAME."
        )
    conditions = [c for p in placed for c in _spread(p, outer, ", ", 0)]
    return _slugged(methods, "methods"), _slugged(conditions, "conditions")


def overlap(key: str, keys: Iterable[str]) -> bool:
    """Whether a setting is one of these, a part of one, or has one as its part.

    >>> overlap("data", {"data.name"}), overlap("data.name", {"data"}), overlap("data", {"dat"})
    (True, True, False)
    """
    return any(key == k or key.startswith(f"{k}.") or k.startswith(f"{key}.") for k in keys)


def _sweep(sweep: Mapping[str, Any]) -> dict[str, list[Any]]:
    out = flat(sweep)
    for key, values in out.items():
        if key in FIXED or key.partition(".")[0] in FIXED:
            raise ConfigError(
                f"'compare.sweep' cannot vary '{key}'; seeds and methods have their own lists."
            )
        if not isinstance(values, list) or not values:
            raise ConfigError(f"'compare.sweep.{key}' must be a list of values, got {values!r}.")
        if any(v in values[:i] for i, v in enumerate(values)):
            raise ConfigError(f"'compare.sweep.{key}' lists a value twice.")
    return out


def _spread(variant: Variant, values: Mapping[str, list[Any]], sep: str, cut: int) -> list[Variant]:
    """The variant under every combination of values."""
    out = []
    for combination in product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        changes = variant.changes
        for key, value in chosen.items():
            changes = merge(changes, nested(key, value))
        words = [variant.label, *(setting(k[cut:], v) for k, v in chosen.items())]
        out.append(replace(variant, label=sep.join(words), changes=changes, sweep=chosen))
    return out


def _slugged(variants: Sequence[Variant], kind: str) -> list[Variant]:
    """Variants with a slug each, which stays the same when more of them follow."""
    out: list[Variant] = []
    labels: set[str] = set()
    slugs: set[str] = set()
    for v in variants:
        if v.label in labels:
            raise ConfigError(
                f"'compare.sweep' makes two {kind} called '{v.label}'; give one entry another "
                "label, or drop a value."
            )
        slug = _slug(v.label)
        if slug in slugs or len(slug.encode()) > LONGEST:
            slug = _marked(slug, v.label)
        labels.add(v.label)
        slugs.add(slug)
        out.append(replace(v, slug=slug))
    return out


def _slug(label: str) -> str:
    return re.sub(r"[^\w.+=]+", "-", normalize("NFC", label).lower()).strip("-.") or "x"


def _marked(slug: str, label: str) -> str:
    """A slug that is too long or already taken, with a mark that makes it unique."""
    mark = "-" + sha256(label.encode()).hexdigest()[:8]
    return slug.encode()[: LONGEST - len(mark)].decode(errors="ignore").rstrip("-.") + mark


def _entry(key: str, value: Any, own: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the named thing with its settings, what the comparison itself reads)."""
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"'{key}' must be a name or a table with a name, got {value!r}.")
    extra = {k: v for k, v in value.items() if k in own}
    label = extra.get("label", "-")
    if not isinstance(label, str) or not label.strip():
        raise ConfigError(f"'{key}.label' must be a text that is not empty, got {label!r}.")
    return {k: v for k, v in value.items() if k not in own}, extra


def _set(key: str, extra: Mapping[str, Any], refused: Iterable[str], why: str) -> dict[str, Any]:
    """The settings under ``set``, by dotted key or in tables; some tables are refused."""
    given = extra.get("set", {})
    if not isinstance(given, Mapping):
        raise ConfigError(f"'{key}' must be a table of settings, got {given!r}.")
    out: dict[str, Any] = {}
    for dotted, value in flat(given).items():
        if dotted in FIXED or dotted.partition(".")[0] in FIXED:
            raise ConfigError(f"'{key}' cannot change '{dotted}', which all cells share.")
        if dotted.partition(".")[0] in refused:
            raise ConfigError(f"'{key}' cannot change '{dotted}', which {why}.")
        out = merge(out, nested(dotted, value))
    return out


def _labelled(variants: Sequence[Variant], key: str) -> list[Variant]:
    """Variants with a label each: that of the file, or one that sets them apart."""
    unnamed = [v for v in variants if not v.label]
    made = iter(labels([v.name for v in unnamed], [flat(v.changes) for v in unnamed]))
    out = [replace(v, label=v.label or next(made)) for v in variants]
    for i, v in enumerate(out):
        if any(v.label == o.label for o in out[:i]):
            raise ConfigError(f"'{key}' has two entries called '{v.label}'; give one a label.")
    return out


def _table(value: str | Mapping[str, Any]) -> dict[str, Any]:
    return {"name": value} if isinstance(value, str) else dict(value)


def _one(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, str | Mapping):
        raise ConfigError(f"'{key}' must be a name or a table, got {value!r}.")
    return _table(value)


def _list(key: str, value: Any) -> list[Any]:
    if isinstance(value, str | Mapping):
        return [value]
    if not isinstance(value, list) or not all(isinstance(v, str | Mapping) for v in value):
        raise ConfigError(f"'{key}' must be a list of names or tables, got {value!r}.")
    return value


def look_up(label: str, variants: Sequence[Variant]) -> Variant:
    """The variant with this label, or the only one with this name."""
    named = [v for v in variants if v.name == label]
    for v in variants:
        if v.label == label:
            return v
    if len(named) == 1:
        return named[0]
    raise unknown("compare.baseline", label, [v.label for v in variants])
