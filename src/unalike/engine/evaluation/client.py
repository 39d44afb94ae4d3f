"""The clients' side of evaluation: rows are tested where they are, and only metrics leave.

train        every client's personal model on its own training rows, if asked for
validation   the same on its validation rows
local        the same on its test rows
local@0.3    its model at a point of the line from the shared one to its own, if asked for; and so
             validation@0.3
new          the servers' models on the rows of whole clients that never trained
global       the servers' models on the test rows of all training clients together, one value for
             each model; only where the data have no test set of their own, which a server holds

A method in which only the clients hold whole models (LG-FedAvg) is judged on the last two by the
ensemble of the clients, in which every client counts the same.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.utils.rnn import pad_sequence

from unalike import rng, tree
from unalike.algorithm import Algorithm
from unalike.engine.evaluation import interpolation
from unalike.engine.evaluation.judging import (
    MANY,
    USUAL,
    Each,
    Exam,
    at_once,
    judging,
    merged,
    outputs,
    side_by_side,
)
from unalike.engine.evaluation.probe import Probe
from unalike.errors import ConfigError
from unalike.federation.data import TEST, TRAIN, VALIDATION, Federation, Rows
from unalike.rng import Key
from unalike.tasks import Judged
from unalike.tree import Params, Tree

Weights = Callable[[Tensor], Params]  # some clients' models, stacked


class Examiner:
    """Judges models on the rows that clients hold."""

    def __init__(
        self,
        federation: Federation,
        algorithm: Algorithm,
        x: Tensor,
        y: Tensor,
        key: Key,
        kept: Callable[[Tensor], Tree],
        home: Tensor,
        each: Each,
        *,
        vectorized: bool,
        chunk: int,
        workers: int = 1,
        exam: Exam = USUAL,
        lone: bool = False,
    ) -> None:
        """The rows of each section are gathered once.

        Args:
            federation: Whose rows are whose.
            algorithm: What makes a client's model of a download and of what it kept.
            x: The features of all rows, on the device that computes.
            y: Their targets.
            key: For what judging draws.
            kept: What some clients keep, stacked; the method's own part of it.
            home: The server of each client that trains; a pooled run has a single one for all.
            each: A function of every item, on all threads.
            vectorized: Whether clients are computed many in one call.
            chunk: How many.
            workers: The threads of ``each``.
            exam: What is judged.
            lone: Whether other clients are judged elsewhere, so that this one may have no test row.
        """
        self.algorithm, self.task, self.kept = algorithm, algorithm.task, kept
        self.x, self.y, self.home, self.each = x, y, home, each
        self.vectorized, self.chunk, self.workers = vectorized, chunk, workers
        self.servers, self.points = int(home.max()) + 1, interpolation.points(exam.line)
        self.how, train = exam.ensemble, exam.train
        n, new = federation.n_clients, federation.n_new
        # A pooled run has one client for all.
        self.acts_as = torch.arange(n) if len(home) == n else torch.zeros(n, dtype=torch.long)
        self.sizes = torch.from_numpy(federation.sizes(TRAIN))
        parts = {"train": TRAIN, "validation": VALIDATION, "local": TEST}
        self.judging = judging(n, exam.clients)
        own = {name: _of_clients(federation, part, 0, self.judging) for name, part in parts.items()}
        known, strange = own["local"], _of_clients(federation, TEST, n, n + new)
        self.own = {k: v for k, v in own.items() if len(v.order) and (train or k != "train")}
        self.strangers = strange if len(strange.order) else None
        self.pooled = known if federation.examples.test_x is None else None
        if lone and not len(known.order):
            self.pooled = None
        if self.pooled is not None and not len(self.pooled.order):
            raise ConfigError(
                "there is nothing to test on: no client has a test row and the data have no "
                "separate test set; raise split.test or use fewer clients."
            )
        self.probe: Probe | None = None
        if exam.adversary:
            self.probe = Probe(self.task, federation.examples.protected, tuple(x.shape[1:]))
        self.learn, self.key = own["train"], key
        self._seen: list[tuple[Rows, Params, Tensor]] = []  # what models said in an evaluation
        # What judging draws belongs to the row, so that it is the same for every engine and model.
        self.noise = rng.normal(rng.fold_in(key.to(x.device), 0), len(x), self.task.draws)

    def evaluate(self, downs: Tree, models: Sequence[Params | None]) -> dict[str, Judged]:
        """Every section, from what the servers send (stacked) and the models they have.

        Models are one for each server, or one for all; of others only ``global`` is judged.
        """
        self._seen.clear()
        if len(models) not in (1, self.servers):
            rows = self.pooled
            return {} if rows is None else {"global": self._together(rows, downs, models)}
        found = {name: self._own(rows, downs, models) for name, rows in self.own.items()}
        if self.points and self.algorithm.personal_models and models[0] is not None:
            found |= self._line(downs, tree.stack(list(models)))
        if self.probe is not None and "local" in found:
            found["local"].metrics.update(self._told(self.probe, downs, models))
        if self.pooled is not None:
            found["global"] = self._together(self.pooled, downs, models)
        if self.strangers is not None:
            rows = self.strangers
            y, said = self.y[self._at(rows)], self._shared(rows, downs, models, apart=True)
            each = [self.task.judge(out, y, rows.owner, len(rows.sizes)) for out in said]
            found["new"] = merged(side_by_side(each), len(each))
        self._seen.clear()
        return found

    def _together(self, rows: Rows, downs: Tree, models: Sequence[Params | None]) -> Judged:
        """Every model on rows whose clients do not matter."""
        one = torch.zeros(len(rows.order), dtype=torch.long)
        y, said = self.y[self._at(rows)], self._shared(rows, downs, models)
        return side_by_side([self.task.judge(out, y, one, 1) for out in said])

    def ensemble(self, downs: Tree, x: Tensor, noise: Tensor, how: str) -> Tensor:
        """What all clients' models say together of rows that a server sends."""

        def said() -> Iterator[Tensor]:
            def one(i: int) -> Tensor:
                return outputs(self.task, self.model(downs, i), x, noise)

            for part in torch.arange(len(self.home)).split(self.workers):
                yield from self.each(one, part.tolist())

        return self.task.merge(said(), how)

    def mean_weights(self, downs: Tree) -> Params:
        """The mean of all clients' models, leaf by leaf."""
        total, n = self.model(downs, 0), len(self.home)
        for i in range(1, n):
            total = tree.add(total, self.model(downs, i))
        mean: Params = tree.scale(1 / n, total)
        return mean

    @property
    def rows(self) -> int:
        """How many different models clients may be tested with."""
        return len(self.home) if self.algorithm.personal_models else self.servers

    @property
    def row_of(self) -> Tensor:
        """The model of each client among these."""
        return self.acts_as if self.algorithm.personal_models else self.home[self.acts_as]

    def personal(self, downs: Tree) -> Params | None:
        """All models that clients are tested with, stacked; None if it is the server's."""
        if self.algorithm.personal_models:
            parts = torch.arange(self.rows).split(self.chunk)
            own = [tree.to(self._weights(downs, ids), "cpu") for ids in parts]
            return tree.map(lambda *xs: torch.cat(xs), *own)
        first = [int((self.home == j).nonzero()[0, 0]) for j in range(self.servers)]
        each = [
            self.algorithm.personal(tree.row(downs, j), self._state(i)) for j, i in enumerate(first)
        ]
        return None if each[0] is None else tree.stack(each)

    def in_flight(self, trained: Tensor) -> dict[int, Params]:
        """Server -> the mean, by examples, of the models that its clients of a round keep."""
        means: dict[int, Params] = {}
        if not len(trained) or self.algorithm.flying(self._state(int(trained[0]))) is None:
            return means
        for j in self.home[trained].unique().tolist():
            own = trained[self.home[trained] == j]
            models, sizes = vmap(self.algorithm.flying)(self.kept(own)), self.sizes[own]
            means[j] = tree.mean((sizes / sizes.sum()).to(self.x.device), models)
        return means

    def _own(self, rows: Rows, downs: Tree, models: Sequence[Params | None]) -> Judged:
        """Each client's own model on its own rows, or that of its server if it has none."""
        if self.algorithm.personal_models:
            out = self._client_by_client(rows, partial(self._stacked, downs))
            return self.task.judge(out, self.y[self._at(rows)], rows.owner, len(rows.sizes))
        w = self.algorithm.personal(tree.row(downs, 0), self._state(0))
        if self.servers == 1:
            w = models[0] if w is None else w
            out = self._one(rows, w, apart=True)
            if w is not None and not self.task.network.batch_dependent:
                self._seen.append((rows, w, out))
        elif w is None:
            out = self._client_by_client(rows, partial(self._nearest, tree.stack(list(models))))
        else:
            out = self._client_by_client(rows, partial(self._stacked, downs))
        return self.task.judge(out, self.y[self._at(rows)], rows.owner, len(rows.sizes))

    def _nearest(self, models: Tree, clients: Tensor) -> Params:
        """The models of some clients' servers; ``models`` are one for each server, or for all."""
        near: Params = tree.row(
            models, self.home[self.acts_as[clients]] % len(tree.leaves(models)[0])
        )
        return near

    def _told(
        self, probe: Probe, downs: Tree, models: Sequence[Params | None]
    ) -> dict[str, Tensor]:
        """How well adversaries predict protected attributes from each client's representation."""
        test = self.own["local"]

        def one(i: int) -> list[float]:
            whole = models[int(self.home[self.acts_as[i]]) % len(models)]
            w = self.model(downs, int(self.acts_as[i]), whole)
            seen, unseen = (rows.of(i).to(self.x.device) for rows in (self.learn, test))
            return probe(w, self.x[seen], self.x[unseen], rng.fold_in(self.key, i))

        told = torch.tensor(self.each(one, list(range(len(test.sizes)))), dtype=torch.float64)
        return dict(zip(probe.names, told.T, strict=True))

    def _line(self, downs: Tree, models: Tree) -> dict[str, Judged]:
        """Every point of the line from a server's model to each client's own, on its own rows."""

        def at(point: float, clients: Tensor) -> Params:
            far = self._stacked(downs, clients, "far_end")
            mixed: Params = tree.lerp(self._nearest(models, clients), far, point)
            return mixed

        found = {}
        for name in (n for n in ("validation", "local") if n in self.own):
            rows = self.own[name]
            y, owner, n = self.y[self._at(rows)], rows.owner, len(rows.sizes)
            for point in self.points:
                out = self._client_by_client(rows, partial(at, point))
                found[interpolation.name(name, point)] = self.task.judge(out, y, owner, n)
        return found

    def _shared(
        self, rows: Rows, downs: Tree, models: Sequence[Params | None], apart: bool = False
    ) -> Iterator[Tensor]:
        """What each of the models says of rows, or the ensemble of the clients if there is none."""
        if models[0] is None:
            at = self._at(rows)
            yield self.ensemble(downs, self.x[at], self.noise[at], self.how)
            return
        for w in models:
            yield self._one(rows, w, apart)

    def _one(self, rows: Rows, w: Params | None, apart: bool) -> Tensor:
        """One model on the rows of many clients, kept ``apart`` if rows depend on one another."""
        assert w is not None, "either every server has a model, or every client has its own"
        if apart and self.task.network.batch_dependent:
            return self._client_by_client(
                rows, lambda ids: tree.map(lambda v: v.expand(len(ids), *v.shape), w)
            )
        for known, v, out in self._seen:  # common rows may be those that clients were tested on
            same = known is rows and v.keys() == w.keys()
            if same and all(torch.equal(v[k], x) for k, x in w.items()):
                return out
        return outputs(self.task, w, self.x, self.noise, self._at(rows), self.each)

    def _client_by_client(self, rows: Rows, weights: Weights) -> Tensor:
        busy = np.flatnonzero(rows.sizes)
        if self.vectorized:
            groups = np.array_split(busy, -(-len(busy) // self.chunk))
            return torch.cat([part for some in groups for part in self._group(rows, some, weights)])

        def alone(i: int) -> Tensor:
            at = rows.of(i).to(self.x.device)
            w = tree.row(weights(torch.tensor([i])), 0)
            return outputs(self.task, w, self.x, self.noise, at)

        return torch.cat(self.each(alone, busy.tolist()))

    def _group(self, rows: Rows, some: np.ndarray, weights: Weights) -> list[Tensor]:
        """The outputs of some clients, computed together, a bounded number of rows at a time."""
        task, device = self.task, self.x.device
        sizes = torch.from_numpy(rows.sizes[some])
        index = pad_sequence([rows.of(int(i)) for i in some], batch_first=True)
        real = torch.arange(index.shape[1]) < sizes[:, None]
        step = max(1, at_once(task.network, device) // len(some))
        if task.network.batch_dependent:
            step = MANY

        def said(w: Params, at: Tensor, real: Tensor) -> Tensor:
            return task.outputs(w, self.x[at], self.noise[at], real)

        w = weights(torch.from_numpy(some))
        parts = zip(index.to(device).split(step, 1), real.to(device).split(step, 1), strict=True)
        with torch.no_grad():
            out = torch.cat([vmap(said)(w, *part) for part in parts], 1)
        return [out[j, :n] for j, n in enumerate(sizes.tolist())]

    def _stacked(self, downs: Tree, clients: Tensor, which: str = "personal") -> Params:
        """The personal weights of some clients, or the ends of their lines, stacked."""
        return self._weights(downs, self.acts_as[clients], which)

    def _weights(self, downs: Tree, ids: Tensor, which: str = "personal") -> Params:
        of = getattr(self.algorithm, which)
        own = vmap(of)(tree.row(downs, self.home[ids]), self.kept(ids))
        assert own is not None, "a client is tested with its own model or with the server's"
        return own

    def model(self, downs: Tree, i: int, shared: Params | None = None) -> Params:
        """The personal weights of one client; ``shared`` if it is tested with its server's."""
        w = self.algorithm.personal(tree.row(downs, int(self.home[i])), self._state(i))
        w = shared if w is None else w
        assert w is not None, "either every server has a model, or every client has its own"
        return w

    def _state(self, i: int) -> Tree:
        return tree.row(self.kept(torch.tensor([i])), 0)

    def _at(self, rows: Rows) -> Tensor:
        return rows.order.to(self.x.device)


def _of_clients(federation: Federation, part: int, first: int, last: int) -> Rows:
    """The rows of clients first..last-1, renumbered from zero."""
    rows = federation.rows(part)
    start = rows.start[first : last + 1]
    return Rows(rows.order[int(start[0]) : int(start[-1])], start - start[0])
