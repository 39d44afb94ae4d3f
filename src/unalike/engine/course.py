"""The stages of a run, one after the other, as one sequence of rounds.

A run is a program of stages (``recipe.Stage``): FedAvg and then a private part of the model, or an
autoencoder and then weights that it measures. Rounds have one numbering; a stage begins in its
first round, with the model that the previous stage ended with, and the cost of that is counted
there.
"""

from itertools import accumulate, pairwise
from typing import NamedTuple

from torch import Tensor

from unalike import rng, tree
from unalike.engine.loop import Loop, Round, State
from unalike.engine.server.guard import Guard
from unalike.engine.traffic.ledger import Traffic, opening
from unalike.engine.traffic.messages import completed, left
from unalike.engine.transport import Opening, Transport
from unalike.errors import ConfigError
from unalike.recipe import Program, Recipe
from unalike.tree import Params


class Progress(NamedTuple):
    """Where a run is."""

    stage: int
    state: State
    model: Params | None  # what the stage before left; None in the first


class Course:
    """A program over one transport."""

    def __init__(
        self, program: Program, transport: Transport, seed: int, guard: Guard, w: Params
    ) -> None:
        """Nothing is sent yet."""
        self.program, self.transport, self.seed, self.guard, self.w = (
            program,
            transport,
            seed,
            guard,
            w,
        )
        ends = accumulate((stage.rounds for stage in program), initial=0)
        self.spans = [range(a, b) for a, b in pairwise(ends)]
        self.judging = rng.stream(seed, "evaluation")
        self.loop = self.at(0, None)

    @property
    def rounds(self) -> int:
        """Of all stages together."""
        return self.spans[-1].stop

    def stage_of(self, t: int) -> int:
        """The stage that round ``t`` belongs to."""
        return next(s for s, span in enumerate(self.spans) if t in span)

    def recipe(self, stage: int, model: Params | None) -> Recipe:
        """The recipe of a stage, after one that arrived at ``model``."""
        made = self.program[stage].recipe
        if model is None:
            return made
        # Of a checkpoint it may be elsewhere, and a recorded call on a GPU cannot fetch it.
        return made.inherit(tree.to(model, next(iter(self.w.values())).device))

    def first(self, stage: int, model: Params | None) -> Params:
        """The weights that the server of a stage begins with."""
        inherits = self.program[stage].start != "fresh" and model is not None
        return model if inherits and model is not None else self.w

    def at(self, stage: int, model: Params | None) -> Loop:
        """The rounds of a stage, without informing the clients."""
        recipe = self.recipe(stage, model)
        return Loop(recipe, self.transport, self.spans[stage], self.seed, self.guard)

    def enter(self, stage: int, model: Params | None, onward: bool = False) -> Loop:
        """Begin a stage, or continue in the middle of it: clients and server take its recipe.

        If clients go ``onward``, each begins with the model that it was judged by so far.
        """
        self.loop = self.at(stage, model)
        w = completed(self.first(stage, model), self.w)
        self.transport.begin(Opening(self.loop.recipe, w, stage, model, onward))
        return self.loop

    def begin(self) -> Progress:
        """The first stage, and its survey."""
        return self._entered(0, None)

    def _entered(self, stage: int, model: Params | None) -> Progress:
        loop = self.enter(stage, model, self.program[stage].start == "own")
        return Progress(stage, loop.begin(self.first(stage, model)), model)

    def advance(self, progress: Progress, t: int) -> tuple[Progress, Round, Traffic]:
        """Round ``t``, and what was sent before it, if a stage begins with it."""
        span, before = self.spans[progress.stage], Traffic()
        if t == span.stop:
            first = tree.row(progress.state.stack, 0)
            start = self.program[progress.stage + 1].start
            model = left(self.loop.recipe.algorithm, first, self.judging, start)
            if model is None:
                raise ConfigError(
                    "a stage that leaves no shared model cannot be followed by another; "
                    "drop the stage after it."
                )
            progress = self._entered(progress.stage + 1, model)
            handed = self.loop.messages(self.first(progress.stage, model)).handed
            before += opening(
                self.loop.recipe.topology, self.transport.clients.n, tree.size_bytes(handed)
            )
        if t == self.spans[progress.stage].start:
            before += self.loop.asked
        state, done = self.loop.advance(progress.state, t)
        return progress._replace(state=state), done, before

    def model(self, progress: Progress) -> Params | None:
        """The shared model, if there is one."""
        first = tree.row(progress.state.stack, 0)
        return self.loop.recipe.algorithm.model(first, self.judging)

    def products(self, progress: Progress) -> dict[str, dict[str, Tensor]]:
        """What the method has made beside the model, by name."""
        first = tree.row(progress.state.stack, 0)
        return self.loop.recipe.algorithm.products(first)
