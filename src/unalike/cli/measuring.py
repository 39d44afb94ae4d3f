"""``unalike skew``: numbers and pictures of a partition, and partitions of a wanted skew."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from unalike.errors import ConfigError, DataError
from unalike.federation.data import Federation
from unalike.federation.feature_skew import FeatureSkew, measure_features
from unalike.federation.skew import Skew, measure
from unalike.report.grouping import grouping
from unalike.report.plots import partition_plot, save, spread_plot
from unalike.report.plots.canvas import SUFFIXES
from unalike.report.skew import skew_table
from unalike.run.configuration.config import override, parse, read
from unalike.run.experiment.build import federation
from unalike.run.folder.location import data_name
from unalike.run.measures.groups import planned
from unalike.tables.cells import words
from unalike.tables.model import Table
from unalike.tables.terminal import terminal

FURTHEST = 5  # clients that are named
MOST = 100_000  # clients or classes of a partition that is looked for


def measure_file(file: str | None, overrides: list[str], plot: str | None) -> None:
    """Print the skew of a configuration's partition; draw it if asked."""
    if plot is not None and Path(plot).suffix not in SUFFIXES:
        raise ConfigError(f"--plot '{plot}' must end in one of {', '.join(SUFFIXES)}.")
    raw = {} if file is None else read(Path(file))
    override(raw, *overrides)
    config = parse(raw)
    data = federation(config)
    found, features = measure(data.counts), measure_features(data, config.seed)
    console = Console()
    title = f"{data_name(config.data.resolved())}, {config.partition.name}"
    told = grouping({"groups": planned(config, data)})
    drawn = "" if plot is None else _draw(data, found, title, Path(plot))
    skew = found.as_dict() | features.as_dict()
    table = skew_table({"value": skew}, f"Skew of {title}: training examples")
    console.print(terminal([table], console.width))
    for said in [*_outcome(data), *told, *_furthest(data, features)]:
        console.print(said, soft_wrap=True, markup=False, highlight=False)
    if drawn:
        console.print(drawn, soft_wrap=True, markup=False)


def _outcome(data: Federation) -> list[str]:
    """The requested skew beside the measured one."""
    left = [f"{data.unused:,} examples are held by no client"] if data.unused else []
    return [*map(str, data.outcomes), *left]


def _furthest(data: Federation, found: FeatureSkew) -> list[str]:
    """Which clients' features differ most, if any do beyond chance."""
    if not found.apart:
        return []
    order = np.argsort(-np.where(found.measured, found.mmd, -1.0), kind="stable")[:FURTHEST]
    names = data.names or [f"client {k}" for k in range(data.n_clients)]
    each = ", ".join(f"{names[k]} {found.mmd[k]:.3f}" for k in order if found.measured[k])
    return [f"features furthest from the other clients' (MMD at equal labels): {each}"]


def _draw(data: Federation, found: Skew, title: str, path: Path) -> str:
    """Write both pictures, and say where."""
    other = path.with_name(f"{path.stem}-spread{path.suffix}")
    try:
        save(partition_plot(data.counts, data.examples.class_names, title, emd=found.emd), path)
        save(spread_plot(found.emd_per_client, data.counts.sum(1)), other)
    except OSError as error:
        raise DataError(f"'{error.filename or path}' cannot be written: {error}.") from None
    return f"drawn to {path} and {other}"


def reach(target: float, clients: int, classes: int) -> None:
    """Print every setting of every sampler whose EMD is the target."""
    from unalike.federation.target import TARGETED, settings_for

    for name, value in (("clients", clients), ("classes", classes)):
        if value > MOST:
            raise ConfigError(f"--{name} is {value}; at most {MOST:,} can be looked for.")
    rows, found = [], []
    for sampler in TARGETED:
        try:
            settings = settings_for(target, sampler, clients, classes)
        except ConfigError as error:
            rows.append([words(sampler), words(str(error))])
            continue
        for one in settings:
            values = one.model_dump(
                include={"t", "f", "q", "target", "keep_one"}, exclude_none=True
            )
            chosen = "  ".join(f"{k} = {_short(v)}" for k, v in values.items())
            rows.append([words(sampler), words(chosen)])
            found.append(_override(sampler, clients, values))
    if not found:
        raise _unreachable(target, clients, classes)
    console = Console()
    title = f"EMD {target:g} with {clients} clients and {classes} classes"
    table = Table(title, ["partition", "settings"], rows)
    console.print(terminal([table], console.width))
    console.print(f"for example: unalike skew --set {found[0]}", soft_wrap=True)


def _override(sampler: str, clients: int, values: Mapping[str, Any]) -> str:
    chosen = {"name": sampler, "clients": clients, **values}
    return " ".join(f"partition.{k}={_short(v)}" for k, v in chosen.items())


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _unreachable(target: float, clients: int, classes: int) -> ConfigError:
    from unalike.federation.target import TARGETED, reachable

    ranges = []
    for sampler in TARGETED:
        try:
            low, high = reachable(sampler, clients, classes)
        except ConfigError as error:
            if clients < 1 or classes < 2:
                return error
            continue
        ranges.append(f"{sampler} {low:.3g} to {high:.3g}")
    return ConfigError(
        f"no sampler reaches EMD {target:g} with {clients} clients and {classes} classes; "
        f"reachable are {', '.join(ranges)}."
    )
