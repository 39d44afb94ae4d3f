"""Several processes that compute one run together, and what each sends to all others."""

import os
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from unalike import tree
from unalike.errors import ConfigError, RunError
from unalike.tree import Tree

T = TypeVar("T")
PATIENCE = timedelta(minutes=30)  # for the slowest; a process that ended is noticed at once


class Ranks(Protocol):
    """One of several processes that all compute the same, but for their own share of clients."""

    rank: int
    size: int
    local: int  # how many of them are on this machine

    def exchange(self, raw: bytes) -> list[bytes]:
        """What every process says, by rank."""
        ...

    def sum(self, part: Tree) -> Tree:
        """The sum of every process's part; all have the same bits of it."""
        ...


class Torchrun:
    """Processes that ``torchrun`` or Slurm started."""

    def __init__(self) -> None:
        """Meets the others; the environment says where."""
        needed = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")
        missing = [name for name in needed if name not in os.environ]
        if missing:
            raise ConfigError(
                f"--distributed needs processes that know of each other ({missing[0]} is not "
                "set); start them with: torchrun --nproc-per-node 2 -m unalike run FILE "
                "--distributed."
            )
        _take_one_gpu()
        _heard(lambda: dist.init_process_group("gloo", timeout=PATIENCE))
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # of them on this machine

    def exchange(self, raw: bytes) -> list[bytes]:
        """Lengths first, then everything, padded to the longest."""
        size = torch.tensor([len(raw)])
        sizes = [torch.zeros_like(size) for _ in range(self.size)]
        _heard(lambda: dist.all_gather(sizes, size))
        longest = max(int(n) for n in sizes)
        mine = torch.zeros(max(longest, 1), dtype=torch.uint8)
        if raw:
            mine[: len(raw)] = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        _heard(lambda: dist.all_gather(found, mine))
        return [x[: int(n)].numpy().tobytes() for x, n in zip(found, sizes, strict=True)]

    def sum(self, part: Tree) -> Tree:
        """One all-reduce for each type of number."""
        leaves, structure = tree.flatten(part)
        total: dict[int, Tensor] = {}
        for dtype in dict.fromkeys(x.dtype for x in leaves):
            some = [i for i, x in enumerate(leaves) if x.dtype == dtype]
            flat = torch.cat([leaves[i].reshape(-1) for i in some]).cpu()
            _heard(lambda: dist.all_reduce(flat))  # noqa: B023
            parts = flat.split([leaves[i].numel() for i in some])
            total |= {i: x.reshape(leaves[i].shape) for i, x in zip(some, parts, strict=True)}
        found = [total[i].to(x.device) for i, x in enumerate(leaves)]
        return tree.unflatten(found, structure)

    def close(self) -> None:
        """Part from the others."""
        dist.destroy_process_group()


def _take_one_gpu() -> None:
    """Each process of a machine sees one GPU, in turn, and so do the processes that it starts."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES") or ""
    there = seen.split(",") if seen else [str(i) for i in range(torch.cuda.device_count())]
    if there:
        os.environ["CUDA_VISIBLE_DEVICES"] = there[int(os.environ["LOCAL_RANK"]) % len(there)]


def _heard(call: Callable[[], Any]) -> None:
    try:
        call()
    except (RuntimeError, ValueError) as error:  # the back end's words name sockets
        why = re.sub(r"\[/\S+\] |\. This is.*|, remote=.*", "", str(error).partition("\n")[0])
        raise RunError(
            f"another process of this run was lost ({why}); start all of them again, and the run "
            "continues from its last checkpoint."
        ) from None
