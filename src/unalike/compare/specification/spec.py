"""A comparison file: the settings of a run, a ``[compare]`` section, and scales of it.

rounds = 30                      # everything that ``unalike run`` reads
[data]
name = "digits"

[compare]                        # what is varied
methods = ["fedavg", { name = "fedprox", mu = 0.1, label = "FedProx" }]
partitions = [{ name = "dirichlet", alpha = 0.1 }, { name = "dirichlet", alpha = 1.0 }]
seeds = 5
sweep = { "local.epochs" = [1.0, 5.0] }

[scale.paper]                    # laid over the rest by --scale paper
rounds = 500
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from unalike.compare.specification import settings as read
from unalike.compare.specification.merge import merge
from unalike.compare.specification.settings import Budget, CompareSettings, Judging
from unalike.compare.specification.variants import (
    Variant,
    look_up,
    methods,
    overlap,
    partitions,
    swept,
)
from unalike.errors import ConfigError, no_such, unknown
from unalike.metrics.catalogue import METRICS
from unalike.run.configuration.config import Config, parse, refuse_data
from unalike.run.configuration.dotted import flat
from unalike.run.configuration.explain import check
from unalike.run.configuration.overrides import override
from unalike.run.measures.selecting import headline

FORMAT = 2  # of compare.json
SCALE = "small"  # if a file has scales and none is requested


@dataclass(frozen=True)
class Cell:
    """One run of a comparison."""

    id: str
    label: str  # the method's
    method: str
    partition: str  # its label
    condition: str  # partition and swept settings: what a table's column is
    seed: int
    sweep: dict[str, Any]
    config: Config

    @property
    def folder(self) -> str:
        """Relative to the comparison's own."""
        return f"cells/{self.id}"

    def as_dict(self) -> dict[str, Any]:
        """As compare.json stores it."""
        return {
            "id": self.id,
            "label": self.label,
            "method": self.method,
            "partition": self.partition,
            "condition": self.condition,
            "seed": self.seed,
            "sweep": self.sweep,
            "folder": self.folder,
            "config": self.config.resolved(),
        }


@dataclass(frozen=True)
class Comparison:
    """Everything that was requested."""

    judging: Judging
    budget: Budget
    baseline: str
    cells: list[Cell]
    source: dict[str, Any]  # where it came from: name, preset or not, scale, overrides
    # condition -> rounds that pay for an evaluation, where that is left to the runs
    cadence: dict[str, int] = field(default_factory=dict)
    # condition -> method -> settings of the engine, where they were measured
    engines: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """The methods, in the file's order."""
        return list(dict.fromkeys(c.label for c in self.cells))

    @property
    def conditions(self) -> list[str]:
        """The conditions, in the file's order."""
        return list(dict.fromkeys(c.condition for c in self.cells))

    @cached_property
    def baselines(self) -> dict[tuple[str, int], Cell]:
        """The baseline's cells by condition and seed."""
        return {(c.condition, c.seed): c for c in self.cells if c.label == self.baseline}

    def as_dict(self) -> dict[str, Any]:
        """As compare.json stores it."""
        return {
            "format": FORMAT,
            **{name: getattr(self.judging, name) for name in Judging.model_fields},
            "baseline": self.baseline,
            "budget": self.budget.as_dict(),
            "source": self.source,
            "cadence": self.cadence,
            "engines": self.engines,
            "cells": [c.as_dict() for c in self.cells],
        }


def load(path: str | Path, scale: str | None = None, overrides: Sequence[str] = ()) -> Comparison:
    """The comparison in a TOML file, at one of its scales, with ``key=value`` overrides on top."""
    return loads(text_of(Path(path)), Path(path).stem, scale, overrides)


def text_of(path: Path) -> str:
    """The text of a file, or one sentence about why it cannot be read."""
    refuse_data(path)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        presets = "give the path of a TOML file, or see the presets: unalike compare --list"
        raise ConfigError(no_such("file", path, presets)) from None
    except IsADirectoryError:
        raise ConfigError(
            f"'{path}' is a folder without compare.json; give a TOML file, a preset or the folder "
            "of a comparison."
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"'{path}' is not a text file; a config is TOML in UTF-8.") from None
    except OSError as error:
        raise ConfigError(f"'{path}' cannot be read: {error.strerror}.") from None


def loads(
    text: str,
    name: str,
    scale: str | None = None,
    overrides: Sequence[str] = (),
    preset: bool = False,
) -> Comparison:
    """The comparison in the text of a file, or of a preset, called ``name``."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"'{name}' is not valid TOML: {error}.") from None
    raw, chosen = scaled(raw, scale)
    override(raw, *overrides)
    made = comparison(raw)
    source = {"name": name, "preset": preset, "scale": chosen, "overrides": list(overrides)}
    return replace(made, source=source)


def scaled(raw: Mapping[str, Any], scale: str | None) -> tuple[dict[str, Any], str | None]:
    """The file at one of its scales, and which one that is."""
    base = {k: v for k, v in raw.items() if k != "scale"}
    scales = raw.get("scale", {})
    if not isinstance(scales, Mapping) or not all(isinstance(s, Mapping) for s in scales.values()):
        raise ConfigError("'scale' must hold tables, written [scale.small].")
    if not scales:
        if scale is not None:
            raise ConfigError(
                f"there is no scale '{scale}': the file has none, drop --scale or write "
                f"[scale.{scale}]."
            )
        return base, None
    chosen = scale or (SCALE if SCALE in scales else next(iter(scales)))
    if chosen not in scales:
        raise unknown("scale", chosen, scales)
    return merge(base, scales[chosen]), chosen


def comparison(raw: Mapping[str, Any]) -> Comparison:
    """Check a raw file and make its cells, in the order in which they are run.

    Seeds are the outermost loop, so that a comparison that was stopped has every method under
    every condition equally often.
    """
    if "compare" not in raw:
        raise ConfigError("the file has no [compare] section; to run it alone use: unalike run.")
    if not isinstance(raw["compare"], Mapping):
        raise ConfigError("'compare' must be a table, written [compare].")
    settings = check(CompareSettings, raw["compare"], "compare")
    base = {k: v for k, v in raw.items() if k != "compare"}
    budget = read.budget(settings.budget)
    if budget.kind == "rounds" and budget.amount is not None:
        base["rounds"] = int(budget.amount)
    base = merge({"engine": {"workers": 1}}, base)  # cells are spread over the cores instead
    first = parse(base)
    _check(settings, first)
    listed, placed = methods(settings.methods, base), partitions(settings.partitions, base)
    for kind, variants in (("method", listed), ("partition", placed)):
        _no_conflict(settings, budget, kind, variants)
    _set_once(listed, placed)
    listed, placed = swept(settings.sweep, listed, placed)
    seeds = read.seeds(settings.seeds, first.seed)
    if (many := len(seeds) * len(placed) * len(listed)) > read.MOST:
        raise ConfigError(
            f"the comparison has {many:,} cells, more than {read.MOST:,}; take fewer methods, "
            "conditions or seeds."
        )
    cells = [
        _cell(base, method, condition, seed)
        for seed in seeds
        for condition in placed
        for method in listed
    ]
    baseline = look_up(settings.baseline or listed[0].label, listed).label
    judging = Judging(**settings.model_dump(include=set(Judging.model_fields)))
    if judging.metric == "auto":
        judging = judging.model_copy(update={"metric": headline(cells[0].config)})
    return Comparison(judging, budget, baseline, cells, {})


def _cell(base: Mapping[str, Any], method: Variant, condition: Variant, seed: int) -> Cell:
    raw = merge(merge(base, condition.changes), method.changes)
    try:
        config = parse({**raw, "seed": seed})
    except ConfigError as error:
        raise ConfigError(f"method '{method.label}' on '{condition.label}': {error}") from None
    return Cell(
        id=f"{method.slug}--{condition.slug}--seed{seed}",
        label=method.label,
        method=method.name,
        partition=condition.name,
        condition=condition.label,
        seed=seed,
        sweep={**condition.sweep, **method.sweep},
        config=config,
    )


def _check(settings: CompareSettings, config: Config) -> None:
    if settings.metric not in ("auto", *METRICS):
        raise unknown("compare.metric", settings.metric, METRICS)
    if settings.round == "selected" and config.split.validation == 0:
        raise ConfigError(
            "rounds are selected on validation data but split.validation is 0: raise it, or set "
            "compare.round = 'last'."
        )
    if settings.section == "new" and config.split.new_clients == 0:
        raise ConfigError("compare.section is 'new' but split.new_clients is 0; raise it.")


def _set_once(listed: Sequence[Variant], placed: Sequence[Variant]) -> None:
    """What a method sets would silently hide what a partition sets."""
    for method in listed:
        keys = {k.removesuffix(".name") for k in method.sets}  # a named table replaces another
        for partition in placed:
            for key in sorted(partition.sets):
                if overlap(key, keys):
                    raise ConfigError(
                        f"method '{method.label}' and partition '{partition.label}' both set "
                        f"'{key}'; drop one of them."
                    )


def _no_conflict(
    settings: CompareSettings, budget: Budget, kind: str, variants: Sequence[Variant]
) -> None:
    """What an entry sets itself would silently not be swept, or outdo the budget."""
    for variant in variants:
        for key in flat(settings.sweep):
            if overlap(key, variant.sets):
                raise ConfigError(
                    f"'compare.sweep' varies '{key}', which {kind} '{variant.label}' sets "
                    "itself; drop one of them."
                )
    if budget.kind != "rounds" or budget.amount is None:
        return
    but = next((f"{kind} '{v.label}' sets its own" for v in variants if "rounds" in v.sets), "")
    if "rounds" in settings.sweep:
        but = "'compare.sweep' varies them"
    if but:
        raise ConfigError(
            f"'compare.budget' gives every method {budget.amount:.0f} rounds, but {but}; "
            "drop one of them."
        )
