"""What a network cannot be computed by is found out before a run, testing included."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unalike
from unalike.federation.data import Examples


class Recurrent(nn.Module):
    """PyTorch's fused layer: it can be mapped with gradients only."""

    head = ("top.",)

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.top = nn.Embedding(7, 4), nn.Linear(5, 3)
        self.rnn = nn.LSTM(4, 5, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.top(self.rnn(self.embedding(x))[0][:, -1])


class Branching(nn.Module):
    """It looks at a number, but not in training."""

    head = ("top.",)

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.top = nn.Embedding(7, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = self.embedding(x).mean(1)
        return self.top(z if self.training or z.sum() > 0 else -z)


@pytest.mark.parametrize("module", [Recurrent, Branching])
def test_a_network_that_cannot_be_tested_for_many_clients(module: Any) -> None:
    draw = torch.Generator().manual_seed(0)
    x, y = (torch.randint(0, k, s, generator=draw) for k, s in ((7, (60, 6)), (3, (60,))))
    data = unalike.federate(Examples(x, y, 3), unalike.partitioner("iid", clients=3))
    for method in ("lg_fedavg", "ditto"):
        found = unalike.train(data, module(), method, rounds=1)
        assert found._made.simulation.engine == "sequential"
        with pytest.raises(unalike.ConfigError, match="cannot be vectorized over clients"):
            unalike.train(data, module(), method, rounds=1, engine={"kind": "vectorized"})
