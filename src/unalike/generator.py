"""PyTorch's global generator, for code that insists on it: seeded by a key, one user at a time.

Everything in this package draws from keys (``rng.py``). A module of the user's own may call
``F.dropout`` or ``torch.randn``; then the generator is seeded for the length of that call and put
back afterwards, so that the same seed gives the same bytes, whatever else draws from it.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from unalike.errors import RunError
from unalike.rng import Key

_LOCK = threading.RLock()
TORCH = "PyTorch's global generator"


@contextmanager
def seeded(key: Key) -> Iterator[None]:
    """The global generator of the key's device, and the CPU's, as if just seeded by the key."""
    seed = int(key) & (2**63 - 1)
    devices = [key.device] if key.device.type == "cuda" else []
    with _LOCK, torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed(seed)
        yield


def draws(f: Callable[[], Any]) -> str:
    """The global generator that ``f`` draws from; empty if from none."""
    with _LOCK:
        before = states()
        f()
        return drawn_since(before)


def states() -> dict[str, Any]:
    """Where the global generators are, by name."""
    numpy = np.random.get_state(legacy=False)
    assert isinstance(numpy, dict), "what it is by definition"
    held = numpy.pop("state")  # of a generator of whatever kind: arrays and numbers
    inner = [x.tobytes() if isinstance(x, np.ndarray) else x for x in held.values()]
    return {
        TORCH: torch.default_generator.get_state().numpy().tobytes(),
        "NumPy's global generator": (numpy, inner),
        "Python's random module": random.getstate(),
    }


def drawn_since(before: dict[str, Any]) -> str:
    """The generator that is no longer where it was; empty if all are."""
    return next((name for name, state in states().items() if state != before[name]), "")


def refuse_draws(before: dict[str, Any], seeds: bool, when: str) -> None:
    """One sentence if a generator moved that no seed decides; PyTorch's may if a network seeds."""
    drawn = drawn_since(before)
    if drawn and not (seeds and drawn == TORCH):
        raise RunError(
            f"something drew from {drawn} in {when}, although the model did not when it was "
            "tried, so the run cannot be repeated; draw in every forward pass, or with "
            "nn.Dropout."
        )
