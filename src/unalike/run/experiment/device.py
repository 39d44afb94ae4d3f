"""The device of a run, set up so that repeating the run gives the same numbers."""

import ctypes
import os
import sys

import torch

from unalike.errors import ConfigError

# Of glibc's mallopt: the free memory above which some is given back, and the size from which memory
# is taken from the system and given back each time.
_KEPT = {-1: 2**31 - 1, -3: 1 << 30}
_HEAPS = -8  # and how many heaps there are at most
MANY = 64


def device(name: str) -> torch.device:
    """The device, if this machine has it."""
    try:
        found = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"engine.device '{name}' is unknown; use cpu, cuda or cuda:N.") from None
    if found.type not in ("cpu", "cuda"):
        raise ConfigError(f"engine.device '{name}' is not supported; use cpu, cuda or cuda:N.")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"engine.device is '{name}' but this machine has {torch.cuda.device_count()} CUDA "
            "devices; use cpu."
        )
    return found


def prepare(on: torch.device, tf32: bool, dense: bool = True) -> None:
    """Tell PyTorch what a GPU may do: no sums in random order, no rounded products.

    Where an operation has no repeatable kernel PyTorch warns, and a resumed run may differ. On a
    CPU freed memory is kept: a round frees what the next one needs, and touching a page for the
    first time takes ten times as long as computing on it. Only the first heap keeps its memory.
    Threads that train a ``dense`` network allocate a few times a round and share that heap; kernels
    of convolutions and recurrent layers allocate in every step and would wait for each other.
    """
    if on.type != "cuda":
        for option, value in {**_KEPT, _HEAPS: 1 if dense else MANY}.items():
            _allocator("mallopt", option, value)
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read at the first product
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    precision = "tf32" if tf32 else "ieee"
    torch.backends.cudnn.conv.fp32_precision = precision  # type: ignore[attr-defined]
    torch.backends.cuda.matmul.fp32_precision = precision
    # PyTorch loads its solvers at their first use, and fails if that is in two threads at once.
    torch.linalg.inv_ex(torch.ones(1, 1, device=on))


def give_back() -> None:
    """What was kept goes back to the system: a program continues after its run."""
    _allocator("malloc_trim", 0)


def _allocator(name: str, *args: int) -> None:
    """Tell the C library, where it is glibc or knows the same word."""
    if sys.platform == "linux" and (told := getattr(ctypes.CDLL(None), name, None)):
        told(*args)
