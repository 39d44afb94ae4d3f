"""A traced step looped over by TorchScript's interpreter, which does not hold Python's lock."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unalike.engine.compiled.placing import Place
from unalike.engine.compiled.rewriting import Step, rewritten


class _Loop(nn.Module):
    """Client after client, the step as often as each one takes it; compiled by TorchScript."""

    def __init__(
        self, before: nn.Module, step: nn.Module, owned: list[bool], turned: list[bool]
    ) -> None:
        super().__init__()
        self.before, self.step, self.owned, self.turned = before, step, owned, turned

    def forward(
        self,
        times: list[int],
        out: list[Tensor],
        start: list[Tensor],
        fixed: list[Tensor],
        now: list[Tensor],
        places: list[Tensor],
    ) -> None:
        for j in range(len(times)):
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
    recurrent: bool = False  # whether it has a fused layer, which keeps what its backward pass
    # reads only while gradients are on

    def __call__(
        self, times: list[int], carry: list[Tensor], fixed: list[Tensor], now: list[Tensor]
    ) -> list[Tensor]:
        """The carries after so many steps of each client; clients are a leading axis of all."""
        out = [x.new_empty(x.shape) for x in carry]
        read = [now[i] for i in self.now]
        # Optimized, TorchScript would compute the first calls in another way than later ones.
        mode = torch.enable_grad() if self.recurrent else torch.inference_mode()
        with mode, torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            self.loop(times, out, carry, fixed, read, [place.taken() for place in self.places])
        return out


def scripted(step: Step, turned: list[bool]) -> Scripted:
    """The loop over a step, some leaves of whose carry have their channels last in memory."""
    before, one, owned, read, places = rewritten(step)
    loop = _Loop(before, one, [i in owned for i in range(len(step.carry))], turned)
    recurrent = any("rnn" in str(node.target) for node in step.traced.graph.nodes)
    return Scripted(torch.jit.script(loop), read, places, recurrent)
