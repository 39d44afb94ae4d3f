"""What a run was made on, for the record."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

PACKAGES = ("unalike", "torch", "numpy", "scipy", "scikit-learn", "safetensors", "pydantic")


def environment() -> dict[str, Any]:
    """Versions, processor, threads, accelerator."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
