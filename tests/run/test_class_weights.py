"""Rare classes count as much as frequent ones, if that is asked for."""

import numpy as np
import pytest
import torch
from torch import nn

import unalike
from unalike.batches import Batch
from unalike.network import Network
from unalike.rng import key
from unalike.tasks import MultiClass

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1], [380, 20])
X = RNG.normal(size=(400, 2)) + 1.2 * Y[:, None]


def test_weights_by_hand() -> None:
    data = unalike.federate((X, Y), "iid", validation=0, test=0)
    task = MultiClass(Network(nn.Linear(2, 2))).balanced(data.counts.sum(0))
    assert task.class_weights == pytest.approx((400 / 760, 400 / 40))
    batch = Batch(torch.zeros(2, 2), torch.tensor([0, 1]), torch.ones(2, dtype=torch.bool), key(0))
    w = {"weight": torch.zeros(2, 2), "bias": torch.zeros(2)}
    each, _ = task.training(w, batch)
    assert each.tolist() == pytest.approx([np.log(2) * 400 / 760, np.log(2) * 10])
    assert task.each_loss(w, batch).tolist() == pytest.approx([np.log(2)] * 2), "judged as ever"


def test_the_rare_class_is_found() -> None:
    def recall(weights: str) -> float:
        local = {"lr": 0.3, "class_weights": weights}
        result = unalike.train((X, Y), "logistic", rounds=10, partition="iid", local=local)
        return float(np.mean(result.predict(X[Y == 1]) == 1))

    assert recall("balanced") > recall("none") + 0.2


def test_only_for_classes() -> None:
    with pytest.raises(unalike.ConfigError, match="this is an autoencoder; leave it out"):
        unalike.train((X, Y), {"name": "vae"}, partition="iid", local={"class_weights": "balanced"})
