"""One process, many clients: one at a time on every core, or a whole cohort in one vmapped call."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from unalike import rng, tree
from unalike.algorithm import Ctx
from unalike.batches import Batches, Draw, Extent, alone, draw
from unalike.engine.chunks import chunks, most
from unalike.engine.graphs import Graphs
from unalike.engine.loop import Replies
from unalike.federation.data import Examples, Rows
from unalike.parts.mixing.base import Question
from unalike.parts.mixing.survey import ask
from unalike.parts.schedule import Plan
from unalike.recipe import Kept, Recipe, client
from unalike.tree import Params, Tree

WORK = ("gradients", "looked")  # what clients did, which is recorded but not sent
Engine = Literal["sequential", "vectorized"]
T = TypeVar("T")


@dataclass
class Simulation:
    """A transport to clients that live in this process."""

    recipe: Recipe
    examples: Examples
    rows: Rows  # the training rows of each client
    w: Params
    n_clients: int
    batch_size: int = 32
    seed: int = 0
    engine: Engine = "vectorized"
    device: torch.device = torch.device("cpu")
    workers: int = 1
    graphs: bool = True  # on a GPU: record a local step and replay it
    chunk: int = 0  # the most clients in one vmapped call; 0: what is fast and fits
    decay: Callable[[int], float] = lambda t: 1.0  # the learning-rate schedule
    kept: dict[int, Tree] = field(default_factory=dict)
    before: dict[int, Tree] = field(default_factory=dict, init=False)  # the last round's ``kept``

    def __post_init__(self) -> None:
        """Move the data to the device once; extend clients' lists if a transform repeats rows."""
        self.x = self.examples.x.to(self.device)
        self.y = self.examples.y.to(self.device)
        self.w = tree.to(self.w, self.device)
        self.sizes = torch.from_numpy(np.diff(self.rows.start)).to(self.device)
        order, start, altered = self._extended()
        self.order, self.altered = order.to(self.device), altered.to(self.device)
        self.starts = torch.from_numpy(start[:-1]).to(self.device)
        self.lengths = torch.from_numpy(np.diff(start)).to(self.device)
        self.streams = {
            name: rng.stream(self.seed, name).to(self.device)
            for name in ("batches", "noise", "init")
        }
        example = self.x[:1].numel() * self.x.element_size()
        fits = most(tree.size_bytes(self.w), self.batch_size * example, self.device)
        self.chunk = min(self.chunk or (1024 if self.device.type == "cuda" else 64), fits)
        self._repeat = Graphs(self.device) if self.graphs and self.device.type == "cuda" else None
        self._pool = ThreadPoolExecutor(
            self.workers, initializer=torch.set_num_threads, initargs=(1,)
        )

    def _extended(self) -> tuple[Tensor, np.ndarray, Tensor]:
        """Each client's rows followed by those its transform repeats; which ones are repeats."""
        transform, strata = self.recipe.transform, self.examples.strata
        if transform is None:
            return (
                self.rows.order,
                self.rows.start,
                torch.zeros(len(self.rows.order), dtype=torch.bool),
            )
        keys, parts, marks = rng.stream(self.seed, "batches"), [], []
        for k in range(self.n_clients):
            own = self.rows.of(k).numpy()
            again = transform.repeats(strata[own], self.examples.classes, rng.fold_in(keys, k))
            parts.append(np.concatenate([own, own[again]]))
            marks.append(np.arange(len(parts[-1])) >= len(own))
        start = np.concatenate([[0], np.cumsum([len(p) for p in parts])])
        return (
            torch.from_numpy(np.concatenate(parts)),
            start,
            torch.from_numpy(np.concatenate(marks)),
        )

    def survey(self, questions: tuple[Question, ...]) -> dict[str, Tensor]:
        """Every client's answers about its training examples, stacked."""
        labels = self.examples.strata[self.rows.order.numpy()]
        own = [labels[a:b] for a, b in zip(self.rows.start, self.rows.start[1:], strict=False)]
        keys = rng.fold_in(rng.stream(self.seed, "survey"), torch.arange(self.n_clients))

        def answer(q: Question, i: int) -> np.ndarray:
            def features() -> Tensor:
                return self.x[self.rows.of(i).to(self.device)]

            return ask(q, own[i], self.examples.classes, keys[i], features)

        def answers(q: Question) -> list[np.ndarray]:
            return [answer(q, i) for i in range(self.n_clients)]

        return {q.name: torch.from_numpy(np.stack(answers(q))) for q in questions}

    def train(self, t: int, plan: Plan, downs: list[Any], home: Tensor) -> Replies:
        """Run every planned client; answers come back in the plan's order."""
        ups: list[Tree] = []
        stats: list[dict[str, Tensor]] = []
        slots = used = 0
        done = dict.fromkeys(WORK, 0.0)
        order: list[Tensor] = []
        new: dict[int, Tree] = {}
        for some in self._chunks(plan):
            ids = plan.ids[some]
            ctx = self._contexts(t, plan, some)
            work = self._draw(t, ids, plan.epochs[some])
            down = downs[0] if len(downs) == 1 else tree.stack([downs[int(home[i])] for i in ids])
            run = self._vmapped if self.engine == "vectorized" else self._each
            up, numbers, kept = run(down, ids, work, ctx, shared=len(downs) == 1)
            for name in WORK:
                done[name] += float(numbers.pop(name).sum())
            numbers["examples"] = ctx.examples
            ups.append(up)
            stats.append(numbers)
            new.update(self._unstacked(ids, kept))
            order.append(some)
            slots, used = slots + work.real.numel(), used + int(work.real.sum())
        self.before = {i: self.kept[i] for i in new}
        self.kept.update(new)  # all at once: an interrupted round leaves no client half done
        back = torch.cat(order).argsort()
        said = plan.reply

        def gather(parts: list[Any]) -> Any:
            return tree.map(
                lambda *x: torch.cat(x)[back.to(x[0].device)][said.to(x[0].device)], *parts
            )

        worked = {"samples": float(used), "padding": 1 - used / slots if slots else 0.0, **done}
        return Replies(plan.ids[said], gather(ups), gather(stats), worked)

    def refuse(self, ids: list[int]) -> None:
        """Clients whose answers were not used fall back to what they kept before the round."""
        self.kept.update({i: self.before[i] for i in ids if i in self.before})

    def state(self, i: int) -> Tree:
        """What client ``i`` kept, or what it starts with."""
        if i not in self.kept:
            key = rng.fold_in(self.streams["init"], i)
            self.kept[i] = self.recipe.algorithm.client_init(self.w, key)
        return self.kept[i]

    def each(self, f: Callable[[T], Any], items: list[T]) -> list[Any]:
        """``f`` of every item, on all workers; each computes on a single thread."""
        return list(self._pool.map(f, items))

    def _chunks(self, plan: Plan) -> Iterator[Tensor]:
        steps = torch.ceil(self.sizes.cpu()[plan.ids] * plan.epochs / self.batch_size).numpy()
        if self.engine == "sequential":  # one draw for a bounded number of clients at a time
            return iter(torch.arange(len(plan.ids)).split(256))
        return chunks(steps, self.chunk, overhead=256 if self.device.type == "cuda" else 8)

    def _contexts(self, t: int, plan: Plan, some: Tensor) -> Ctx:
        ids = plan.ids[some].to(self.device)
        return Ctx(
            torch.tensor(t, device=self.device),
            rng.client(self.streams["noise"], t, ids),
            self.sizes[ids].float(),
            plan.role[some].to(self.device),
            plan.reply[some].to(self.device),
            torch.tensor(self.decay(t), device=self.device),
        )

    def _draw(self, t: int, ids: Tensor, epochs: Tensor) -> Draw:
        ids = ids.to(self.device)
        return draw(
            self.order,
            self.lengths[ids],
            self.starts[ids],
            budget=self.sizes[ids],
            epochs=epochs.to(self.device),
            batch_size=self.batch_size,
            keys=rng.client(self.streams["batches"], t, ids),
            altered=self.altered,
        )

    def _whole(self, ids: Tensor) -> Draw | None:
        """One pass over each client's own examples, where the received model is measured."""
        if not self.recipe.looks:
            return None
        ids = ids.to(self.device)
        sizes = self.sizes[ids]
        # Noise belongs to a place in a minibatch: with noise all chunks need the same minibatches.
        noisy = getattr(self.recipe.algorithm.task, "draws", 0) or self.recipe.mixing.gauges
        return draw(
            self.order,
            sizes,
            self.starts[ids],
            budget=sizes,
            epochs=torch.ones(len(ids), device=self.device),
            batch_size=256 if noisy else min(256, int(sizes.max())),
            keys=rng.client(self.streams["batches"], -1, ids),
        )

    def _vmapped(
        self, down: Any, ids: Tensor, work: Draw, ctx: Ctx, shared: bool
    ) -> tuple[Tree, dict[str, Tensor], Tree]:
        mine, whole = tree.stack([self.state(i) for i in ids.tolist()]), self._whole(ids)
        extent, extent_of_whole = Extent.of(work), whole and Extent.of(whole)
        axes = Ctx(round=None, key=0, examples=0, role=0, reply=0, rate=None)  # type: ignore[arg-type]

        def one(down: Any, mine: Any, work: Draw, whole: Draw | None, ctx: Ctx) -> Any:
            data = Batches(
                self.x,
                self.y,
                work,
                ctx.key,
                extent,
                transform=self.recipe.transform,
                repeat=self._repeat,
            )
            all_of_it = None
            if whole is not None and extent_of_whole is not None:
                all_of_it = Batches(
                    self.x, self.y, whole, ctx.key, extent_of_whole, repeat=self._repeat
                )
            return self._client(down, mine, data, all_of_it, ctx)

        return vmap(one, in_dims=(None if shared else 0, 0, 0, 0 if whole else None, axes))(
            down, mine, work, whole, ctx
        )

    def _each(
        self, down: Any, ids: Tensor, work: Draw, ctx: Ctx, shared: bool
    ) -> tuple[Tree, dict[str, Tensor], Tree]:
        mine, whole = [self.state(i) for i in ids.tolist()], self._whole(ids)
        extent, extent_of_whole = Extent.of(work), whole and Extent.of(whole)

        def one(j: int) -> Any:
            now = ctx._replace(
                key=ctx.key[j], examples=ctx.examples[j], role=ctx.role[j], reply=ctx.reply[j]
            )
            own, length = alone(work, extent, j)
            data = Batches(self.x, self.y, own, now.key, length, transform=self.recipe.transform)
            all_of_it = None
            if whole is not None and extent_of_whole is not None:
                part, length = alone(whole, extent_of_whole, j)
                all_of_it = Batches(self.x, self.y, part, now.key, length)
            return self._client(
                down if shared else tree.row(down, j), mine[j], data, all_of_it, now
            )

        return tuple(
            tree.stack(list(part))
            for part in zip(*self.each(one, list(range(len(ids)))), strict=True)
        )

    def _client(
        self, down: Any, mine: Any, data: Batches, whole: Batches | None, ctx: Ctx
    ) -> tuple[Any, dict[str, Tensor], Any]:
        nothing = ((),) * len(self.recipe.channel)
        wire, stats, kept = client(self.recipe, down, Kept(mine, nothing), data, whole, ctx)
        return wire, stats, kept.mine

    def _unstacked(self, ids: Tensor, kept: Tree) -> dict[int, Tree]:
        """Each client's new state; one that diverged keeps its last sound one."""
        if not tree.leaves(kept):
            return {}
        sound = torch.ones(len(ids), dtype=torch.bool)
        for leaf in tree.leaves(kept):
            if leaf.is_floating_point():
                sound &= torch.isfinite(leaf).reshape(len(ids), -1).all(1).cpu()
        return {
            i: tree.map(lambda x, j=j: x[j].clone(), kept)
            for j, i in enumerate(ids.tolist())
            if sound[j]
        }
