"""One process, many clients: one at a time on every core, or a whole cohort in one vmapped call."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from unalike import rng, tree
from unalike.engine import threads
from unalike.engine.client.beginning import Beginning, begun
from unalike.engine.client.round import Keys, Lists, Own, Turns, turns
from unalike.engine.client.rows import extended
from unalike.engine.client.states import InMemory, States
from unalike.engine.compiled.calls import Calls
from unalike.engine.compiled.capture import Capture
from unalike.engine.compiled.cuda_graphs import Graphs
from unalike.engine.compiled.fusing import Fused
from unalike.engine.compiled.lazy import Part
from unalike.engine.compiled.traced import Traced
from unalike.engine.evaluation.client import Examiner
from unalike.engine.evaluation.judging import USUAL, Exam
from unalike.engine.evaluation.newcomers import Newcomers
from unalike.engine.simulation.chunks import (
    AT_ONCE,
    AT_ONCE_BYTES,
    FEW_BYTES,
    LITTLE_BYTES,
    calls,
    chunks,
    most,
)
from unalike.engine.simulation.crew import Workers
from unalike.engine.simulation.one_by_one import one_by_one
from unalike.engine.simulation.prefetch import Foresight, Prepared
from unalike.engine.simulation.vmapped import Answers, one_server, together
from unalike.engine.transport import Ahead, Clients, Opening, Replies, Work
from unalike.errors import ConfigError
from unalike.federation.data import Examples, Federation, Rows
from unalike.generator import refuse_draws, states
from unalike.native.program import Crew
from unalike.parts.mixing.questions import Own as Asked
from unalike.parts.mixing.questions import Question
from unalike.parts.participation.schedule import Plan
from unalike.recipe import Recipe
from unalike.tasks import Judged
from unalike.tree import Params, Tree

Engine = Literal["sequential", "vectorized"]
T = TypeVar("T")


class Simulation:
    """A transport to clients that live in this process."""

    sums = None  # a simulation sees everything anyway

    def __init__(
        self,
        recipe: Recipe,
        examples: Examples,
        rows: Rows,  # the training rows of each client
        w: Params,
        n_clients: int,
        *,
        seed: int = 0,
        engine: Engine = "vectorized",
        device: torch.device = torch.device("cpu"),
        workers: int = 1,
        graphs: bool = True,  # on a GPU: record a local step and replay it
        compiled: int = 0,  # on a GPU: in how many clients' calls local steps are compiled
        traced: bool = False,  # on a CPU: trace a local step and loop without Python
        native: bool = False,  # and compile it, where there is a compiler
        chunk: int = 0,  # the most clients in one vmapped call; 0: what is fast and fits
        states: States | None = None,
        federation: Federation | None = None,  # whose rows are for testing, where any are
        exam: Exam = USUAL,
    ) -> None:
        """Moves the data to the device once."""
        self.recipe, self.examples, self.rows, self.seed = recipe, examples, rows, seed
        self.engine, self.device, self.workers = engine, device, workers
        self.x, self.y = examples.x.to(device), examples.y.to(device)
        self.sizes = torch.from_numpy(np.diff(rows.start)[:n_clients])
        self.clients = Clients(n_clients, self.sizes)
        self.keys = Keys.of(seed, device)
        self.states: States = InMemory(n_clients) if states is None else states
        self._largest = chunk
        self.federation, self.exam, self._now = federation, exam, 0
        self.beside: Callable[..., Answers] | None = None  # trains clients of other runs as well
        self.fuse: Callable[[Any], Any] | None = None
        if compiled:
            self.fuse = partial(Fused, clients=compiled)
        self.repeat: Graphs | None = None
        self.calls: Calls | None = None
        if graphs and device.type == "cuda":
            room = torch.cuda.get_device_properties(device).total_memory // 8
            self.repeat = Graphs(Capture(device), room)
            self.calls = Calls(Capture(device), device, room // 4)
        self.traced = Traced(native=native) if traced and device.type == "cpu" else None
        self._pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
        self._crew = Workers(self._pool, workers)
        self.begin(Opening(recipe, w))

    def begin(self, opening: Opening) -> None:
        """Clients start with its recipe and model; their lists grow where it repeats rows."""
        recipe = opening.recipe
        if why := recipe.misfit(self.x):
            raise ConfigError(why)
        before = self.recipe.algorithm if opening.onward else None
        self.recipe, self.w = recipe, tree.to(opening.w, self.device)
        self.lazy: dict[bool, bool] = {}  # for clients of one server, and of several: whether steps
        # may be delayed until it is known what is needed
        for recordings in (self.repeat, self.calls):
            if recordings is not None:
                recordings.clear()
        everybody = range(self.clients.n)
        order, start, altered = extended(recipe, self.examples, self.rows, everybody, self.seed)
        self.order, self.altered = order.to(self.device), altered.to(self.device)
        self.start = start
        self.starts, self.lengths = torch.from_numpy(start[:-1]), torch.from_numpy(np.diff(start))
        # A batch may be larger than any client's data; padding up to it would fill the memory.
        self.batch_size = min(recipe.batch_size, int(self.lengths.max()))
        example = self.x[:1].numel() * self.x.element_size()
        fits = most(tree.size_bytes(self.w), self.batch_size * example, self.device)
        fast = 1024 if self.device.type == "cuda" else 64
        self.chunk = min(self._largest or fast, fits)
        fitting = AT_ONCE_BYTES // max(tree.size_bytes(self.w), 1)
        self._at_once = min(AT_ONCE, max(fitting, self.workers))
        who = Foresight.of(recipe.schedule, self.clients.n, self.seed)
        self._next = Prepared(self._turns, who, self.device)
        first = Beginning(recipe, self.w, self.keys.init)
        begun(self.states, first, self.clients.n, before)
        self._examiner = None if self.federation is None else self._made_examiner(self.federation)

    def _made_examiner(self, federation: Federation) -> Examiner:
        return Examiner(
            federation,
            self.recipe.algorithm,
            self.x,
            self.y,
            rng.stream(self.seed, "evaluation"),
            lambda ids: self.states.get(ids).mine,
            self.recipe.topology.home(self.clients.n),
            self.each,
            vectorized=self.engine == "vectorized" and not self.shared_out,
            chunk=self.chunk,
            workers=self.workers,
            exam=self.exam,
        )

    @property
    def examiner(self) -> Examiner:
        """The clients' side of evaluation in this stage."""
        assert self._examiner is not None, "a simulation that judges is given its federation"
        return self._examiner

    def evaluate(self, downs: Tree, models: Sequence[Params | None]) -> dict[str, Judged]:
        """Every section that is tested on clients' rows."""
        found, data = self.examiner.evaluate(downs, models), self.federation
        if self.exam.steps and data is not None and data.n_new and "new" in found:
            whole = [self.mean_weights(downs) if w is None else w for w in models]
            draws = self.examiner.noise, self.keys, self.exam.steps, self.each
            join = Newcomers(self.recipe, data, self.x, self.y, *draws)
            found |= join.evaluate(self._now, downs, whole)
        return found

    def ensemble(self, downs: Tree, x: Tensor, noise: Tensor, how: str) -> Tensor:
        """The clients' own models together on rows of the server's."""
        return self.examiner.ensemble(downs, x, noise, how)

    def mean_weights(self, downs: Tree) -> Params:
        """The plain mean of the clients' own models."""
        return self.examiner.mean_weights(downs)

    def in_flight(self) -> dict[int, Params]:
        """Server -> the mean of the models its clients keep after this round."""
        return self.examiner.in_flight(self.states.trained)

    def survey(self, questions: tuple[Question, ...]) -> dict[str, Tensor]:
        """Every client's answers about its training examples, stacked."""
        n, rows = self.clients.n, self.rows
        labels = self.examples.strata[rows.order.numpy()]
        own = [labels[a:b] for a, b in zip(rows.start[:n], rows.start[1:], strict=False)]
        keys = rng.fold_in(rng.stream(self.seed, "survey"), torch.arange(n))

        def answer(q: Question, i: int) -> np.ndarray:
            def features() -> Tensor:
                return self.x[rows.of(i).to(self.device)]

            return q.answer(Asked(own[i], self.examples.classes, features), keys[i])

        def answers(q: Question) -> list[np.ndarray]:
            return [answer(q, i) for i in range(n)]

        return {q.name: torch.from_numpy(np.stack(answers(q))) for q in questions}

    def train(self, t: int, plan: Plan, downs: Tree, home: Tensor) -> Iterator[Replies]:
        """Run every planned client, some at a time."""
        return self.summed(t, plan, downs, home, None)

    def summed(
        self, t: int, plan: Plan, downs: Tree, home: Tensor, ahead: Ahead | None
    ) -> Iterator[Replies]:
        """The same, and some answers may come summed."""
        if t != self._now:  # clients of one round may train one after the other
            self.states.settle()
        self._now = t
        if not len(plan.ids):  # another process has all of them
            return
        done: list[tuple[Tensor, Tree]] = []
        for part, pieces, found in self._computed(t, plan, downs, home, ahead):
            if self.calls is not None and len(part.ids) == len(plan.ids):
                self._next.prepare(t + 1)  # the device is at work, and the next line waits for it
            found = found.settled(ahead)
            work = self._work(part, found.stats, found.slots)
            done.append((part.ids, found.kept))
            numbers = {"examples": self.sizes[part.ids].float(), **found.stats}
            parts = found.parts or [Part(piece, None, []) for piece in pieces]
            for piece, one, totals in parts:  # of a call, as their sums are made
                ids, said = part.ids[piece], part.reply[piece]
                mine: Any = found.wire, numbers
                if len(parts) > 1:
                    mine = tree.map(lambda x: x[piece], mine)  # noqa: B023
                mine = mine if one is None else (one, mine[1])
                wire, told = mine if bool(said.all()) else tree.row(mine, said)
                length = None if found.lengths is None else found.lengths[piece][said]
                yield Replies(ids[said], wire, told, work, length, totals)
                work = Work()
        for ids, kept in done:  # at the end: an interrupted round leaves no client half done
            self.states.put(ids, kept)

    def _computed(
        self, t: int, plan: Plan, downs: Tree, home: Tensor, ahead: Ahead | None
    ) -> Iterator[tuple[Plan, list[slice], Answers]]:
        """What clients of each part of a plan answer; workers are one part ahead of the server."""
        if ahead is not None and not bool(plan.reply.all()):  # who does not answer is in no sum
            ahead = None
        begun = deque[tuple[Plan, list[slice], Callable[[], Answers]]]()
        whole = self._whole(plan, downs, ahead)
        for several in self._chunks(plan, whole):
            some = torch.cat(several)
            part = Plan(*(field[some] for field in plan))
            ends = list(accumulate(map(len, several), initial=0))
            pieces = [slice(a, b) for a, b in pairwise(ends)]
            mine = None if ahead is None else ahead.of(some, pieces)
            given = t, part, downs, home[part.ids], mine
            begun.append((part, pieces, self._begun(*given, self._crew if whole else None)))
            if len(begun) > (self.workers if self.shared_out else 1):
                part, pieces, answers = begun.popleft()
                yield part, pieces, answers()
        for part, pieces, answers in begun:
            yield part, pieces, answers()

    def _whole(self, plan: Plan, downs: Tree, ahead: Ahead | None) -> bool:
        """Whether workers share the clients of one call, and not the calls.

        That takes the Python of one call. It is so where steps wait and what is left is small, and
        where they do not wait, but all that is left is less work than the Python of another call.
        """
        if not self.shared_out:
            return False
        size = tree.size_bytes(self.w) * len(plan.ids)
        if not self.lazy.get(one_server(downs)):
            return size <= LITTLE_BYTES
        nothing_kept = ahead is not None and not tree.leaves(self.states.get(plan.ids[:1]))
        return size <= FEW_BYTES or nothing_kept

    def _begun(
        self,
        t: int,
        plan: Plan,
        downs: Tree,
        home: Tensor,
        ahead: Ahead | None,
        crew: Crew | None,
    ) -> Callable[[], Answers]:
        """Some clients at work, or about to be."""
        given, i = (plan, downs, home), plan.ids
        if self.engine == "vectorized" and not self.shared_out:
            call = together if self.beside is None else partial(self.beside, t)
            return lambda: call(self, *given, self.states.get(i), self._next(t, plan), ahead)
        kept, drawn, before = self.states.get(i), self._turns(t, plan), states()
        if self.engine == "sequential":
            found = one_by_one(self, self._pool, downs, home, kept, drawn)
        elif crew is not None:
            found = partial(together, self, *given, kept, drawn, ahead, crew)
        else:
            found = self._pool.submit(together, self, *given, kept, drawn, ahead).result
        return self._watched(t, found, before)

    @property
    def shared_out(self) -> bool:
        """Whether calls of many clients are shared out to workers of one core each."""
        return self.engine == "vectorized" and self.traced is not None

    @contextmanager
    def lone(self) -> Iterator[None]:
        """For a round: while workers have all cores, the server's thread goes without helpers."""
        with threads.lone() if self.engine == "sequential" or self.shared_out else nullcontext():
            yield

    def _work(self, plan: Plan, stats: dict[str, Tensor], slots: int) -> Work:
        """What clients did, taken out of what they report."""
        done = {name: float(stats.pop(name).sum()) for name in ("gradients", "looked", "samples")}
        return Work(done["samples"], done["gradients"], done["looked"], slots)

    def refuse(self, ids: Sequence[int]) -> None:
        """Clients whose answers were not used fall back to what they kept before the round."""
        self.states.roll_back(ids)

    def each(self, f: Callable[[T], Any], items: list[T]) -> list[Any]:
        """``f`` of every item, on all workers; each computes on a single thread."""
        return list(self._pool.map(f, items))

    def _chunks(self, plan: Plan, whole: bool) -> Iterator[list[Tensor]]:
        """Positions of the clients of one call, in pieces whose sums are made one by one."""
        if self.engine == "sequential":
            return ([some] for some in torch.arange(len(plan.ids)).split(self._at_once))
        if self.shared_out:
            size, how = max(tree.size_bytes(self.w), 1), (self.workers, self._largest)
            sizes, epochs = self.sizes[plan.ids].numpy(), plan.epochs.numpy()
            return calls(sizes, epochs, self.batch_size, size, *how, whole=whole)
        steps = torch.ceil(self.sizes[plan.ids] * plan.epochs / self.batch_size).numpy()
        overhead = 256 if self.device.type == "cuda" else 8
        # In the plan's order: answers of everybody in one call need not be put in place.
        return ([some.sort().values] for some in chunks(steps, self.chunk, overhead))

    def _turns(self, t: int, plan: Plan) -> Turns:
        """What planned clients do, drawn for all at once."""
        i = plan.ids
        starts, lengths, sizes = self.starts[i], self.lengths[i], self.sizes[i]
        lists = Lists(i, self.order, self.altered, starts, lengths, sizes)
        return turns(self.recipe, t, lists, plan, self.keys, self.batch_size)

    def _watched(
        self, t: int, answers: Callable[[], Answers], before: dict[str, Any]
    ) -> Callable[[], Answers]:
        """A module that drew numbers which no seed decides is noticed at the end."""

        def checked() -> Answers:
            found = answers()
            seeds = self.recipe.algorithm.task.network.seeds_global
            refuse_draws(before, seeds, f"round {t + 1}")
            return found

        return checked

    def own(self, i: int) -> Own:
        """A client's number and its training examples."""
        rows = slice(int(self.start[i]), int(self.start[i + 1]))
        size = int(self.rows.start[i + 1] - self.rows.start[i])
        return Own(i, self.x, self.y, self.order[rows], self.altered[rows], size)
