"""Commands for many runs; importing this adds them."""

from typing import Annotated

from cyclopts import Parameter, validators

from unalike.cli.app import app
from unalike.cli.options import Flag, Out, Overrides
from unalike.errors import ConfigError


@app.command
def compare(
    target: str | None = None,
    *,
    set_: Overrides = None,
    folder: str | None = None,
    scale: str | None = None,
    processes: Annotated[int, Parameter(validator=validators.Number(gte=0))] = 0,
    distributed: Flag = False,
    list_: Annotated[bool, Parameter(name="--list", negative=())] = False,
) -> None:
    """Compare methods on partitions over seeds, paired by seed and at equal budgets.

    ```sh
    unalike compare quickstart
    unalike compare mine.toml --folder runs/mine
    unalike compare runs/mine
    ```

    A file holds what `unalike run` reads, plus what to vary:

    ```toml
    [compare]
    methods = ["fedavg", { name = "fedprox", mu = 0.1 }]
    partitions = [
      { name = "dirichlet", alpha = 0.1 },
      { name = "dirichlet", alpha = 1.0 },
    ]
    seeds = 5
    ```

    Parameters
    ----------
    target
        A preset, a TOML file, or the folder of a comparison to continue.
    folder
        Where the runs and tables go; by default runs/compare- and the name.
    scale
        Which scale of the file to use: small or paper for the presets.
    processes
        How many cells run at a time; 0: one per core, or a single one on a GPU.
    distributed
        Share the cells with the other processes that torchrun or Slurm started, which must see the
        same folder; the same command continues an interrupted comparison.
    list_
        Show the presets.
    """
    from unalike.cli.comparing import compare as run_comparison
    from unalike.cli.comparing import show_presets

    if list_:
        show_presets()
    elif target is None:
        raise ConfigError(
            "name a preset, a TOML file or a comparison's folder; presets are shown by: "
            "unalike compare --list."
        )
    else:
        run_comparison(target, set_ or [], folder, scale, processes, distributed)


@app.command
def advise(
    target: str,
    *,
    set_: Overrides = None,
    label: str | None = None,
    client: str | None = None,
    minutes: Annotated[float, Parameter(validator=validators.Number(gt=0, lte=1e5))] = 2.0,
    seeds: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 5,
    folder: str | None = None,
) -> None:
    """Recommend a method for your clients, from their skew and a small tournament.

    ```sh
    unalike advise first.toml
    unalike advise hospitals.csv --label outcome --client hospital --minutes 5
    ```

    Parameters
    ----------
    target
        A configuration that names data and partition, or a file of data.
    label
        The column to predict, if the data are a table.
    client
        The column (or key of an NPZ file) that names each row's client.
    minutes
        How long the tournament may take. It uses all of this time: first for rounds, then for more
        seeds of the last rung.
    seeds
        At least this many repetitions of the last rung.
    folder
        Where the runs and the advice go; by default runs/advise- and the name.
    """
    from pathlib import Path

    from unalike.cli.advising import configuration, recommend

    config = configuration(target, label, client, set_ or [])
    place = Path(folder) if folder else Path("runs") / f"advise-{Path(target).stem}"
    recommend(config, place, minutes, seeds)


@app.command
def tune(file: str, *, set_: Overrides = None, folder: str | None = None) -> None:
    """Search the ranges in a TOML file for the best settings, on validation data only.

    A file holds what `unalike run` reads, plus what to search:

    ```toml
    [tune]
    trials = 20
    [tune.search]
    "local.lr" = [0.001, 1.0, "log"]
    "local.batch_size" = [16, 32, 64]
    ```

    ```sh
    unalike tune first.toml
    unalike tune first.toml --set tune.trials=50 --folder runs/lr
    ```

    The same command continues a search that was stopped.

    Parameters
    ----------
    file
        The configuration with its section [tune].
    folder
        Where the trials and the result go; by default runs/tune- and the name.
    """
    from unalike.cli.tuning import tune as search

    search(file, set_ or [], folder)


@app.command
def report(folder: str, *, output: Out = None) -> None:
    """Write the report of a run or a comparison as one HTML file that needs no network.

    ```sh
    unalike report runs/compare-quickstart
    unalike report runs/fedavg-digits-dirichlet-seed0 --output report.html
    ```

    Parameters
    ----------
    folder
        The folder of a run, of a comparison, or one that holds runs.
    output
        The file to write; by default report.html in the folder.
    """
    from unalike.cli.reporting import write

    write(folder, output)
