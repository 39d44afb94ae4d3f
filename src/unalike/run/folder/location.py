"""The folder of a run, made only when everything else has been checked."""

from collections.abc import Mapping
from pathlib import Path, PurePath
from shutil import rmtree
from typing import Any

from unalike.errors import ConfigError, RunError, no_such
from unalike.files import new_folder, sync_folder
from unalike.run.configuration.config import Config, parse
from unalike.run.folder.records import read_json

BEFORE = (  # files that a run writes before its first round
    "config.json",
    "environment.json",
    "manifest.json",
    "skew.json",
    "features.json",
    "rows.npz",
    ".lock",
)


def refuse_occupied(config: Config) -> None:
    """Say early that the named folder holds something already."""
    if not config.run.folder:
        return
    folder = Path(config.run.folder)
    try:
        folder.stat()  # ``exists`` hides from Python 3.14 on why a name is impossible
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RunError(f"run.folder '{config.run.folder:.60}' cannot be a folder: {why}.") from None
    if not folder.is_dir():
        raise RunError(f"run.folder '{folder}' is a file; choose another run.folder.")
    if (folder / "config.json").exists():
        raise RunError(
            f"'{folder}' already holds a run: continue with 'unalike resume {folder}', "
            "or choose another run.folder."
        )
    if any(not path.name.startswith(".") for path in folder.iterdir()):
        raise RunError(f"'{folder}' is not empty; choose another run.folder.")


def make_folder(config: Config) -> Path:
    """The named folder, or a new one under runs/."""
    try:
        if not config.run.folder:
            return _numbered(config)
        folder = Path(config.run.folder)
        new_folder(folder)
        return folder
    except OSError as error:
        raise RunError(
            f"run.folder '{error.filename}' cannot be made: {error.strerror}; choose another."
        ) from None
    except ValueError as error:
        raise RunError(f"run.folder {config.run.folder!r} cannot be a folder: {error}.") from None


def clear(folder: Path) -> None:
    """Remove a folder in which no round was computed; files that are not the run's own stay."""
    for name in BEFORE:
        (folder / name).unlink(missing_ok=True)
    rmtree(folder / "code", ignore_errors=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def data_name(data: Mapping[str, Any]) -> str:
    """The dataset of a configuration's table; the user's own file by the file's name.

    >>> data_name({"name": "files", "path": "data/patients.csv"}), data_name({"name": "digits"})
    ('patients', 'digits')
    """
    if data["name"] != "files" or not data.get("path"):
        return str(data["name"])
    return PurePath(data["path"]).name.partition(".")[0] or "files"


def _numbered(config: Config) -> Path:
    """A folder named by the settings."""
    name = "+".join([config.method.name, *(m.name for m in config.plus)])
    name += f"-{data_name(config.data.resolved())}-{config.partition.name}-seed{config.seed}"
    return numbered(name)


def numbered(name: str) -> Path:
    """A new folder under runs/; of several with the same name each has a number."""
    runs, number = Path("runs"), 1
    new_folder(runs)
    while True:
        folder = runs / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            sync_folder(runs)
            return folder


def configured(folder: str | Path) -> Config:
    """The configuration of a run folder."""
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError(no_such("run folder", folder))
    raw = read_json(folder / "config.json")
    if not isinstance(raw, dict):
        raise RunError(f"'{folder}/config.json' is not a configuration; restore it from a copy.")
    try:
        return parse(raw)
    except ConfigError as error:
        raise RunError(f"'{folder}/config.json' was changed: {error}") from None
