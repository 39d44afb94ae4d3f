"""The line from the shared model to a client's own, at points that can be worked out by hand."""

from typing import Any

import pytest
import torch
from federations import keep
from torch import Tensor
from unit_vectors import EYE, SWAP, Two, built, federation, linear

from unalike.engine.evaluation import interpolation
from unalike.errors import ConfigError
from unalike.federation.data import TEST, TRAIN, VALIDATION
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import Experiment
from unalike.run.rounds import rounds
from unalike.tasks import Judged

# Client 0 labels features as they are, client 1 has classes 0 and 1 the other way round.
ROWS = [
    *[(k, TRAIN, c, c) for k in range(3) for c in range(3)],
    *[(0, part, c, c) for part in (VALIDATION, TEST) for c in (0, 1)],
    *[(1, part, c, 1 - c) for part in (VALIDATION, TEST) for c in (0, 1)],
    *[(2, VALIDATION, 0, 1), (2, VALIDATION, 1, 0), (2, TEST, 0, 0), (2, TEST, 1, 1)],
]
ENGINES = pytest.mark.parametrize("engine", ["sequential", "vectorized"])


def superfed(engine: str = "auto", points: int = 5, **settings: Any) -> Experiment:
    """The shared model is right for client 0, everybody's own model for client 1."""
    made = built(
        federation(ROWS, 3),
        linear(10 * EYE),
        method={"name": "superfed_mm", "at": 0.25, **settings},
        evaluation={"line": points, "every": 1},
        engine={"kind": engine},
    )
    keep(made.simulation, {k: {"weight": 10 * SWAP} for k in range(3)})
    return made


@ENGINES
def test_every_point_and_the_three_choices(engine: str) -> None:
    """Of the five points 0 and 0.25 are the shared model's choice, 0.75 and 1 the own one's."""
    made = superfed(engine)
    found = made.evaluator(made.loop.begin(made.w))
    accuracy = {s: m["accuracy"] for s, m in found.clients.items()}
    assert accuracy["local"] == [1.0, 0.0, 1.0]  # at 0.25
    # On validation rows two of three clients want the other end; the choice is everybody's.
    assert found.line["common"] == 0.75
    assert accuracy["common"] == [0.0, 1.0, 0.0]
    assert accuracy["oracle"] == [1.0, 1.0, 1.0]
    assert found.line["oracle"] == [0.0, 0.75, 0.0]
    assert found.line["at"] == [0.0, 0.25, 0.5, 0.75, 1.0]
    means = found.line["local"]["accuracy"]
    assert (means[0], means[1], means[3], means[4]) == pytest.approx((2 / 3, 2 / 3, 1 / 3, 1 / 3))


def test_the_ends_are_the_two_models() -> None:
    made = superfed(at=0.0)
    start = made.evaluator(made.loop.begin(made.w))
    loss = start.line["local"]["loss"]
    assert loss[0] == start.spread["local"]["loss"]["mean"]
    other = superfed(at=1.0)
    end = other.evaluator(other.loop.begin(other.w))
    assert loss[-1] == end.spread["local"]["loss"]["mean"]


@pytest.mark.parametrize(("module", "method"), [(linear(10 * EYE), "fedavg"), (Two(), "lg_fedavg")])
def test_one_model_for_a_client_is_judged_three_times_the_same(module: Any, method: str) -> None:
    made = built(federation(ROWS, 3), module, method=method, evaluation={"line": 3})
    found = made.evaluator(made.loop.begin(made.w))
    assert found.clients["common"] == found.clients["oracle"] == found.clients["local"]
    assert not found.line


def judged(*accuracy: float) -> Judged:
    values = torch.tensor(accuracy)
    return Judged({"accuracy": values, "loss": 1 - values, "n": torch.ones(len(values))}, None)


def test_clients_without_test_rows_choose_nothing_and_do_not_disturb() -> None:
    nan = float("nan")
    found = {
        "local": judged(0.1, nan),
        "local@0": judged(0.2, nan),
        "local@1": judged(0.4, nan),
        "validation@0": judged(0.5, nan),
        "validation@1": judged(0.1, nan),
    }
    sections, told = interpolation.chosen(found, "accuracy")
    assert sections["oracle"].metrics["accuracy"][0] == pytest.approx(0.4)
    assert torch.isnan(sections["oracle"].metrics["accuracy"][1])
    assert told["common"] == 0.0  # by validation rows, although test rows are better at the other
    assert sections["common"].metrics["accuracy"][0] == pytest.approx(0.2)
    _, by_loss = interpolation.chosen(found, "loss")
    assert by_loss["common"] == 0.0


def test_without_validation_rows_there_is_no_common_point() -> None:
    sections, told = interpolation.chosen(
        {"local": judged(0.1), "local@0": judged(0.3), "local@1": judged(0.2)}, "accuracy"
    )
    assert set(sections) == {"oracle"}
    assert "common" not in told
    of_one_model, _ = interpolation.chosen({"local": judged(0.1)}, "accuracy")
    assert set(of_one_model) == {"oracle"}


def test_what_is_written_down() -> None:
    """Means at every point, each client's oracle, and nothing if nothing was asked for."""
    step = next(rounds(superfed(points=3)))
    assert step.clients is not None
    assert set(step.clients["line"]) == {"at", "oracle", "local", "common", "validation"}
    assert {"common", "oracle"} <= set(step.record["metrics"])
    plain = next(rounds(superfed(points=0)))
    assert plain.clients is not None
    assert "line" not in plain.clients
    assert not {"common", "oracle"} & set(plain.record["metrics"])


def test_a_line_of_one_point_is_refused() -> None:
    with pytest.raises(ConfigError, match="2 points or more"):
        parse({"evaluation": {"line": 1}})


@ENGINES
def test_layer_mixing_has_one_point_for_all_layers(engine: str) -> None:
    made = built(
        federation(ROWS, 3),
        Two(),
        method={"name": "superfed_lm", "start": 0.0},
        evaluation={"line": 3},
        engine={"kind": engine},
    )
    own: dict[str, Tensor] = {"body.weight": SWAP, "top.weight": 10 * EYE}
    keep(made.simulation, {k: own for k in range(3)})
    found = made.evaluator(made.loop.begin(made.w))
    assert found.line["local"]["accuracy"][0] == pytest.approx(2 / 3)
    assert found.line["local"]["accuracy"][2] == pytest.approx(1 / 3)
