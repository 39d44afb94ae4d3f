"""The device of a run, set up so that the same run gives the same numbers there again."""

import os

import torch

from unalike.errors import ConfigError


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


def prepare(on: torch.device, tf32: bool) -> None:
    """Tell PyTorch what a GPU may do: no sum whose order is left to chance, no rounded products.

    Where an operation has no repeatable kernel PyTorch warns, and a resumed run may differ.
    """
    if on.type != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read at the first product
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    precision = "tf32" if tf32 else "ieee"
    torch.backends.cudnn.conv.fp32_precision = precision  # type: ignore[attr-defined]
    torch.backends.cuda.matmul.fp32_precision = precision
    # PyTorch loads its solvers at their first use, and fails if that is in two threads at once.
    torch.linalg.inv_ex(torch.ones(1, 1, device=on))
