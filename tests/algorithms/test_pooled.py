"""Pooled training: one client that holds everything."""

import torch
from federations import Data, composed, distance, network_task, play
from torch import nn

from unalike import rng
from unalike.parts.optim import Sgd


def one(data: Data) -> Data:
    """All rows in one client's hands."""
    return Data(data.examples, type(data.rows)(data.rows.order, data.rows.start[[0, -1]]))


def test_it_is_plain_descent_on_all_examples() -> None:
    """Full batches: five steps of PyTorch's own optimizer."""
    task, data = network_task("dense", torch.float64)
    recipe = composed(task, data, "pooled", opt=Sgd(0.1, 0.9), epochs=5.0)
    played = play(recipe, one(data), 1, batch_size=200)
    w = {k: nn.Parameter(v.clone()) for k, v in task.init(rng.key(7)).items()}
    sgd = torch.optim.SGD(w.values(), 0.1, 0.9)
    rows = data.rows.order
    for _ in range(5):
        sgd.zero_grad()
        logits = task.network.eval(w, data.examples.x[rows])
        nn.functional.cross_entropy(logits, data.examples.y[rows]).backward()
        sgd.step()
    assert distance({k: v.detach() for k, v in w.items()}, played.x) < 1e-7


def test_data_and_losses_may_change_nothing_between_clients_may() -> None:
    """See test_composition.py for what is refused."""
    task, data = network_task("dense")
    for other in (("fedaug", {"target": 0.01}), "propfair_loss"):
        plain, both = (
            play(composed(task, data, *m), one(data), 1).x for m in (("pooled",), ("pooled", other))
        )
        assert distance(plain, both) > 1e-6
