"""What a run is made from: its data and the user's own code, by digest, and who started it.

Resuming a folder that names Python files runs them. A folder that this user started is recognised
by a mark: a keyed digest of the code, with a key in the user's own state folder.
"""

import hashlib
import hmac
import json
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from unalike.algorithms.own import OwnMethod
from unalike.errors import ConfigError, RunError
from unalike.federation.data import Federation
from unalike.files import write
from unalike.models.own import OwnModel
from unalike.run.configuration.config import Config
from unalike.run.folder.manifest import Manifest, digest, save
from unalike.run.measures.extractor import source

CODE = "code"  # the folder with copies of the user's files, as they were


def data_digest(federation: Federation) -> str:
    """Of all examples, and of who holds which for what."""
    examples = federation.examples
    tests = () if examples.test_x is None else (examples.test_x, examples.test_y)
    found = hashlib.blake2b(digest_size=16)
    for part in (examples.x, examples.y, *tests, federation.owner, federation.part):
        found.update(np.ascontiguousarray(part).data)
    return found.hexdigest()


def named(config: Config) -> list[str]:
    """The Python files that a configuration names."""
    tables = [config.model, config.method, *config.plus]
    own = [t for t in tables if t.name in (OwnModel.name, OwnMethod.name) and t.given is None]
    files = [str(t.settings["file"]) for t in own if "file" in t.settings]
    judge = config.evaluation
    files += [source(judge.extractor)] if judge.fidelity and judge.extractor else []
    return list(dict.fromkeys(files))


def code_digests(config: Config) -> dict[str, str]:
    """Of the named files, and of the modules they imported from beside them."""
    files = named(config)
    beside = {Path(file).resolve().parent for file in files}
    loaded = (getattr(m, "__file__", None) for m in list(sys.modules.values()))
    near = {Path(f).resolve() for f in loaded if isinstance(f, str)} if files else set()
    known = {Path(file).resolve() for file in files}
    more = sorted(str(f) for f in near - known if f.parent in beside and f.is_file())
    try:
        return {file: digest(Path(file)) for file in [*files, *more]}
    except FileNotFoundError as error:
        raise ConfigError(
            f"'{error.filename}' was removed while it was read; put it back, since a run keeps a "
            "copy of the code it is made from."
        ) from None


def keep_copies(folder: Path, code: Mapping[str, str]) -> list[str]:
    """Copy the files into the folder; the copies' names, which tell versions apart."""
    names = []
    for file, known in code.items():
        copy = copy_of(folder, file, known)
        names.append(f"{CODE}/{copy.name}")
        if not copy.exists():
            (folder / CODE).mkdir(exist_ok=True)
            write(copy, Path(file).read_bytes())
    return names


def refuse_changed_code(folder: Path, found: Manifest) -> None:
    """One sentence if a file of the user's own is not what the run began with."""
    for file, known in found.code.items():
        path = Path(file)
        if not path.is_file() or digest(path) != known:
            copy = copy_of(folder, file, known)
            raise RunError(
                f"'{file}' {'changed' if path.is_file() else 'is gone'} since the run began; "
                f"restore it from '{copy}', or resume with --changed-code to continue with the "
                "file as it is now."
            )


def copy_of(folder: Path, file: str, known: str) -> Path:
    """Where the folder has its copy of a file."""
    path = Path(file)
    return folder / CODE / f"{path.stem}-{known[:8]}{path.suffix}"


def refuse_stranger(
    folder: Path, config: Config, found: Manifest | None, then: str = "resume with --trust"
) -> None:
    """One sentence if the folder names Python files and nothing shows that this user started it.

    ``then`` is what to do once the file was read.
    """
    files = named(config)
    if files and not (found is not None and _is_ours(found, files)):
        raise RunError(
            f"'{folder}' names the Python file '{files[0]}', which would be run, and nothing "
            f"shows that you started this run on this machine; read the file, then {then}."
        )


def _is_ours(found: Manifest, files: list[str]) -> bool:
    """Whether the mark is this user's, and is about these files."""
    own = mark(found.code)
    return own != "" and hmac.compare_digest(found.mark, own) and set(files) <= found.code.keys()


def sign(folder: Path, configs: Sequence[Config]) -> None:
    """Mark a folder of several runs as this user's, if they name Python files."""
    files = dict.fromkeys(file for config in configs for file in named(config))
    code = {file: digest(Path(file)) for file in files if Path(file).is_file()}
    if code:
        save(folder, Manifest(False, "", code, mark(code), {}))


def mark(code: Mapping[str, str]) -> str:
    """This user's mark under some code; empty if there is none, or no place for a key."""
    key = _key() if code else None
    if key is None:
        return ""
    text = json.dumps(code, sort_keys=True).encode()
    return hmac.new(key, text, "blake2b").hexdigest()[:32]


def _key() -> bytes | None:
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    path = Path(state) / "unalike" / "key"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file():
            temporary = path.with_name(f"{path.name}.{os.getpid()}")
            with open(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
                f.write(secrets.token_bytes(32))
            temporary.replace(path)
        return path.read_bytes() or None
    except (OSError, RuntimeError):  # no home, or one that cannot be written
        return None
