"""What earlier measurements found, by processor, network and work; kept in the user's cache.

engines.json: a digest of what the answer depends on -> which way was the fastest, and the seconds
of each. If anything is wrong with the file, it is ignored.
"""

import hashlib
import json
import math
import os
import platform
from pathlib import Path
from typing import Any

from unalike.files import write

FILE = "engines.json"
MOST = 1000  # entries; the oldest go first

Seconds = dict[str, float]  # way -> of the same work, the least that it took
_here: dict[str, Seconds] = {}  # what this process has found: two runs in it are the same


def place() -> Path:
    """Where they are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "unalike" / FILE


def processor() -> str:
    """The name of this machine's processor."""
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        about = []
    names = (line.partition(":")[2].strip() for line in about if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def digest(told: dict[str, Any]) -> str:
    """A short name of what a measurement depends on."""
    raw = json.dumps(told, sort_keys=True, default=str).encode()
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


def recall(key: str, ways: list[str]) -> Seconds | None:
    """The seconds of exactly these ways; None if they are not known."""
    found = _here.get(key) or _read().get(key)
    if not isinstance(found, dict) or sorted(found) != sorted(ways):
        return None
    whole = all(isinstance(s, int | float) and math.isfinite(s) and s > 0 for s in found.values())
    return {way: float(found[way]) for way in ways} if whole else None


def remember(key: str, seconds: Seconds) -> None:
    """Keep them, if that is possible."""
    _here[key] = seconds
    known = {k: v for k, v in _read().items() if k != key} | {key: seconds}
    newest = dict(list(known.items())[-MOST:])
    try:
        place().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write(place(), json.dumps(newest), durable=False)
    except (OSError, RuntimeError):  # no home, no room, no right
        return


def _read() -> dict[str, Any]:
    try:
        found = json.loads(place().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
