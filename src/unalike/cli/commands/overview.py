"""Commands that show what there is before anything is trained; importing this adds them."""

from unalike.cli.app import app
from unalike.cli.options import Overrides
from unalike.errors import ConfigError


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
    """Show methods, partitioners, datasets, models, topologies and presets, or one of them.

    ```sh
    unalike list
    unalike list models
    unalike list dirichlet
    unalike list settings
    ```

    Parameters
    ----------
    name
        One of them, to see its settings; one kind of them, such as 'models' or 'presets';
        'settings' for the sections of a configuration file; or 'policy' for what a site of a
        deployed run may agree to.
    """
    from unalike.cli.listing import show, show_all

    if name is None:
        show_all()
    else:
        show(name)
