"""What it costs that checkpoints prove themselves: the digest beside all else that is done.

python benchmarks/digests.py --mb 100
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from unalike.files import write
from unalike.run.folder.manifest import digest as digest_of_file
from unalike.run.folder.proof import digest, pack, unpack

TENSORS = 20


def least(act: Callable[[], Any], times: int = 5) -> float:
    """Seconds of the fastest of some times."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        act()
        found.append(time.perf_counter() - begun)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=100)
    size = parser.parse_args().mb * 10**6 // 4 // TENSORS
    flat = {f"layer{i}": torch.randn(size) for i in range(TENSORS)}
    notes = {"round": "1"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        raw = pack(flat, notes)
        steps = {
            "digest of the tensors": lambda: digest(flat, notes),
            "checkpoint made, with its digest": lambda: pack(flat, notes),
            "checkpoint written to the disk": lambda: write(path, raw),
            "checkpoint read and proven": lambda: unpack(path),
            "digest of the file, in verify": lambda: digest_of_file(path),
        }
        for name, act in steps.items():
            print(f"{name:34} {least(act) * 1000:8.1f} ms", flush=True)


if __name__ == "__main__":
    main()
