"""Three ways in which clients judge strangers where only they hold whole models, by hand.

A row is a unit vector, the head 10 I. Client 0 takes a row for its own class, the others take class
0 for class 1 and the other way round.
"""

import math

import numpy as np
import pytest
import torch
from federations import keep
from torch import Tensor
from unit_vectors import EYE, SWAP, Two, built, federation, linear

from unalike.engine.evaluation.server import Evaluation
from unalike.errors import ConfigError, RunError
from unalike.federation.data import TEST, TRAIN, Examples, Federation
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import Experiment, experiment

# (client, part, feature, label); clients 3 and 4 are new.
ROWS = [
    *[(k, TRAIN, c, c) for k in range(3) for c in range(3)],
    *[(0, TEST, 0, 0), (0, TEST, 1, 1), (0, TEST, 2, 1)],
    *[(1, TEST, 2, 0), (1, TEST, 0, 0), (1, TEST, 1, 2)],
    *[(3, TEST, 0, 0), (3, TEST, 1, 1), (3, TEST, 2, 2), (3, TEST, 2, 1)],
    (4, TEST, 0, 1),
]
ENGINES = pytest.mark.parametrize("engine", ["sequential", "vectorized"])


def judged(ensemble: str, bodies: list[Tensor], engine: str = "auto") -> Evaluation:
    """Three clients with these bodies."""
    settings = {"evaluation": {"ensemble": ensemble}, "engine": {"kind": engine}}
    made = built(federation(ROWS, 3, 2), Two(), method="lg_fedavg", **settings)
    keep(made.simulation, {k: {"body.weight": w} for k, w in enumerate(bodies)})
    return made.evaluator(made.loop.begin(made.w))


@ENGINES
def test_votes(engine: str) -> None:
    """Two unsure clients outvote a sure one, which for mean probabilities they do not."""
    bodies = [EYE, 0.1 * SWAP, 0.1 * SWAP]
    found = judged("votes", bodies, engine).clients
    assert found["global"]["accuracy"] == [0.0]
    # Three rows have a third of the votes for their label, three have none: those count 1e-12.
    loss = (3 * math.log(3) + 3 * 12 * math.log(10)) / 6
    assert found["global"]["loss"][0] == pytest.approx(loss, rel=1e-5)
    assert found["new"]["accuracy"] == [0.25, 1.0]
    assert judged("probabilities", bodies, engine).clients["global"]["accuracy"] == [0.5]


@ENGINES
def test_mean_weights(engine: str) -> None:
    """10 (I + 0.9 S) / 3: the sure client is ahead, which for mean probabilities it is not."""
    bodies = [EYE, 0.45 * SWAP, 0.45 * SWAP]
    found = judged("weights", bodies, engine).clients
    assert found["global"]["accuracy"] == [0.5]
    assert found["new"]["accuracy"] == [0.75, 0.0]
    # A row of class 0 has logits 10/3, 3 and 0; one of class 2 has 0, 0 and 19/3.
    swapped = math.log(math.exp(10 / 3) + math.exp(3) + 1)
    sure = math.log(math.exp(19 / 3) + 2)
    loss = (3 * (swapped - 10 / 3) + swapped + 2 * sure) / 6
    assert found["global"]["loss"][0] == pytest.approx(loss, rel=1e-5)
    assert judged("probabilities", bodies, engine).clients["global"]["accuracy"] == [0.0]


@pytest.mark.parametrize("ensemble", ["votes", "weights"])
def test_clients_among_themselves_are_judged_as_before(ensemble: str) -> None:
    """The ensemble meets strangers only."""
    bodies = [EYE, SWAP, EYE]
    one, two = (judged(e, bodies).clients for e in (ensemble, "probabilities"))
    assert one["local"]["accuracy"][:2] == two["local"]["accuracy"][:2]
    assert one["local"]["loss"][:2] == two["local"]["loss"][:2]


def test_clients_that_are_one() -> None:
    """Then the mean model is that model, and so is the vote."""
    same = [EYE, EYE, EYE]
    loss = {e: judged(e, same).clients["global"]["loss"] for e in ("probabilities", "weights")}
    assert loss["weights"] == pytest.approx(loss["probabilities"], rel=1e-5)
    assert judged("votes", same).clients["global"]["accuracy"] == [0.5]


def binary(ensemble: str) -> Experiment:
    """Three clients that train alone on the line; test rows 1, 2 and -1, all of class 1."""
    x = torch.tensor([[1.0], [1.0], [1.0], [1.0], [2.0], [-1.0]])
    part = np.array([TRAIN, TRAIN, TRAIN, TEST, TEST, TEST], np.int8)
    y = torch.tensor([1, 0, 1, 1, 1, 1])
    data = Federation(Examples(x, y, 2, "binary"), np.array([0, 1, 2, 0, 1, 2]), part, 3)
    evaluation = {"ensemble": ensemble}
    return built(data, linear(torch.ones(1, 1)), method="local_only", evaluation=evaluation)


@pytest.mark.parametrize(
    ("ensemble", "accuracy", "loss"),
    [
        ("votes", 1 / 3, (2 * math.log(3) + math.log(1.5)) / 3),  # 1, 1 and 2 of 3 for class 1
        ("weights", 2 / 3, sum(math.log1p(math.exp(-v)) for v in (0.6, 1.2, -0.6)) / 3),
    ],
)
def test_binary(ensemble: str, accuracy: float, loss: float) -> None:
    """Slopes 2, -0.1 and -0.1: their mean is 0.6."""
    made = binary(ensemble)
    keep(
        made.simulation,
        {k: {"weight": torch.tensor([[w]])} for k, w in enumerate((2.0, -0.1, -0.1))},
    )
    found = made.evaluator(made.loop.begin(made.w)).clients["global"]
    assert found["accuracy"] == pytest.approx([accuracy])
    assert found["loss"] == pytest.approx([loss], rel=1e-5)


@pytest.mark.parametrize("ensemble", ["votes", "weights"])
def test_a_diverged_model_has_no_vote(ensemble: str) -> None:
    """Finite weights whose products are not: it ends the run, as everywhere."""
    with pytest.raises(RunError, match="diverged"):
        judged(ensemble, [EYE, torch.full((3, 3), 3e38), EYE])


def test_a_shared_model_needs_no_ensemble() -> None:
    """Both tests coincide, so that methods of either kind can be compared under one setting."""
    votes, plain = (
        experiment(parse({"data": "digits", "rounds": 1, "evaluation": {"ensemble": e}}))
        for e in ("votes", "probabilities")
    )
    one, two = (m.evaluator(m.loop.begin(m.w)).clients["global"] for m in (votes, plain))
    assert one == two


def test_an_autoencoder_has_no_votes() -> None:
    """Nothing is classified."""
    raw = {"data": "digits", "model": "vae", "evaluation": {"ensemble": "votes"}}
    with pytest.raises(ConfigError, match=r"evaluation\.ensemble is 'votes', but an autoencoder"):
        experiment(parse(raw))
