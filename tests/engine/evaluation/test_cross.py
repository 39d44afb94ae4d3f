"""Personal models on others' data, and the loss around a model."""

import pytest
import torch
from federations import keep
from torch import nn
from unit_vectors import EYE, SWAP, Two, built, federation, linear

from unalike import rng, tree
from unalike.engine.evaluation.cross import cross
from unalike.engine.evaluation.landscape import direction, places, plane
from unalike.errors import ConfigError
from unalike.federation.data import TEST, TRAIN
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.rounds import rounds

ROWS = [
    *[(k, TRAIN, c, c) for k in range(4) for c in range(3)],
    *[(0, TEST, 0, 0), (0, TEST, 1, 1)],
    *[(2, TEST, 0, 1), (2, TEST, 1, 0)],
    *[(3, TEST, 2, 2), (3, TEST, 0, 0)],
]


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
def test_who_profits_from_whom(engine: str) -> None:
    """A row is a model, a column the data; client 1 has no test rows."""
    kind = {"engine": {"kind": engine}}
    made = built(federation(ROWS, 4), Two(), method="lg_fedavg", **kind)
    bodies = (EYE, EYE, SWAP, EYE)
    keep(made.simulation, {k: {"body.weight": w} for k, w in enumerate(bodies)})
    state = made.loop.begin(made.w)
    downs = tree.stack([made.recipe.algorithm.broadcast(s) for s in state.servers])
    found = cross(made.simulation.examiner, downs, 10, "accuracy")
    assert found["clients"] == [0, 2, 3]
    assert found["values"] == [[1.0, 0.0, 1.0], [0.0, 1.0, 0.5], [1.0, 0.0, 1.0]]
    own = made.evaluator(state).clients["local"]["accuracy"]
    assert [found["values"][i][i] for i in range(3)] == [own[0], own[2], own[3]]
    assert cross(made.simulation.examiner, downs, 2, "accuracy")["clients"] == [0, 2]


def test_measured_once_and_only_where_models_differ() -> None:
    asked = {"evaluation": {"cross": 5, "landscape": 3}, "rounds": 2}
    first, last = rounds(built(federation(ROWS, 4), Two(), method="lg_fedavg", **asked))
    assert first.clients is not None
    assert last.clients is not None
    assert "cross" not in first.clients
    assert "cross" in last.clients
    assert "landscape" not in last.clients  # there is no shared model to walk around
    *_, last = rounds(built(federation(ROWS, 4), linear(EYE), **asked))
    assert last.clients is not None
    assert "cross" not in last.clients
    assert "landscape" in last.clients


@pytest.mark.parametrize("own_test", [True, False])
def test_the_middle_of_a_landscape_is_the_model(own_test: bool) -> None:
    """On the server's own test set, or on all test rows of clients."""
    more = {"test_x": EYE, "test_y": torch.tensor([0, 1, 2])} if own_test else {}
    made = built(federation(ROWS, 4, **more), linear(3 * EYE))
    state = made.loop.begin(made.w)
    found = made.evaluator.landscape(state, 3)
    assert found["at"] == [-1.0, 0.0, 1.0]
    judged = made.evaluator(state).clients["global"]["loss"][0]
    assert found["loss"][1][1] == pytest.approx(judged, abs=1e-6)
    assert len({v for row in found["loss"] for v in row}) == 9


EVERYTHING = {"line": 3, "cross": 4, "landscape": 3, "new_client_steps": [1, 3]}


@pytest.mark.parametrize("topology", ["star", "ring", "clusters", "gossip"])
@pytest.mark.parametrize(
    ("method", "ensemble"),
    [("superfed_mm", "weights"), ("fedavg", "votes"), ("lg_fedavg", "weights")],
)
def test_everything_that_can_be_asked_for_on_every_topology(
    method: str, ensemble: str, topology: str
) -> None:
    """More models than a landscape has points, or one mean of all clients' models."""
    raw = {
        "rounds": 1,
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 9},
        "split": {"new_clients": 2, "validation": 0.2, "test": 0.2},
        "model": {"name": "mlp", "hidden": [4]},
        "method": method,
        "topology": topology,
        "evaluation": {**EVERYTHING, "ensemble": ensemble},
    }
    made = experiment(parse(raw))
    (step,) = rounds(made)
    assert step.clients is not None
    several = method != "fedavg" or topology != "star"  # models that differ
    assert ("cross" in step.clients) == several
    assert "steps" in step.clients
    if several:
        own = step.clients["local"]["accuracy"]
        values = step.clients["cross"]["values"]
        assert [values[i][i] for i in range(4)] == pytest.approx(own[:4], abs=1e-6)
    assert ("landscape" in step.clients) == (method != "lg_fedavg")
    if method != "lg_fedavg":
        model = made.recipe.algorithm.model(step.progress.state.servers[0], made.course.judging)
        assert model is not None
        e, rows = made.federation.examples, made.federation.rows(TEST)
        at = torch.cat([rows.of(i) for i in range(7)])
        out = made.recipe.algorithm.task.outputs(model, e.x[at], torch.zeros(len(at), 0))
        loss = float(nn.functional.cross_entropy(out, e.y[at]))
        assert step.clients["landscape"]["loss"][1][1] == pytest.approx(loss, abs=1e-5)


def test_directions_have_the_length_of_every_filter() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Linear(4, 5))
    w = {n: p.detach() for n, p in module.named_parameters()}
    w["norm.running_mean"] = torch.ones(2, 2)
    trained = {n: p for n, p in w.items() if "running" not in n}
    d, e = (direction(w, trained, rng.key(k)) for k in (0, 1))
    for name in ("0.weight", "1.weight"):
        assert torch.allclose(d[name].flatten(1).norm(dim=1), w[name].flatten(1).norm(dim=1))
        assert abs(float((d[name] * e[name]).sum() / d[name].norm() / e[name].norm())) < 0.9
    for name in ("0.bias", "1.bias", "norm.running_mean"):
        assert not d[name].any()
    models = list(plane(w, trained, 3, rng.key(5)))
    assert len(models) == 9
    assert all(torch.equal(models[4][n], w[n]) for n in w)
    assert places(3) == [-1.0, 0.0, 1.0]


def test_a_landscape_of_one_point_is_refused() -> None:
    with pytest.raises(ConfigError, match="landscape"):
        parse({"evaluation": {"landscape": 1}})
