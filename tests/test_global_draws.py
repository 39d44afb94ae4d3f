"""Modules that draw from a global generator: the same bytes for the same seed, or a refusal."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import unalike
from unalike.errors import ConfigError, RunError


class Drops(nn.Module):
    """Dropout by the function, and noise by ``torch.randn_like``."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.training:
            x = F.dropout(x, 0.3) + 0.1 * torch.randn_like(x)
        return self.layer(x)


class Transformer(nn.Module):
    """Attention with dropout inside."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attend(x.flatten(1).reshape(-1, 8, 8)).flatten(1))


class Gru(nn.Module):
    """A recurrent network, which draws nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 6, batch_first=True)
        self.head = nn.Linear(6, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.gru(x.flatten(1).reshape(-1, 8, 8))[0][:, -1])


class FromNumPy(Drops):
    """Noise that no seed of a run reaches."""

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1)) + float(np.random.rand())


class Sometimes(Drops):
    """Noise that is not there yet when the module is tried."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        type(self).calls += 1
        x = x.flatten(1)
        if self.training and self.calls > 12:
            x = x + 0.1 * torch.randn_like(x)
        return self.layer(x)


class WhenJudged(Drops):
    """Noise of evaluation, which is there from the beginning or after some calls."""

    calls, first = 0, 0

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if not self.training:
            type(self).calls += 1
            if self.calls > self.first:
                x = x + 0.1 * torch.randn_like(x)
        return self.layer(x)


def trained(module: type[nn.Module], seed: int, **engine: object) -> dict[str, Tensor]:
    torch.manual_seed(5)  # the weights that the module comes with
    model = module()
    digits = unalike.federate(
        unalike.dataset("digits"), unalike.partitioner("dirichlet", clients=4), seed=seed
    )
    result = unalike.train(digits, model, rounds=2, seed=seed, engine={"workers": 2, **engine})
    assert result.model is not None
    return result.model.state_dict()


@pytest.mark.parametrize("module", [Drops, Transformer, Gru])
def test_same_seed_same_bytes(module: type[nn.Module]) -> None:
    one = trained(module, 1, kind="sequential")
    torch.randn(17)  # whatever else draws meanwhile
    two, other = trained(module, 1, kind="sequential"), trained(module, 2, kind="sequential")
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert any(not torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (Drops, r"\(it draws from PyTorch's global generator"),
        (Transformer, r"layer 'attend\.self_attn' \(MultiheadAttention\) draws from PyTorch's"),
        (Gru, "GRU: "),
    ],
)
def test_many_clients_in_one_call_are_refused_with_the_reason(
    module: type[nn.Module], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        trained(module, 1, kind="vectorized")


def test_auto_trains_them_one_by_one() -> None:
    one, auto = trained(Gru, 1, kind="sequential"), trained(Gru, 1)
    assert all(torch.equal(one[k], auto[k]) for k in one)


def test_draws_that_happen_only_sometimes_are_noticed() -> None:
    Sometimes.calls = 0
    with pytest.raises(RunError, match="drew from PyTorch's global generator in round 1"):
        trained(Sometimes, 1, kind="sequential", traced=False)


def test_noise_of_evaluation_repeats_or_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WhenJudged, "calls", 0)
    losses = []
    for stir in (3, 4):
        torch.randn(stir)  # whatever else draws meanwhile
        digits = unalike.federate(
            unalike.dataset("digits"), unalike.partitioner("iid", clients=3), seed=1
        )
        torch.manual_seed(5)
        result = unalike.train(digits, WhenJudged(), rounds=1, seed=1)
        losses.append(result.rounds[-1]["metrics"]["local"]["loss"]["mean"])
    assert losses[0] == losses[1]
    monkeypatch.setattr(WhenJudged, "calls", 0)
    monkeypatch.setattr(WhenJudged, "first", 2)
    with pytest.raises(RunError, match="drew from PyTorch's global generator in the evaluation"):
        trained(WhenJudged, 1, kind="sequential")


def test_other_generators_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="draws from NumPy's global generator"):
        trained(FromNumPy, 1)
