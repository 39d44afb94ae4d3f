"""What a run was made on, for the record."""

import os
import platform
import shlex
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("unalike", "torch", "numpy", "scipy", "scikit-learn", "safetensors", "pydantic")


def environment() -> dict[str, Any]:
    """Versions, processor, threads, accelerator."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: installed(name) for name in PACKAGES},
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        "command": command(sys.argv),
    }


def command(words: list[str]) -> str | None:
    """What was typed, if a run was started from the command line.

    >>> command(["/opt/bin/unalike", "run", "my file.toml"])
    "unalike run 'my file.toml'"
    """
    typed = bool(words) and Path(words[0]).stem == "unalike"
    return shlex.join(["unalike", *words[1:]]) if typed else None


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache  # a comparison asks for every run
def installed(name: str) -> str | None:
    """The version of a package; None if it is not installed as one."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
