"""What ``unalike keys``, ``serve``, ``join`` and ``peer`` do."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

from unalike.errors import ConfigError, UnalikeError

if TYPE_CHECKING:
    from unalike.federation.data import Examples
    from unalike.federation.datasets.base import Dataset

FLOWER, SOCKET = "flower:", "unix:"  # what an address begins with, where messages go through others
EXTRA = (
    "deployed runs need the packages 'grpcio' and 'cryptography'; install them with "
    "pip install 'unalike[deploy]'."
)


def make_keys(
    folder: str, names: Sequence[str], hosts: tuple[str, ...], days: int, peers: bool
) -> None:
    """An authority, unless there is one, and certificates; without names, what there is."""
    keys = _deploy("security.certificates")
    place = Path(folder)
    if not names:
        for line in keys.checked(place):
            _say(line, stamp=False)
        return
    if days < 1:
        raise ConfigError(f"days must be 1 or more, got {days}.")
    keys.make_authority(place)
    for name in names:
        keys.issue(place, name, hosts if name == keys.SERVER else (), days, peer=peers)
        _say(f"wrote {place / name}.pem and .key, valid for {days} days")


def serve(
    file: str,
    sites: Sequence[str],
    at: str,
    keys: str | None,
    folder: str | None,
    overrides: list[str],
    seconds: float,
) -> None:
    """Coordinate."""
    place = Path(folder) if folder else Path("runs") / f"serve-{Path(file).stem}"
    if len(set(sites)) != len(sites) or not sites:
        raise ConfigError("name every site once.")
    _refuse_names(sites)
    _refuse_address(at.removeprefix(FLOWER))
    if at.startswith(FLOWER):
        if overrides:
            raise ConfigError(
                "a run through Flower takes its settings from the file; leave --set out."
            )
        root = None if keys is None else str(Path(keys) / "authority.pem")
        carrier = _deploy("flower.coordinator")
        carrier.launch(file, sites, at.removeprefix(FLOWER), place, seconds, root)
        _say(f"finished; the run is in {place}")
        return
    listening, serving = _deploy("coordinator.listener"), _deploy("coordinator.serving")
    from unalike.deploy.coordinator.desk import Desk
    from unalike.deploy.security.audit import Audit
    from unalike.deploy.security.certificates import SERVER, credentials
    from unalike.run.configuration.config import read_config

    config = read_config(file, overrides)
    serving.refuse(config, sites)
    shown = None if keys is None else credentials(Path(keys), SERVER)
    place.mkdir(parents=True, exist_ok=True)
    desk = Desk(sites, Audit(place / "audit.jsonl"))
    listener = listening.Listener(desk, at, shown)
    how = "encrypted" if shown else "NOT encrypted, for trials on this machine"
    _say(f"listening on {at}, {how}")
    _say(f"waiting for {len(sites)} sites: {', '.join(sites)}")
    try:
        serving.serve(config, sites, place, desk, _say, seconds=seconds)
    except KeyboardInterrupt:
        desk.end("it was stopped and continues when it is started again", failed=False)
        raise KeyboardInterrupt(
            "stopped; the same command continues from the last round that was saved"
        ) from None
    except UnalikeError as error:
        desk.end(str(error), failed=True)
        raise
    finally:
        listener.close()
    _say(f"finished; the run is in {place}")


def join(
    name: str,
    data: str,
    at: str,
    label: str | None,
    keys: str | None,
    policy: str | None,
    folder: str | None,
    dry_run: str | None,
    settings: Sequence[str],
) -> None:
    """Take part, or show what that would send."""
    _refuse_names([name])
    if not dry_run and not at.startswith(SOCKET):
        _refuse_address(at)
    examples = _read(data, label, settings)
    if dry_run is not None:
        from unalike.deploy.site.policy import read_policy
        from unalike.deploy.site.preview import preview
        from unalike.run.configuration.config import read_config

        for line in preview(read_config(dry_run, []), examples, read_policy(policy or "")):
            _say(line, stamp=False)
        return
    connection, worker = _deploy("wire.connection"), _deploy("site.worker")
    from unalike.deploy.security.certificates import credentials
    from unalike.deploy.site.policy import read_policy

    place = Path(folder) if folder else Path("sites") / name
    shown = None if keys is None else credentials(Path(keys), name)
    if at.startswith(SOCKET):
        line = _deploy("flower.site").SocketLine(Path(at.removeprefix(SOCKET)), shown)
    else:
        line = connection.Line(name, at, shown)
    try:
        site = worker.work(name, examples, line, place, read_policy(policy or ""), _say)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("left the run; the same command joins it again") from None
    finally:
        line.close()
    here = place / "runs" / site.joined.run
    _say(f"the run is over; this site's models, records and state are in {here}")
    _say(f"use them with: unalike predict {here} NEW_ROWS --client {name}")


def peer(
    name: str,
    file: str,
    data: str,
    peers: str,
    label: str | None,
    keys: str | None,
    at: str | None,
    policy: str | None,
    folder: str | None,
    seconds: float,
    dry_run: bool,
    settings: Sequence[str],
) -> None:
    """Take part without a coordinator, or show what that would send."""
    from unalike.deploy.site.policy import read_policy
    from unalike.run.configuration.config import read_config

    config, examples = read_config(file, []), _read(data, label, settings)
    module, recipe, worker = (_deploy(f"peer.{name}") for name in ("peer", "recipe", "worker"))
    connections = _deploy("peer.connections")
    addresses = connections.read_peers(peers)
    if dry_run:
        from unalike.deploy.site.preview import preview

        recipe.refuse(config, addresses)
        for line in preview(config, examples, read_policy(policy or ""), len(addresses)):
            _say(line, stamp=False)
        return
    from unalike.deploy.security.certificates import credentials

    place = Path(folder) if folder else Path("peers") / name
    shown = None if keys is None else credentials(Path(keys), name)
    given = (addresses, place, read_policy(policy or ""), shown, _say)
    one = module.Peer(name, config, examples, *given, at=at or "", seconds=seconds)
    try:
        left = worker.take_part(one)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("left the run; the same command continues it") from None
    finally:
        one.close()
    _say(f"finished; this peer's model and records are in {left}")


def _read(data: str, label: str | None, settings: Sequence[str]) -> "Examples":
    """A site's own rows, read as a configuration that names them would be."""
    from unalike.run.configuration.config import chosen, override, parse

    raw: dict[str, Any] = {"data": {"name": "files", "path": data}}
    if label is not None:
        raw["data"]["label"] = label
    # Messages name settings as a configuration does, so 'data.missing=impute' is taken, too.
    override(raw, *(f"data.{text.removeprefix('data.')}" for text in settings))
    return cast("Dataset", chosen("data", parse(raw).data)).load()


def _deploy(name: str):  # type: ignore[no-untyped-def]
    """A module of ``unalike.deploy`` that needs more than the core does."""
    from importlib import import_module

    try:
        return import_module(f"unalike.deploy.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("grpc", "cryptography"):
            raise ConfigError(EXTRA) from None
        raise


def _say(text: str, stamp: bool = True) -> None:
    now = f"{datetime.now():%Y-%m-%d %H:%M:%S}  " if stamp else ""
    Console(highlight=False).print(f"{now}{text}", markup=False, soft_wrap=True)


def _refuse_names(sites: Sequence[str]) -> None:
    """A site's name is that of its folder and of its certificate."""
    for name in sites:
        if not 0 < len(name) <= 64 or "/" in name or name.startswith(".") or not name.isprintable():
            raise ConfigError(f"'{name}' cannot be the name of a site; use up to 64 letters.")


def _refuse_address(at: str) -> None:
    """Above 65535 a port would be counted from 0 again, without a word."""
    port = at.rpartition(":")[2]
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(f"--at '{at}' is not HOST:PORT, with a port up to 65535.")
