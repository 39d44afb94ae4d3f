"""The evaluation protocol: local, global and new-client tests side by side, one rule for all.

local       every client's personal model on its own validation and test rows
global      the servers' model on data of no known client: the dataset's own test set if it has
            one, else the pooled test rows of all training clients
new         the servers' model on whole clients that never trained

A method in which only the clients hold whole models (LG-FedAvg) is judged on the last two by the
ensemble of the clients: the mean of their class probabilities.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from unalike import rng, tree
from unalike.engine.loop import Loop, State
from unalike.engine.simulate import Simulation
from unalike.federation.data import TEST, VALIDATION, Federation, Rows
from unalike.metrics.classification import per_client
from unalike.metrics.fairness import summarise
from unalike.tree import Params

AT_ONCE = 4096  # rows in one forward pass
LOWER_IS_BETTER = frozenset({"loss", "ece", "mce"})


@dataclass(frozen=True)
class Evaluation:
    """Every metric of every client, and its spread, by section of the protocol."""

    clients: dict[str, dict[str, list[float]]]  # section -> metric -> one value per client
    spread: dict[str, dict[str, dict[str, float]]]  # section -> metric -> summary


class Evaluator:
    """Judges a state of the servers and the clients' kept states."""

    def __init__(self, federation: Federation, simulation: Simulation, loop: Loop, seed: int):
        """The rows of each section are gathered once."""
        self.federation, self.simulation, self.loop = federation, simulation, loop
        self.algorithm = simulation.recipe.algorithm
        self.task = self.algorithm.task
        self.key = rng.stream(seed, "evaluation")
        examples, n = federation.examples, federation.n_clients
        known, new = (
            _of_clients(federation, TEST, 0, n),
            _of_clients(federation, TEST, n, n + federation.n_new),
        )
        self.local = {
            name: rows
            for name, rows in (
                ("validation", _of_clients(federation, VALIDATION, 0, n)),
                ("local", known),
            )
            if len(rows.order)
        }
        self.new = new if len(new.order) else None
        device = simulation.device
        if examples.test_x is not None and examples.test_y is not None:
            self.global_x, self.global_y = examples.test_x.to(device), examples.test_y.to(device)
        else:
            self.global_x = simulation.x[known.order.to(device)]
            self.global_y = simulation.y[known.order.to(device)]

    def __call__(self, state: State) -> Evaluation:
        """All sections."""
        downs, models = (
            self.loop.downs(state),
            [self.algorithm.model(s, self.key) for s in state.servers],
        )
        clients: dict[str, dict[str, Tensor]] = {}
        for name, rows in self.local.items():
            logits = self._personal(rows, downs, models)
            labels = self.simulation.y[rows.order.to(self.simulation.device)]
            clients[name] = self._metrics(logits, labels, rows.owner, len(rows.sizes))
        if len(self.global_y):
            clients["global"] = self._shared(self.global_x, self.global_y, None, downs, models)
        if self.new is not None:
            at = self.new.order.to(self.simulation.device)
            clients["new"] = self._shared(
                self.simulation.x[at], self.simulation.y[at], self.new, downs, models
            )
        return Evaluation(
            {s: {k: _plain(v) for k, v in m.items()} for s, m in clients.items()},
            {s: _spread(m) for s, m in clients.items()},
        )

    def _metrics(self, logits: Tensor, y: Tensor, owner: Tensor, n: int) -> dict[str, Tensor]:
        if y.ndim == 2:  # a target for every step of a sequence: one row per step
            logits, owner = logits.flatten(0, 1), owner.repeat_interleave(y.shape[1])
            y = y.flatten()
        return per_client(logits.cpu(), y.cpu(), owner, n, self.task.kind)

    def _shared(
        self,
        x: Tensor,
        y: Tensor,
        rows: Rows | None,
        downs: list[Any],
        models: list[Params | None],
    ) -> dict[str, Tensor]:
        """Servers' models on rows of clients that did not train; several servers are averaged."""
        owner = torch.zeros(len(x), dtype=torch.long) if rows is None else rows.owner
        n = 1 if rows is None else len(rows.sizes)
        if models[0] is None:
            return self._metrics(self._ensemble(x, downs), y, owner, n)
        each = [self._metrics(self._forward(w, x), y, owner, n) for w in models if w is not None]
        return {k: torch.stack([m[k].double() for m in each]).nanmean(0) for k in each[0]}

    def _forward(self, w: Params, x: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat([self.task.logits(w, part) for part in torch.split(x, AT_ONCE)])

    def _weights_of(self, i: int, downs: list[Any]) -> Params | None:
        """The personal weights of client ``i``; a pooled run has one client for all."""
        sim = self.simulation
        j = i if i < sim.n_clients else 0
        return self.algorithm.personal(downs[int(self.loop.home[j])], sim.state(j))

    def _personal(self, rows: Rows, downs: list[Any], models: list[Params | None]) -> Tensor:
        """Each client's own model on its own rows."""
        sim, x = self.simulation, self.simulation.x
        first = self._weights_of(0, downs)
        at = rows.order.to(sim.device)
        if len(downs) == 1 and (first is None or _same(first, getattr(downs[0], "x", None))):
            w = models[0] if first is None else first  # one pass serves all clients
            assert w is not None
            return self._forward(w, x[at])
        busy = np.flatnonzero(rows.sizes)
        if sim.engine == "sequential":

            def alone(i: int) -> Tensor:
                w = self._weights_of(i, downs)
                assert w is not None
                return self._forward(w, x[rows.of(i).to(sim.device)])

            return torch.cat(sim.each(alone, [int(i) for i in busy]))
        parts: list[Tensor] = []
        for some in np.array_split(busy, max(1, -(-len(busy) // sim.chunk))):
            size = int(rows.sizes[some].max())
            w = tree.stack([self._weights_of(int(i), downs) for i in some])
            index = torch.zeros(len(some), size, dtype=torch.long)
            for j, i in enumerate(some):
                index[j, : int(rows.sizes[i])] = rows.of(int(i))
            with torch.no_grad():
                out = vmap(lambda w, at: self.task.logits(w, x[at]))(w, index.to(sim.device))
            parts += [out[j, : int(rows.sizes[i])] for j, i in enumerate(some)]
        return torch.cat(parts)

    def _ensemble(self, x: Tensor, downs: list[Any]) -> Tensor:
        """Logits of the mean class probabilities of all clients' models."""
        sim = self.simulation

        def probability(i: int) -> Tensor:
            w = self._weights_of(i, downs)
            assert w is not None
            out = self._forward(w, x)
            return torch.sigmoid(out) if self.task.kind == "binary" else out.softmax(-1)

        total = torch.zeros(())
        for part in _batched(list(range(sim.n_clients)), sim.workers):
            for p in sim.each(probability, part):
                total = total.to(p.device) + p
        mean = (total / sim.n_clients).clamp(1e-12, 1 - 1e-7)
        return torch.logit(mean) if self.task.kind == "binary" else mean.log()


def _of_clients(federation: Federation, part: int, first: int, last: int) -> Rows:
    """The rows of clients first..last-1, renumbered from zero."""
    rows = federation.rows(part)
    start = rows.start[first : last + 1]
    return Rows(rows.order[int(start[0]) : int(start[-1])], start - start[0])


def _same(w: Params, x: Any) -> bool:
    """Whether weights are a download's own tensors, so that all clients share them."""
    return isinstance(x, dict) and len(x) == len(w) and all(w[k] is x.get(k) for k in w)


def _plain(values: Tensor) -> list[float]:
    return [float(v) for v in values]


def _spread(metrics: dict[str, Tensor]) -> dict[str, dict[str, float]]:
    sizes = metrics["n"].numpy()
    return {
        name: summarise(
            values.numpy(), sizes, higher_is_better=name not in LOWER_IS_BETTER
        ).as_dict()
        for name, values in metrics.items()
        if name != "n"
    }


def _batched(items: list[int], size: int) -> list[list[int]]:
    return [items[i : i + size] for i in range(0, len(items), size)]
