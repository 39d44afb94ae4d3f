"""A compiled program as a function of tensors."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

ALIGNED = 64  # bytes
STEP = 64 << 10  # bytes of weights that take as long as what a step has to do beside them
ALONE = 16 << 20  # bytes of weights over all steps, below which waking others takes longer,
LONG = 4 << 30  # and above which whoever asked does not compute but waits, and can be interrupted


class Crew(Protocol):
    """Everyone who computes."""

    @property
    def many(self) -> int:
        """How many they are."""
        ...

    def __call__(self, f: Callable[[], int], here: bool) -> list[int]:
        """``f`` by each of them; the thread that asks is one of them if it is done ``here``."""
        ...


class Ways(NamedTuple):
    """What clients are to leave of a leaf of their carry."""

    itself: bool  # the leaf at the end
    start: Tensor | None = None  # the difference from this, clients in front


class Summing(NamedTuple):
    """That differences are to be summed."""

    u: Tensor  # [n] what each counts, in double precision
    longest: float  # the length of all differences of a client up to which they may be
    pieces: Sequence[slice]  # of which a sum is made


class Left(NamedTuple):
    """What clients left."""

    carry: list[Tensor | None]
    ways: list[Tensor | None]  # of every client, or the sum over each piece
    lengths: Tensor  # [n] of all ways of a client, in double precision; not finite in a sum that
    # was given up


class Native(NamedTuple):
    """Clients and their steps, one after the other, without Python and its lock."""

    run: Any  # the function of the program
    now: list[int]  # which inputs of the moment it reads
    constants: list[Tensor]
    bytes: int  # of memory for results of a step,
    carried: int  # and for one client's carry

    def __call__(
        self,
        times: list[int],
        carry: list[Tensor],
        fixed: list[Tensor],
        now: list[Tensor],
        crew: Crew | None = None,
    ) -> list[Tensor]:
        """The carries after so many steps of each client; clients are a leading axis of all."""
        ways = [Ways(itself=True)] * len(carry)
        whole = self.left(times, carry, fixed, now, ways, None, crew)
        return [x for x in whole.carry if x is not None]

    def left(
        self,
        times: list[int],
        carry: list[Tensor],
        fixed: list[Tensor],
        now: list[Tensor],
        ways: list[Ways],
        summing: Summing | None = None,
        crew: Crew | None = None,
    ) -> Left:
        """What is asked for of every leaf; a crew computes several clients at the same time."""
        n, nothing = len(times), torch.empty(0)
        both = list(zip(carry, ways, strict=True))
        out = [x.new_empty(x.shape) if w.itself else nothing for x, w in both]
        starts = [nothing if w.start is None else w.start for w in ways]
        many = n if summing is None else len(summing.pieces)
        gone = [nothing if w.start is None else x.new_empty((many, *x.shape[1:])) for x, w in both]
        some = n if any(len(x) for x in starts) else 0
        lengths = torch.full((some,), torch.inf, dtype=torch.float64)
        moment = [now[i] for i in self.now]
        tensors = [*out, *carry, *fixed, *moment]
        strides = [_bytes_between(x, 0) for x in tensors] + [0] * len(self.constants)
        strides += [_bytes_between(x, 1) for x in moment]
        strides += [_bytes_between(x, 0) for x in (*starts, *gone)]
        more = [nothing, lengths, nothing]
        if summing is not None:
            longest = torch.tensor(summing.longest, dtype=torch.float64)
            more = [summing.u, lengths, longest]
        pointers = [_address(x) for x in (*tensors, *self.constants, *starts, *gone, *more)]
        hidden = self.carried if len(out) > sum(w.itself for w in ways) else 0
        given = *map(_numbers, (_plan(times, summing), pointers, strides)), _numbers([0])
        work = sum(times) * (self.carried + STEP)
        self._run(given, self.bytes + hidden, work, crew if work > ALONE else None)
        itself = [x if w.itself else None for x, w in zip(out, ways, strict=True)]
        went = [x if w.start is not None else None for x, w in zip(gone, ways, strict=True)]
        return Left(itself, went, lengths)

    def _run(self, given: tuple[Any, ...], size: int, work: int, crew: Crew | None) -> None:
        """In memory of so many bytes for every one that computes."""
        plan, pointers, strides, taken = given

        def some() -> int:
            own = torch.empty(size + ALIGNED, dtype=torch.uint8)
            at = -(-own.data_ptr() // ALIGNED) * ALIGNED
            return int(self.run(plan, pointers, strides, at, taken))

        failed = some() if crew is None else max(crew(some, work < LONG))
        if failed:
            what = "a label is not one of the classes" if failed == 1 else "a row is not there"
            raise IndexError(f"{what}, so no loss can be computed.")


def _plan(times: list[int], summing: Summing | None) -> list[int]:
    """Units, where each ends in the order of clients, that order, and the steps of each client.

    A client is a unit, the longest first, so that all that compute finish together; or the clients
    of a sum are.
    """
    n = len(times)
    if summing is None:
        order = sorted(range(n), key=times.__getitem__, reverse=True)
        return [n, *range(n + 1), *order, *times]
    ends = [p.stop for p in summing.pieces]
    return [len(ends), 0, *ends, *range(n), *times]


def _bytes_between(x: Tensor, axis: int) -> int:
    return x.stride(axis) * x.element_size() if x.numel() else 0


def _address(x: Tensor) -> int:
    """None where there is nothing, which is not the same as what PyTorch says of an empty one."""
    return x.data_ptr() if x.numel() else 0


def _numbers(x: list[int]) -> Any:
    return (ctypes.c_int64 * len(x))(*x)
