"""Losses of the three kinds of task, alone and on both engines."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from federations import SIZES, Data, composed, distance, play, rows_of, sampled
from torch import nn

from unalike import rng
from unalike.batches import Batch
from unalike.federation.data import Examples
from unalike.models import MODELS
from unalike.network import Network
from unalike.tasks import Binary, MultiClass, Sequences, Task

N = sum(SIZES)


def binary() -> tuple[Task, Data]:
    """One logit, labels 0 and 1."""
    draw = np.random.default_rng(0)
    x = torch.from_numpy(draw.random((N, 5))).float()
    y = torch.from_numpy(draw.integers(0, 2, N))
    net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4, 1))
    return Binary(Network(net)), Data(Examples(x, y, 2, "binary"), rows_of(SIZES))


def characters() -> tuple[Task, Data]:
    """A target for every step of a sequence."""
    draw = np.random.default_rng(0)
    text = torch.from_numpy(draw.integers(0, 7, (N, 5)))
    model = MODELS["stacked_lstm"](embedding=3, hidden=4, every_step=True, layers=1)
    task = Sequences(Network(model.build((4,), 7)))
    return task, Data(Examples(text[:, :-1], text[:, 1:], 7, "characters"), rows_of(SIZES))


def test_binary_loss() -> None:
    """Cross-entropy with one logit, over the real rows."""
    task, data = binary()
    w, real = task.init(rng.key(0)), torch.arange(10) < 6
    x, y = data.examples.x[:10], data.examples.y[:10]
    got = task.each_loss(w, Batch(x, y, real, rng.key(0)))
    want = F.binary_cross_entropy_with_logits(task.logits(w, x)[:, 0], y.float(), reduction="none")
    assert torch.allclose(got, want)
    assert got.shape == (10,)


def test_loss_of_a_sequence_is_the_mean_over_its_steps() -> None:
    """So that an example counts once, however long."""
    task, data = characters()
    w = task.init(rng.key(0))
    x, y = data.examples.x[:6], data.examples.y[:6]
    out = task.logits(w, x)
    assert out.shape == (6, 4, 7)
    want = F.cross_entropy(out.reshape(24, 7), y.reshape(24), reduction="none")
    got = task.each_loss(w, Batch(x, y, torch.ones(6, dtype=torch.bool), rng.key(0)))
    assert torch.allclose(got, want.reshape(6, 4).mean(1), atol=1e-6)


def test_strata_of_sequences_are_their_last_symbols() -> None:
    """What skew is measured by."""
    _, data = characters()
    assert data.examples.strata.tolist() == data.examples.y[:, -1].tolist()


@pytest.mark.parametrize("make", [binary, characters])
@pytest.mark.parametrize("name", ["fedavg", "aaggff_d", "fedep", "fedaug", "superfed_mm"])
def test_engines_agree(make: object, name: str) -> None:
    """On every kind of task."""
    task, data = make()  # type: ignore[operator]
    recipe = composed(task, data, name, **sampled(0.5))
    a, b = (play(recipe, data, 2, engine=e).x for e in ("sequential", "vectorized"))
    assert distance(a, b) < 1e-5
    assert distance(a, task.init(rng.key(7))) > 1e-4


def test_training_helps() -> None:
    """A separable task is learned."""
    x = torch.rand(N, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > x[:, 1]).long()
    task = MultiClass(Network(nn.Linear(2, 2)))
    data = Data(Examples(x, y, 2), rows_of(SIZES))
    from unalike.parts.optim import Sgd

    played = play(composed(task, data, "fedavg", opt=Sgd(1.0), epochs=3.0), data, 15)
    accuracy = (task.logits(played.x, x).argmax(1) == y).float().mean()
    assert float(accuracy) > 0.95


def test_weights_and_buffers_are_told_apart() -> None:
    """Also in a part of a model."""
    task = MultiClass(Network(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))))
    w = task.init(rng.key(0))
    weights, buffers = task.split(w)
    assert set(weights) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert set(buffers) == {"1.running_mean", "1.running_var"}
    assert task.weights({"1.bias": w["1.bias"], "1.running_var": w["1.running_var"]}).keys() == {
        "1.bias"
    }


@pytest.mark.parametrize(
    ("layer", "dense"),
    [(nn.Linear(2, 2), True), (nn.Conv1d(1, 1, 1), False), (nn.LSTM(2, 2), False)],
)
def test_which_networks_a_processor_batches_well(layer: nn.Module, dense: bool) -> None:
    """Those of matrix products alone."""
    assert Network(nn.Sequential(layer)).dense == dense
