"""The evaluation protocol: local, global and new-client tests side by side, one rule for all.

local       every client's personal model on its own validation and test rows
global      the servers' model on data of no known client: the dataset's own test set if it has
            one, else the pooled test rows of all training clients
new         the servers' model on whole clients that never trained

A method in which only the clients hold whole models (LG-FedAvg) is judged on the last two by the
ensemble of the clients: the mean of their class probabilities, or for an autoencoder of its terms;
the shares of their votes; or one model, the mean of their weights. Every client counts the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.functional import one_hot
from torch.nn.utils.rnn import pad_sequence

from unalike import rng, tree
from unalike.engine.loop import Loop, State
from unalike.engine.simulate import Simulation
from unalike.errors import ConfigError, RunError
from unalike.federation.data import TEST, VALIDATION, Federation, Rows
from unalike.metrics import reconstruction
from unalike.metrics.calibration import Reliability, pool
from unalike.metrics.classification import per_client, pooled_reliability
from unalike.metrics.fairness import summarise
from unalike.tree import Params

Ensemble = Literal["probabilities", "votes", "weights"]
AT_ONCE = 4096  # rows in one forward pass
LOWER_IS_BETTER = frozenset({"loss", "ece", "mce", "reconstruction", "kl"})


@dataclass(frozen=True)
class Evaluation:
    """Every metric of every client, and its spread, by section of the protocol."""

    clients: dict[str, dict[str, list[float]]]  # section -> metric -> one value per client
    spread: dict[str, dict[str, dict[str, float]]]  # section -> metric -> summary
    # section -> counts, accuracy, confidence -> one value per bin, all rows together
    reliability: dict[str, dict[str, list[float]]] = field(default_factory=dict)


class Judged(NamedTuple):
    """One section: every metric of every client, and the bins of its reliability diagram."""

    metrics: dict[str, Tensor]
    bins: Reliability | None  # None where nothing is classified


class Evaluator:
    """Judges a state of the servers and the clients' kept states."""

    def __init__(
        self,
        federation: Federation,
        simulation: Simulation,
        loop: Loop,
        seed: int,
        ensemble: Ensemble = "probabilities",
    ):
        """The rows of each section are gathered once."""
        self.ensemble = ensemble
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
        # Normalisation by the statistics of the batch: each client's rows must stay among theirs.
        network = self.task.network
        tracked = any(name.endswith("running_mean") for name in network.buffers)
        self.batch_dependent = "BatchNorm" in network.layers and not tracked
        device = simulation.device
        # What judging draws belongs to the row, so that it is the same for every engine and model.
        key = self.key.to(device)
        self.noise = rng.normal(rng.fold_in(key, 0), len(examples), self.task.draws)
        if examples.test_x is not None and examples.test_y is not None:
            self.global_x, self.global_y = examples.test_x.to(device), examples.test_y.to(device)
            rows = len(self.global_x)
            self.global_noise = rng.normal(rng.fold_in(key, 1), rows, self.task.draws)
        else:
            self.global_x = simulation.x[known.order.to(device)]
            self.global_y = simulation.y[known.order.to(device)]
            self.global_noise = self.noise[known.order.to(device)]
        if not len(self.global_y):
            raise ConfigError(
                "there is nothing to test on: no client has a test row and the data have no test "
                "set of their own; raise split.test or use fewer clients."
            )

    def __call__(self, state: State) -> Evaluation:
        """All sections."""
        state = self._as_judged(state)
        downs, models = (
            self.loop.downs(state),
            [self.algorithm.model(s, self.key) for s in state.servers],
        )
        found: dict[str, Judged] = {}
        for name, rows in self.local.items():
            logits = self._personal(rows, downs, models)
            labels = self.simulation.y[rows.order.to(self.simulation.device)]
            found[name] = self._judge(logits, labels, rows.owner, len(rows.sizes))
        if models[0] is None and self.ensemble == "weights":
            models = [self._mean_weights(downs)]
        rows_of_all = (self.global_x, self.global_noise, self.global_y)
        found["global"] = self._shared(*rows_of_all, None, downs, models)
        if self.new is not None:
            at = self.new.order.to(self.simulation.device)
            rows_of_new = (self.simulation.x[at], self.noise[at], self.simulation.y[at])
            found["new"] = self._shared(*rows_of_new, self.new, downs, models)
        return Evaluation(
            {s: {k: _plain(v) for k, v in j.metrics.items()} for s, j in found.items()},
            {s: _spread(j.metrics) for s, j in found.items()},
            {s: _bins(j.bins) for s, j in found.items() if j.bins is not None},
        )

    def _as_judged(self, state: State) -> State:
        """The servers as their method wants them judged; most as they are."""
        sim, servers = self.simulation, []
        for j, server in enumerate(state.servers):
            ids = [i for i in sim.before if int(self.loop.home[i]) == j]
            models = [self.algorithm.flying(sim.state(i)) for i in ids]
            if models and models[0] is not None:
                n = sim.sizes[ids]
                server = self.algorithm.landed(server, tree.mean(n / n.sum(), tree.stack(models)))
            servers.append(server)
        return state._replace(servers=tuple(servers))

    def _judge(self, logits: Tensor, y: Tensor, owner: Tensor, n: int) -> Judged:
        if not torch.isfinite(logits).all():
            raise RunError(
                "a model's outputs are no finite numbers any more, so training has diverged; "
                "lower local.lr."
            )
        if self.task.kind == "autoencoding":
            return Judged(reconstruction.per_client(logits.cpu(), owner, n), None)
        if y.ndim == 2:  # a target for every step of a sequence: one row per step
            logits, owner = logits.flatten(0, 1), owner.repeat_interleave(y.shape[1])
            y = y.flatten()
        logits, y, kind = logits.cpu(), y.cpu(), self.task.kind
        return Judged(per_client(logits, y, owner, n, kind), pooled_reliability(logits, y, kind))

    def _shared(
        self,
        x: Tensor,
        noise: Tensor,
        y: Tensor,
        rows: Rows | None,
        downs: list[Any],
        models: list[Params | None],
    ) -> Judged:
        """Servers' models on rows of clients that did not train; several servers are averaged."""
        owner = torch.zeros(len(x), dtype=torch.long) if rows is None else rows.owner
        n = 1 if rows is None else len(rows.sizes)
        if models[0] is None:
            return self._judge(self._ensemble(x, noise, downs), y, owner, n)
        outputs = (
            self._forward(w, x, noise) if rows is None else self._whole(rows, w) for w in models
        )
        each = [self._judge(out, y, owner, n) for out in outputs]
        mean = {
            k: torch.stack([j.metrics[k].double() for j in each]).nanmean(0)
            for k in each[0].metrics
        }
        diagrams = [j.bins for j in each if j.bins is not None]
        if not diagrams:
            return Judged(mean, None)
        return Judged(mean, pool(Reliability(*map(torch.cat, zip(*diagrams, strict=True)))))

    def _forward(self, w: Params | None, x: Tensor, noise: Tensor) -> Tensor:
        assert w is not None, "either every server has a model, or every client has its own"
        parts = zip(torch.split(x, AT_ONCE), torch.split(noise, AT_ONCE), strict=True)
        with torch.no_grad():
            return torch.cat([self.task.outputs(w, *part) for part in parts])

    def _weights_of(self, i: int, downs: list[Any]) -> Params | None:
        """The personal weights of client ``i``; a pooled run has one client for all."""
        sim = self.simulation
        j = i if i < sim.n_clients else 0
        return self.algorithm.personal(downs[int(self.loop.home[j])], sim.state(j))

    def _personal(self, rows: Rows, downs: list[Any], models: list[Params | None]) -> Tensor:
        """Each client's own model on its own rows."""
        first = self._weights_of(0, downs)
        if first is not None and not (len(downs) == 1 and _same(first, downs[0])):
            return self._client_by_client(rows, lambda i: self._weights_of(i, downs))
        w = models[0] if first is None else first  # one model serves all clients
        return self._whole(rows, w)

    def _whole(self, rows: Rows, w: Params | None) -> Tensor:
        """One model on the rows of many clients, in one pass unless rows depend on one another."""
        if self.batch_dependent:
            return self._client_by_client(rows, lambda i: w)
        at = rows.order.to(self.simulation.device)
        return self._forward(w, self.simulation.x[at], self.noise[at])

    def _client_by_client(self, rows: Rows, weights: Callable[[int], Params | None]) -> Tensor:
        sim, busy = self.simulation, np.flatnonzero(rows.sizes)
        if sim.engine == "sequential":

            def alone(i: int) -> Tensor:
                at = rows.of(i).to(sim.device)
                return self._forward(weights(i), sim.x[at], self.noise[at])

            return torch.cat(sim.each(alone, busy.tolist()))
        groups = np.array_split(busy, -(-len(busy) // sim.chunk))
        return torch.cat([part for some in groups for part in self._group(rows, some, weights)])

    def _group(
        self, rows: Rows, some: np.ndarray, weights: Callable[[int], Params | None]
    ) -> list[Tensor]:
        """The outputs of some clients, computed together, a bounded number of rows at a time."""
        sim = self.simulation
        w = tree.stack([weights(int(i)) for i in some])
        sizes = torch.from_numpy(rows.sizes[some])
        index = pad_sequence([rows.of(int(i)) for i in some], batch_first=True)
        real = torch.arange(index.shape[1]) < sizes[:, None]
        step = AT_ONCE if self.batch_dependent else max(1, AT_ONCE // len(some))

        def outputs(w: Params, at: Tensor, real: Tensor) -> Tensor:
            if self.batch_dependent:
                return self.task.logits(w, sim.x[at], real)
            return self.task.outputs(w, sim.x[at], self.noise[at])

        parts = zip(
            index.to(sim.device).split(step, 1), real.to(sim.device).split(step, 1), strict=True
        )
        with torch.no_grad():
            out = torch.cat([vmap(outputs)(w, *part) for part in parts], 1)
        return [out[j, :n] for j, n in enumerate(sizes.tolist())]

    def _ensemble(self, x: Tensor, noise: Tensor, downs: list[Any]) -> Tensor:
        """Logits of the mean class probabilities of all clients' models, or of their votes."""
        sim = self.simulation

        def probability(i: int) -> Tensor:
            w = self._weights_of(i, downs)
            assert w is not None
            out = self._forward(w, x, noise)
            if self.task.kind == "autoencoding":
                return out
            if self.ensemble == "votes":  # 0 * out: a model that has diverged must not vote
                return _vote(out, self.task.kind) + 0 * out
            return torch.sigmoid(out) if self.task.kind == "binary" else out.softmax(-1)

        total = torch.zeros(())
        for part in _batched(list(range(sim.n_clients)), sim.workers):
            for p in sim.each(probability, part):
                total = total.to(p.device) + p
        if self.task.kind == "autoencoding":
            return total / sim.n_clients
        mean = (total / sim.n_clients).clamp(1e-12, 1 - 1e-7)
        return torch.logit(mean) if self.task.kind == "binary" else mean.log()

    def _mean_weights(self, downs: list[Any]) -> Params:
        """The mean of all clients' models, leaf by leaf."""
        total, n = self._weights_of(0, downs), self.simulation.n_clients
        assert total is not None
        for i in range(1, n):
            total = tree.add(total, self._weights_of(i, downs))
        mean: Params = tree.scale(1 / n, total)
        return mean


def _vote(out: Tensor, kind: str) -> Tensor:
    """All of a row's probability on the class a model takes it for."""
    if kind == "binary":
        return (out > 0).to(out.dtype)
    return one_hot(out.argmax(-1), out.shape[-1]).to(out.dtype)


def _of_clients(federation: Federation, part: int, first: int, last: int) -> Rows:
    """The rows of clients first..last-1, renumbered from zero."""
    rows = federation.rows(part)
    start = rows.start[first : last + 1]
    return Rows(rows.order[int(start[0]) : int(start[-1])], start - start[0])


def _same(w: Params, down: Any) -> bool:
    """Whether weights are a download's own tensors, so that all clients share them."""
    x = getattr(down, "x", None)
    return isinstance(x, dict) and len(x) == len(w) and all(w[k] is x.get(k) for k in w)


def _plain(values: Tensor) -> list[float]:
    return [float(v) for v in values]


def _bins(diagram: Reliability) -> dict[str, list[float]]:
    return {
        "counts": diagram.counts[0].tolist(),
        "accuracy": [round(v, 6) for v in diagram.accuracy[0].tolist()],
        "confidence": [round(v, 6) for v in diagram.confidence[0].tolist()],
    }


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
