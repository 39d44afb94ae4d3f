"""The manifest of a run folder: what must not change, by digest.

It is written when a run begins, with its inputs (configuration, data, code), and again as the very
last step, with all outputs. A folder whose manifest says that it is finished is never computed
again or replaced.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from unalike.errors import RunError
from unalike.files import write

FILE = "manifest.json"
CHECKPOINT = "checkpoint/"


class Manifest(NamedTuple):
    """What a folder was when the manifest was written."""

    finished: bool
    data: str  # digest of the examples and of who holds which
    code: dict[str, str]  # file of the user's own -> digest
    mark: str  # proof that this user started the run; empty without code
    files: dict[str, str]  # path in the folder -> digest

    def differing(self, folder: Path) -> list[str]:
        """The files that are not what they were; a checkpoint may be taken away whole."""
        kept = [name for name in self.files if (folder / name).is_file()]
        bare = not any(name.startswith(CHECKPOINT) for name in kept)
        return [
            name
            for name, known in self.files.items()
            if not (bare and self.finished and name.startswith(CHECKPOINT))
            and (name not in kept or digest(folder / name) != known)
        ]


def digest(path: Path) -> str:
    """Of a file's bytes."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, _hash).hexdigest()


def digest_of(raw: bytes) -> str:
    """Of the bytes of a file that is not written yet."""
    found = _hash()
    found.update(raw)
    return found.hexdigest()


def _hash() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=16)


def read(folder: Path) -> Manifest | None:
    """The folder's manifest, if it has one; one sentence if it is damaged."""
    path = folder / FILE
    try:
        raw = json.loads(path.read_bytes())
        proof = raw.pop("digest")
        found = Manifest(**raw)
        whole = proof == _proof(found)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"'{path}' cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise RunError(
            f"'{path}' is damaged; restore it from a copy, or delete it, and 'unalike resume' "
            "writes it again from the last checkpoint."
        )
    return found


def save(folder: Path, made: Manifest) -> None:
    """Write it, with a digest of its own."""
    text = json.dumps({**made._asdict(), "digest": _proof(made)}, indent=2)
    write(folder / FILE, text)


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Of those files that are there."""
    return {name: digest(folder / name) for name in names if (folder / name).is_file()}


def _proof(made: Manifest) -> str:
    return digest_of(json.dumps(made._asdict(), sort_keys=True).encode())
