"""Commands for a single run; importing this adds them."""

from typing import Annotated

from cyclopts import Parameter, validators

from unalike.cli.app import app
from unalike.cli.options import Flag, Overrides
from unalike.cli.places import is_comparison


@app.command
def run(
    file: str,
    *,
    set_: Overrides = None,
    engine: str | None = None,
    distributed: Flag = False,
) -> None:
    r"""Train what a TOML file describes and write a run folder.

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
    torchrun --nproc-per-node 2 -m unalike run first.toml --distributed \
        --set run.folder=runs/two
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
