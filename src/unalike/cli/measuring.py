"""``unalike skew``: numbers and pictures of a partition, and partitions of a wanted skew."""

from rich.console import Console
from rich.table import Table

from unalike.errors import ConfigError
from unalike.federation.skew import measure
from unalike.report.plots import partition_plot, save, spread_plot
from unalike.report.tables import skew_table
from unalike.run.build import federation
from unalike.run.config import load, override, parse


def measure_file(file: str | None, overrides: list[str], plot: str | None) -> None:
    """Print the skew of a configuration's partition; draw it if asked."""
    if file is None:
        raw: dict[str, object] = {}
        for item in overrides:
            override(raw, item)
        config = parse(raw)
    else:
        config = load(file, overrides)
    data = federation(config)
    found = measure(data.counts)
    console = Console()
    console.print(f"{config.data.name}, {config.partition.name}, {data.n_clients} clients")
    console.print(skew_table(found.as_dict()))
    if plot is not None:
        title = f"{config.data.name}, {config.partition.name}"
        chart = partition_plot(data.counts, data.examples.class_names, title, emd=found.emd)
        save(chart, plot)
        stem, _, suffix = plot.rpartition(".")
        other = f"{stem}-spread.{suffix}"
        save(spread_plot(found.emd_per_client, data.counts.sum(1)), other)
        console.print(f"drawn to {plot} and {other}")


def reach(target: float, clients: int, classes: int) -> None:
    """Print every setting of every sampler whose EMD is the target."""
    from unalike.federation.target import TARGETED, reachable, settings_for

    table = Table(title=f"EMD {target:g} with {clients} clients and {classes} classes")
    table.add_column("partition")
    table.add_column("settings")
    found = 0
    for sampler in TARGETED:
        try:
            settings = settings_for(target, sampler, clients, classes)
        except ConfigError as error:
            table.add_row(sampler, f"[dim]{error}[/dim]")
            continue
        for one in settings:
            values = one.model_dump(include={"t", "f", "q", "alpha", "target"})
            shown = "  ".join(
                f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}"
                for k, v in values.items()
            )
            table.add_row(sampler, shown)
            found += 1
    if not found:
        ranges = ", ".join(
            f"{s} {low:.3g} to {high:.3g}"
            for s in TARGETED
            for low, high in [reachable(s, clients, classes)]
        )
        raise ConfigError(f"no sampler reaches EMD {target:g}; reachable are: {ranges}.")
    Console().print(table)
