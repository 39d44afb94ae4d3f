"""``unalike``: the commands, their help, and errors in one sentence with exit code 2.

Nothing heavy is imported before a command runs, so that help and mistakes answer at once.
"""

import sys
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from unalike.errors import UnalikeError

app = App(
    name="unalike",
    help="Federated learning for data that are not alike.",
    help_epilogue="Start with: unalike demo. Every setting is explained by: unalike list NAME.",
)

Overrides = Annotated[
    list[str] | None,
    Parameter(
        name=["--set"],
        consume_multiple=True,
        negative=(),
        help="settings over the file's, as key=value: --set rounds=50 method.name=fedprox",
    ),
]


@app.command
def run(file: str, *, set_: Overrides = None, engine: str | None = None) -> None:
    """Train by a TOML file and write a run folder.

    Parameters
    ----------
    file
        The configuration. Every key has a default; see: unalike list settings.
    engine
        Shorthand for --set engine.kind=ENGINE: auto, sequential or vectorized.
    """
    from unalike.cli.training import train

    train(file, [*(set_ or []), *([f"engine.kind={engine}"] if engine else [])])


@app.command
def resume(folder: str) -> None:
    """Go on with a run that was stopped or killed; it ends as if it had never been.

    Parameters
    ----------
    folder
        The run's folder.
    """
    from unalike.cli.training import go_on

    go_on(folder)


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
    """Measure the skew of a configuration's partition, or find partitions of a wanted skew.

    Parameters
    ----------
    file
        The configuration whose data and partition are measured.
    target
        An EMD to reach: lists every setting of every sampler that does.
    clients
        Number of clients, with --target.
    classes
        Number of classes, with --target.
    plot
        Where to draw the partition (.svg, .png, .pdf or .html).
    """
    from unalike.cli.measuring import measure_file, reach

    if target is not None:
        reach(target, clients, classes)
    if file is not None or target is None:
        measure_file(file, set_ or [], plot)


@app.command(name="list")
def list_(name: str | None = None) -> None:
    """Show methods, partitioners, datasets, models and topologies, or the settings of one.

    Parameters
    ----------
    name
        One of them, or 'settings' for the sections of a configuration file.
    """
    from unalike.cli.listing import show, show_all

    if name is None:
        show_all()
    else:
        show(name)


@app.command
def demo(folder: str = "runs/demo") -> None:
    """Compare FedAvg, SCAFFOLD and SuPerFed-MM on unalike digits, in about a minute.

    Parameters
    ----------
    folder
        Where the runs, the table and the plots go.
    """
    from unalike.cli.demo import main as show

    show(folder)


def main() -> None:
    """The entry point."""
    try:
        app(exit_on_error=False, print_error=False)
    except UnalikeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except CycloptsError as error:
        print(f"error: {error} See: unalike --help.", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
