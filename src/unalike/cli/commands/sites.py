"""Commands of a consortium: ``keys``, ``serve``, ``join`` and ``peer``."""

from typing import Annotated

from cyclopts import Parameter

from unalike.cli.app import app
from unalike.cli.options import Overrides

Names = Annotated[list[str], Parameter(consume_multiple=True, negative=())]


@app.command
def keys(
    folder: str,
    *names: str,
    host: Names | None = None,
    days: int = 365,
    peers: bool = False,
) -> None:
    """Make certificates: an authority, one for the coordinator, one for each site; or check them.

    ```sh
    unalike keys consortium server --host fl.example.org
    unalike keys consortium north south west
    unalike keys consortium north south west --peers   # without a coordinator
    unalike keys consortium                            # are they valid?
    ```

    The first call makes the authority, whose key never leaves the folder. Give each site
    authority.pem and its own .pem and .key, and nothing else. The same call again makes new keys.

    Parameters
    ----------
    folder
        The folder of the authority; made if it does not exist.
    names
        'server', or names of sites; without any, the certificates in the folder are checked.
    host
        The names and addresses under which sites reach the coordinator.
    days
        How long the new certificates are valid.
    peers
        Make certificates that are valid as servers too, as `unalike peer` needs them.
    """
    from unalike.cli.deploying import make_keys

    make_keys(folder, names, tuple(host or ()), days, peers)


@app.command
def serve(
    file: str,
    *,
    sites: Names,
    at: str = "127.0.0.1:9432",
    keys: str | None = None,
    folder: str | None = None,
    set_: Overrides = None,
    seconds: float = 600.0,
) -> None:
    r"""Coordinate a run of real sites; the same command continues one that was stopped.

    ```sh
    unalike serve winner.toml --sites north south west \
        --at 0.0.0.0:9432 --keys consortium
    unalike serve winner.toml --sites north south   # a trial, unencrypted
    ```

    The file is one that `unalike run` reads; what it says about data and partition is ignored.

    Parameters
    ----------
    file
        The recipe.
    sites
        The names of all sites, as in their certificates.
    at
        The address to listen on. Without keys it must be a local one. With flower:127.0.0.1:8000
        Flower's SuperLink carries the messages.
    keys
        The folder with authority.pem, server.pem and server.key.
    folder
        The folder of the run; by default runs/serve- and the name of the file.
    seconds
        How many seconds a site has to answer; late sites take no part in the round.
    """
    from unalike.cli.deploying import serve as coordinate

    coordinate(file, sites, at, keys, folder, set_ or [], seconds)


@app.command
def join(
    name: str,
    *,
    data: str,
    at: str = "127.0.0.1:9432",
    label: str | None = None,
    keys: str | None = None,
    policy: str | None = None,
    folder: str | None = None,
    dry_run: str | None = None,
    set_: Overrides = None,
) -> None:
    r"""Take part in a run with data that stay here.

    ```sh
    unalike join north --data north.csv --label outcome \
        --at fl.example.org:9432 --keys north-keys
    unalike join north --data north.csv --label outcome \
        --set missing=impute normalise=pooled
    unalike join north --data north.npz --dry-run winner.toml
    ```

    How the file is read (`unalike list files` shows the settings) must be the same at every site.

    Parameters
    ----------
    name
        The name of this site, as in its certificate.
    data
        The file with this site's rows: CSV, TSV, Parquet or NPZ.
    at
        The coordinator's address or, with Flower, unix: and the socket that its node uses.
    label
        The column to predict, if the data are a table.
    keys
        The folder with authority.pem and this site's .pem and .key.
    policy
        A TOML file with what this site agrees to; `unalike list policy` shows its settings.
    folder
        Where this site keeps its state and its audit log; by default sites/NAME.
    dry_run
        A recipe: show what it would send, without connecting.
    set_
        How the file is read, such as missing=impute, as key=value; several may follow.
    """
    from unalike.cli.deploying import join as take_part

    take_part(name, data, at, label, keys, policy, folder, dry_run, set_ or [])


@app.command
def peer(
    name: str,
    file: str,
    *,
    data: str,
    peers: str,
    label: str | None = None,
    keys: str | None = None,
    at: str | None = None,
    policy: str | None = None,
    folder: str | None = None,
    seconds: float = 600.0,
    dry_run: bool = False,
    set_: Overrides = None,
) -> None:
    r"""Take part in a run without a coordinator: peers exchange directly.

    ```sh
    unalike peer north ring.toml --data north.csv --label outcome \
        --peers peers.toml --keys keys
    unalike peer north ring.toml --data north.csv --label outcome \
        --peers peers.toml --dry-run
    ```

    The recipe's topology says who hears whom; the recipe and the list of peers must be the same
    everywhere. The same command continues a run that was stopped.

    Parameters
    ----------
    name
        The name of this peer, as in its certificate and in the list.
    file
        The recipe; what it says about data and partition is ignored.
    data
        The file with this peer's rows: CSV, TSV, Parquet or NPZ.
    peers
        A TOML file with the address of every peer, one line each: north = "north.example.org:9432"
    label
        The column to predict, if the data are a table.
    keys
        The folder with authority.pem and this peer's .pem and .key.
    at
        The address to listen on, if it is not the one in the list: 0.0.0.0:9432 behind a router.
    policy
        A TOML file with what this peer agrees to; `unalike list policy` shows its settings.
    folder
        Where this peer keeps its state, its model and its audit log; by default peers/NAME.
    seconds
        How many seconds this peer waits for its neighbours in a round; late ones are left out.
    dry_run
        Show what would be sent, without connecting.
    set_
        How the file is read, such as missing=impute, as key=value; several may follow.
    """
    from unalike.cli.deploying import peer as take_part

    given = (data, peers, label, keys, at, policy, folder, seconds, dry_run)
    take_part(name, file, *given, set_ or [])
