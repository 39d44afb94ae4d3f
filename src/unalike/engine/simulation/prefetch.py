"""The random draws of the next round's clients, made while a GPU is busy with the current round.

A plain cohort is a function of the round's number, so the next one is known, and draws are pure: if
a different cohort follows after all, its draws are made instead. They take a hundred small kernels.
On a separate stream nobody waits for them; before a round they would take a tenth of it.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch

from unalike import rng, tree
from unalike.engine.client.round import Turns
from unalike.parts.schedule import Plan, Sampled, Schedule
from unalike.rng import Key

Draws = Callable[[int, Plan], Turns]


class Foresight(NamedTuple):
    """Who will take part, if that depends on the round alone."""

    schedule: Schedule
    clients: int
    key: Key  # of the cohorts

    @classmethod
    def of(cls, schedule: Schedule, clients: int, seed: int) -> "Foresight":
        """As the server draws them."""
        return cls(schedule, clients, rng.stream(seed, "cohort"))

    def __call__(self, t: int) -> Plan | None:
        """The cohort of a round; None if it depends on what happens until then."""
        if type(self.schedule) is not Sampled:
            return None
        return self.schedule.plan(t, range(t, t + 1), self.clients, self.key)


class Prepared:
    """Draws of a round, made beforehand where they could be."""

    def __init__(self, draws: Draws, foreseen: Foresight, device: torch.device) -> None:
        """Nothing is drawn yet."""
        self._draws, self._foreseen, self._device = draws, foreseen, device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._held: tuple[int, Plan, Turns] | None = None

    def prepare(self, t: int) -> None:
        """Draw for the round of that number."""
        plan = self._foreseen(t)
        self._held = None if plan is None else (t, plan, self._beside(t, plan))

    def __call__(self, t: int, plan: Plan) -> Turns:
        """The draws of a cohort."""
        held, self._held = self._held, None
        if held is None or held[0] != t or not all(map(torch.equal, held[1], plan)):
            return self._draws(t, plan)
        return held[2]

    def _beside(self, t: int, plan: Plan) -> Turns:
        """Beside what the device computes, not behind it; whatever comes next waits for both."""
        if self._stream is None:
            return self._draws(t, plan)
        main = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            found = self._draws(t, plan)
        main.wait_stream(self._stream)
        for x in tree.leaves(found):
            if isinstance(x, torch.Tensor):
                x.record_stream(main)  # its memory is not free before that stream is done with it
        return found
