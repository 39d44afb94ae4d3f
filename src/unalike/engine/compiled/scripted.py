"""A traced step looped over by TorchScript's interpreter, which does not hold Python's lock."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unalike.engine.compiled.placing import Place
from unalike.engine.compiled.rewriting import Step, rewritten
from unalike.native.program import Crew

OPERATION = 1e-6  # seconds of an operation on few numbers, as measured on one core,
NUMBER = 1e-9  # and for each number that it reads or writes
ALONE = 1.5e-3  # seconds of a loop, below which waking others may take longer,
LONG = 1.0  # and above which whoever asked does not compute but waits, and can be interrupted


class _Loop(nn.Module):
    """Client after client, the step as often as each one takes it; compiled by TorchScript."""

    def __init__(
        self, before: nn.Module, step: nn.Module, owned: list[bool], turned: list[bool]
    ) -> None:
        super().__init__()
        self.before, self.step, self.owned, self.turned = before, step, owned, turned

    def forward(
        self,
        which: list[int],
        times: list[int],
        out: list[Tensor],
        start: list[Tensor],
        fixed: list[Tensor],
        now: list[Tensor],
        places: list[Tensor],
    ) -> None:
        for j in which:
            same = self.before([x.select(0, j) for x in fixed])
            seen = [x.select(0, j) for x in now]
            carry = [x.select(0, j) for x in start]
            for i, owned in enumerate(self.owned):
                if self.turned[i]:
                    carry[i] = carry[i].clone(memory_format=torch.channels_last)
                elif owned:  # every step writes into what will be handed back
                    carry[i] = out[i].select(0, j).copy_(carry[i])
            for s in range(times[j]):
                carry = self.step(carry, same, [x.select(0, s) for x in seen], places)
            for i, owned in enumerate(self.owned):
                if self.turned[i] or not owned:
                    out[i].select(0, j).copy_(carry[i])


class Scripted(NamedTuple):
    """A loop over one traced step, for any number of clients."""

    loop: Callable[..., None]
    now: list[int]  # which inputs of the moment it reads
    places: list[Place]  # memory that a step writes into
    cost: float = 0.0  # seconds of a step, about
    recurrent: bool = False  # whether it has a fused layer, which keeps what its backward pass
    # reads only while gradients are on

    def __call__(
        self,
        times: list[int],
        carry: list[Tensor],
        fixed: list[Tensor],
        now: list[Tensor],
        crew: Crew | None = None,
    ) -> list[Tensor]:
        """The carries after so many steps of each client; clients are a leading axis of all.

        A crew computes several clients at the same time, if that takes longer than waking it.
        """
        out = [x.new_empty(x.shape) for x in carry]
        read = [now[i] for i in self.now]
        seconds = sum(times) * self.cost
        if crew is not None and seconds < ALONE:
            crew = None
        groups = _groups(times, 1 if crew is None else crew.many)
        rest = iter(groups)

        def some() -> int:
            # Optimized, TorchScript would compute the first calls in another way than later ones.
            mode = torch.enable_grad() if self.recurrent else torch.inference_mode()
            with mode, torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
                for group in rest:  # of whoever is free
                    places = [place.taken() for place in self.places]
                    self.loop(group, times, out, carry, fixed, read, places)
            return 0

        if crew is None or (len(groups) == 1 and seconds < LONG):
            some()
        else:
            crew(some, seconds < LONG)
        return out


def scripted(step: Step, turned: list[bool]) -> Scripted:
    """The loop over a step, some leaves of whose carry have their channels last in memory."""
    cost = _cost(step)
    before, one, owned, read, places = rewritten(step)
    loop = _Loop(before, one, [i in owned for i in range(len(step.carry))], turned)
    for piece in (before, one):  # TorchScript would take the classes of all that is not a tensor
        plain = [name for name, x in vars(piece).items() if not isinstance(x, Tensor)]
        piece.__jit_ignored_attributes__ = plain  # type: ignore[assignment]
    recurrent = any("rnn" in str(node.target) for node in step.traced.graph.nodes)
    return Scripted(torch.jit.script(loop), read, places, cost, recurrent)


def _groups(times: list[int], many: int) -> list[list[int]]:
    """Clients of each of so many that compute: the longest first, to whoever has least to do.

    >>> _groups([5, 5, 5, 5], 2), _groups([10, 2, 3, 4], 2), _groups([3], 2)
    ([[0, 2], [1, 3]], [[0], [3, 2, 1]], [[0]])
    """
    groups = [list[int]() for _ in range(min(many, len(times)))]
    steps = [0] * len(groups)
    for j in sorted(range(len(times)), key=times.__getitem__, reverse=True):
        least = steps.index(min(steps))
        groups[least].append(j)
        steps[least] += times[j]
    return groups


def _cost(step: Step) -> float:
    """About how many seconds a step takes, by its operations and the numbers they go over."""
    seconds = 0.0
    for node in step.traced.graph.nodes:
        if node.op == "call_function" and node not in step.same:
            some = [n for n in node.all_input_nodes if n not in step.same]  # not all the data
            seen = (n.meta.get("val") for n in (node, *some))
            seconds += OPERATION + NUMBER * sum(x.numel() for x in seen if isinstance(x, Tensor))
    return seconds
