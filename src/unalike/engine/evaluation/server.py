"""The servers' side of evaluation: which models to test, and how clients' results are put together.

Clients test on their own rows (``client.py``); a server tests only on the data's own test
set, if there is one. Several servers are averaged metric by metric, and each one's result on the
common test rows is kept beside the mean.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.algorithm import Algorithm
from unalike.engine.course import Course
from unalike.engine.evaluation.interpolation import chosen
from unalike.engine.evaluation.judging import Each, merged, outputs, side_by_side
from unalike.engine.evaluation.landscape import places, plane
from unalike.engine.loop import State
from unalike.metrics.calibration import Reliability
from unalike.metrics.catalogue import SECTIONS, higher
from unalike.metrics.fairness import summarise_all
from unalike.tasks import Judged
from unalike.tree import Params, Tree

Ensemble = Literal["probabilities", "votes", "weights"]


@dataclass(frozen=True)
class Evaluation:
    """Every metric of every client, and its spread, by section of the protocol."""

    clients: dict[str, dict[str, list[float]]]  # section -> metric -> one value per client
    spread: dict[str, dict[str, dict[str, float]]]  # section -> metric -> summary
    # section -> counts, accuracy, confidence -> one value per bin, all rows together
    reliability: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    # metric -> one value per server on the common test rows; empty if there is one server
    nodes: dict[str, list[float]] = field(default_factory=dict)
    line: dict[str, Any] = field(default_factory=dict)  # from shared to own models, see ``line.py``
    # metric -> mean over new clients after as many steps as ``steps`` says
    steps: dict[str, list[float]] = field(default_factory=dict)
    # what was judged: the servers' downloads, stacked, and the model of each of them
    downs: Tree = field(default=(), repr=False)
    models: tuple[Params | None, ...] = field(default=(), repr=False)


class Evaluator:
    """Judges a state of the servers, and through the transport the clients' kept states."""

    def __init__(
        self,
        course: Course,
        tests: tuple[Tensor, Tensor] | None,
        seed: int,
        ensemble: Ensemble = "probabilities",
        line: str = "",
        late: int = 0,
        each: Each | None = None,
    ) -> None:
        """``tests`` are the features and targets of the servers' own test set, if they have one.

        ``line`` is the metric that chooses points between shared and own models, if any are;
        ``late`` is how many of the last clients join late, ``each`` shares work out to cores.
        """
        self.course, self.transport = course, course.transport
        self.key, self.ensemble, self.tests = rng.stream(seed, "evaluation"), ensemble, tests
        self.line, self.late, self.each = line, late, each

    @property
    def algorithm(self) -> Algorithm:
        """Of the stage the run is in."""
        return self.course.loop.recipe.algorithm

    def __call__(self, state: State) -> Evaluation:
        """All sections."""
        servers = self._landed(state.servers)
        downs = tree.stack([self.algorithm.broadcast(s) for s in servers])
        models = [self.algorithm.model(s, self.key) for s in servers]
        held = tuple(models)
        if models[0] is None and self.ensemble == "weights":
            models = [self.transport.mean_weights(downs)]
        found = self.transport.evaluate(downs, models)
        if self.tests is not None:
            found["global"] = self._tested(*self.tests, downs, models)
        mixed, told = chosen(found, self.line) if self.line else ({}, {})
        found |= mixed
        if self.late and "local" in found:
            found |= _apart(found["local"], self.late)
        curve = {int(k[4:]): j for k, j in found.items() if k.startswith("new@")}
        if curve:
            found["adapted"] = curve[max(curve)]
        nodes: dict[str, list[float]] = {}
        if each := found.get("global"):  # sites keep their rows: no ensemble sees all of them
            count = len(each.metrics["n"])
            nodes = _plain(each.metrics) if count > 1 else {}
            found["global"] = merged(each, count)
        found = {name: found[name] for name in SECTIONS if name in found}
        return Evaluation(
            *recorded(found),
            nodes,
            told,
            _curve({0: found["new"], **curve}) if curve else {},
            downs,
            held,
        )

    def _landed(self, servers: tuple[Any, ...]) -> tuple[Any, ...]:
        """The servers in the form in which their method tests them; usually unchanged."""
        means = self.transport.in_flight()
        return tuple(
            self.algorithm.landed(s, means[j]) if j in means else s for j, s in enumerate(servers)
        )

    def landscape(self, state: State, side: int) -> dict[str, Any]:
        """The loss on a plane around the first server's model; empty where there is none."""
        server, algorithm = self._landed(state.servers)[0], self.algorithm
        w = algorithm.model(server, self.key)
        if w is None:
            return {}
        models = plane(w, algorithm.task.weights(w), side, self.key)
        if self.tests is None:
            downs = tree.stack([algorithm.broadcast(s) for s in self._landed(state.servers)])
            rows = (list(islice(models, side)) for _ in range(side))  # all would fill the memory
            found = [self.transport.evaluate(downs, row)["global"] for row in rows]
        else:
            x, y, task = *self.tests, algorithm.task
            one = torch.zeros(len(x), dtype=torch.long)
            noise = rng.normal(rng.fold_in(self.key.to(x.device), 1), len(x), task.draws)
            found = [task.judge(outputs(task, m, x, noise), y, one, 1) for m in models]
        values = torch.cat([j.metrics["loss"] for j in found]).reshape(side, side)
        return {"at": places(side), "loss": [[round(v, 6) for v in r] for r in values.tolist()]}

    def _tested(self, x: Tensor, y: Tensor, downs: Tree, models: list[Params | None]) -> Judged:
        """Every model on the servers' own test set, or the ensemble of the clients."""
        task, one = self.algorithm.task, torch.zeros(len(x), dtype=torch.long)
        noise = rng.normal(rng.fold_in(self.key.to(x.device), 1), len(x), task.draws)
        if models[0] is None:
            together = self.transport.ensemble(downs, x, noise, self.ensemble)
            return task.judge(together, y, one, 1)
        said = (outputs(task, w, x, noise, each=self.each) for w in models if w is not None)
        return side_by_side([task.judge(out, y, one, 1) for out in said])


def _apart(local: Judged, late: int) -> dict[str, Judged]:
    """Those that were there from the start, and those that joined late."""
    settled, joined = (
        {k: v[part] for k, v in local.metrics.items()}
        for part in (slice(-late), slice(-late, None))
    )
    return {"settled": Judged(settled, None), "late": Judged(joined, None)}


def _curve(found: dict[int, Judged]) -> dict[str, list[float]]:
    """The mean over clients of every metric after each number of steps."""
    judged = list(found.values())
    names = [k for k in judged[0].metrics if k != "n"]
    means = {k: [float(j.metrics[k].double().nanmean()) for j in judged] for k in names}
    return {"steps": [float(k) for k in found], **means}


def recorded(found: dict[str, Judged]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(every client's metrics, their spread, the bins of all rows), by section."""
    return (
        {s: _plain(j.metrics) for s, j in found.items()},
        {s: _spread(j.metrics) for s, j in found.items()},
        {s: _bins(j.bins) for s, j in found.items() if j.bins is not None},
    )


def _plain(metrics: dict[str, Tensor]) -> dict[str, list[float]]:
    return {name: values.double().tolist() for name, values in metrics.items()}


def _bins(diagram: Reliability) -> dict[str, list[float]]:
    return {
        "counts": diagram.counts[0].tolist(),
        "accuracy": [round(v, 6) for v in diagram.accuracy[0].tolist()],
        "confidence": [round(v, 6) for v in diagram.confidence[0].tolist()],
    }


def _spread(metrics: dict[str, Tensor]) -> dict[str, dict[str, float]]:
    values = {name: v.numpy() for name, v in metrics.items() if name != "n"}
    spreads = summarise_all(values, metrics["n"].numpy(), higher)
    return {name: spread.as_dict() for name, spread in spreads.items()}
