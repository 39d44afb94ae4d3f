"""``unalike``: the commands, their help, and errors in one sentence with exit code 2.

Nothing heavy is imported before a command runs, so that help and mistakes answer at once.
"""

import io
import os
import re
import signal
import sys
import warnings
from typing import Annotated

from cyclopts import CycloptsError, Parameter, validators

import unalike.cli.sites as _sites  # noqa: F401  (adds its commands)
import unalike.cli.using as _using  # noqa: F401  (adds its commands)
from unalike.cli.app import app
from unalike.cli.options import Flag, Out, Overrides
from unalike.cli.places import is_comparison
from unalike.errors import ConfigError, OwnCodeError, UnalikeError, warned


@app.command
def run(
    file: str,
    *,
    set_: Overrides = None,
    engine: str | None = None,
    distributed: Flag = False,
) -> None:
    """Train what a TOML file describes and write a run folder.

    A file may be as short as this; `unalike list settings` shows all settings. Tests of
    the model take about a fifth of the work, unless `evaluation.every` sets their number.

    ```toml
    rounds = 50
    [data]
    name = "digits"
    [partition]
    name = "dirichlet"
    clients = 20
    alpha = 0.3
    [method]
    name = "fedprox"
    mu = 0.1
    ```

    ```sh
    unalike run first.toml
    unalike run first.toml --set method.name=scaffold seed=1
    unalike run first.toml --set 'plus=["fedadam"]' plus.0.lr=0.01
    unalike run first.toml --engine sequential
    torchrun --nproc-per-node 2 -m unalike run first.toml --distributed --set run.folder=runs/two
    ```

    Parameters
    ----------
    file
        The configuration. Every key has a default.
    engine
        Short for --set engine.kind=ENGINE: auto (long runs measure), sequential or vectorized.
    distributed
        Share the clients with the other processes that torchrun or Slurm started; the same command
        continues an interrupted run.
    """
    from unalike.cli.training import train

    overrides = [*(set_ or []), *([f"engine.kind={engine}"] if engine is not None else [])]
    train(file, overrides, distributed)


@app.command
def resume(folder: str, *, trust: Flag = False, changed_code: Flag = False) -> None:
    """Continue a run that was stopped or killed; it ends as if it had never stopped.

    ```sh
    unalike resume runs/fedavg-digits-dirichlet-seed0
    ```

    Parameters
    ----------
    folder
        The folder of a run or of a comparison.
    trust
        Run the Python files that the folder names, even if somebody else started the run.
    changed_code
        Continue although these files, or unalike itself, have changed.
    """
    if is_comparison(folder):
        from unalike.cli.comparing import go_on as go_on_comparing

        go_on_comparing(folder, trust=trust)
    else:
        from unalike.cli.training import go_on

        go_on(folder, trust, changed_code)


@app.command
def verify(folder: str) -> None:
    """Check that a folder is intact: every file is what the run wrote.

    ```sh
    unalike verify runs/fedavg-digits-dirichlet-seed0
    ```

    Parameters
    ----------
    folder
        The folder of a run or a comparison; or of a coordinator, site or peer, whose audit log is
        checked.
    """
    is_comparison(folder)
    from unalike.cli.training import check

    check(folder)


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
    partitions = [{ name = "dirichlet", alpha = 0.1 }, { name = "dirichlet", alpha = 1.0 }]
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
    search = { "local.lr" = [0.001, 1.0, "log"], "local.batch_size" = [16, 32, 64] }
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


@app.command
def watch(
    folder: str,
    *,
    port: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))] = 8642,
) -> None:
    """Show the report of a folder in the browser while its runs continue, on this machine only.

    ```sh
    unalike watch runs/compare-quickstart
    ```

    Parameters
    ----------
    folder
        The folder of a run, of a comparison, or one that holds runs.
    port
        The port to serve it on; 0: any free one.
    """
    from unalike.cli.reporting import serve

    serve(folder, port)


@app.command
def skew(
    file: str | None = None,
    *,
    set_: Overrides = None,
    target: float | None = None,
    clients: int = 20,
    classes: int = 10,
    plot: str | None = None,
) -> None:
    """Measure the skew of a partition, or find partitions with a given skew.

    ```sh
    unalike skew first.toml --plot partition.svg
    unalike skew --set partition.alpha=0.1 partition.clients=50
    unalike skew --target 1.4 --clients 20 --classes 10
    ```

    Parameters
    ----------
    file
        The configuration whose data and partition are measured.
    target
        An EMD to reach: lists the settings of every sampler that reach it.
    clients
        Number of clients, with --target.
    classes
        Number of classes, with --target.
    plot
        Where to draw the partition (.svg, .png, .pdf or .html).
    """
    from unalike.cli.measuring import measure_file, reach

    if target is None:
        measure_file(file, set_ or [], plot)
    elif file or set_ or plot:
        raise ConfigError("--target looks for settings: leave out the file, --set and --plot.")
    else:
        reach(target, clients, classes)


@app.command(name="list")
def list_(name: str | None = None) -> None:
    """Show methods, partitioners, datasets, models and topologies, or the settings of one.

    ```sh
    unalike list
    unalike list dirichlet
    unalike list settings
    ```

    Parameters
    ----------
    name
        One of them, 'settings' for the sections of a configuration file, or 'policy' for what a
        site of a deployed run may agree to.
    """
    from unalike.cli.listing import show, show_all

    if name is None:
        show_all()
    else:
        show(name)


def main() -> None:
    """The entry point: 0 if all went well, 1 for own code, 2 for a mistake, 130 if stopped."""
    # Threads that wait by spinning make small networks a hundred times slower on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.formatwarning = warned
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may be in no alphabet at all
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except OwnCodeError as error:
        print(error.frames, end="", file=sys.stderr)
        _fail(str(error), 1)
    except UnalikeError as error:
        _fail(str(error))
    except CycloptsError as error:
        from unalike.cli.mistakes import sentence

        _fail(sentence(app, error))
    except KeyboardInterrupt as stop:
        print(str(stop) or "interrupted before the run began.", file=sys.stderr)
        sys.exit(130)


def _fail(message: str, code: int = 2) -> None:
    print("error:", re.sub(r"\s*\n\s*", " ", message.strip()), file=sys.stderr)
    sys.exit(code)


def script() -> None:
    """``main`` as a separate process: pressing Ctrl-C repeatedly does not disturb its end."""
    try:
        main()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    script()
