"""SuPerFed-LM on a model of two layers of one weight each: f_1 x_1 + f_2 x_2 fitted to y.

x = (1, 2), y = 1.5; w_f = (1, -0.5), w_l = (0.2, 0.8), x = (0.9, -0.4), lambda = (0.3, 0.8),
mu = 0.01, nu = 2.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from federations import (
    Handmade,
    composed,
    federation,
    network_task,
    play,
    same,
)
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from unalike import rng
from unalike.algorithm import Ctx
from unalike.algorithms.fedavg import Down, FedAvg
from unalike.algorithms.superfed import Ends, SuPerFed
from unalike.batches import Batch
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.tasks import MultiClass
from unalike.tree import Params


def layers(a: float, b: float) -> Params:
    """A model of two layers."""
    return {"one.weight": torch.tensor(a).double(), "two.weight": torch.tensor(b).double()}


W_F, W_L, X = layers(1.0, -0.5), layers(0.2, 0.8), layers(0.9, -0.4)


class Two(Handmade):
    """1/2 (w_1 + 2 w_2 - 1.5)^2."""

    def loss(self, w: Params, batch: Batch) -> tuple[Tensor, Params]:
        """Of the single example."""
        return (w["one.weight"] + 2 * w["two.weight"] - 1.5) ** 2 / 2, {}


class FromHere:
    """Local data that puts the two ends where the oracle has them, then takes one step."""

    def fold(self, step: Callable[..., Any], carry: Any, given: Any) -> Any:
        """One step from (w_f, w_l)."""
        batch = Batch(torch.zeros(1, 1), torch.zeros(1), torch.ones(1) > 0, rng.key(0))
        return step(carry._replace(theta=Ends(W_F, W_L)), batch, given)


def test_gradients_of_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """W = (0.76, 0.54); each layer's gradient is shared between its ends by its own lambda."""
    drawn = torch.tensor([0.3, 0.8], dtype=torch.float64)
    monkeypatch.setattr("unalike.algorithms.superfed.rng.uniform", lambda key, n: drawn[:n])
    method = SuPerFed(FedAvg(Two(), Sgd(1.0)), mu=0.01, nu=2.0, by_layer=True)
    one = torch.tensor(1.0)
    ctx = Ctx(torch.tensor(0), rng.key(0), one, torch.tensor(0), one > 0, one)
    up, _, kept = method.client(Down(X, ()), W_L, FromHere(), ctx)  # type: ignore[arg-type]
    f = [float(W_F[n] - up.delta[n] - X[n]) for n in X]
    l = [float(W_L[n] - kept[n]) for n in X]
    assert f == pytest.approx((-0.099824, -0.542647), abs=2e-6)
    assert l == pytest.approx((-0.894540, 0.793135), abs=2e-6)


def test_weight_and_bias_of_a_layer_share_a_place_and_layers_do_not() -> None:
    method = SuPerFed(FedAvg(Handmade()), by_layer=True)
    like = {n: torch.zeros(2) for n in ("a.weight", "a.bias", "b.c.weight", "b.c.bias", "scale")}
    found = method.mixed(rng.key(1), like)
    assert found["a.weight"] == found["a.bias"]
    assert found["b.c.weight"] == found["b.c.bias"]
    assert len({float(v) for v in found.values()}) == 3
    again = method.mixed(rng.key(2), like)
    assert all(0 <= v < 1 for v in (*found.values(), *again.values()))
    assert found["a.weight"] != again["a.weight"]


def test_places_are_uniform_and_independent() -> None:
    """Over the minibatches of a client; between two layers, and from one minibatch to the next."""
    method = SuPerFed(FedAvg(Handmade()), by_layer=True)
    keys, like = rng.fold_in(rng.key(5), torch.arange(4000)), dict.fromkeys(("a.w", "b.w"), X)
    found = torch.vmap(lambda k: torch.stack(list(method.mixed(k, like).values())))(keys).double()
    assert found.mean(0).tolist() == pytest.approx([0.5, 0.5], abs=0.02)
    assert found.var(0).tolist() == pytest.approx([1 / 12, 1 / 12], abs=0.005)
    apart = torch.corrcoef(torch.stack([found[1:, 0], found[1:, 1], found[:-1, 0]]))
    assert float((apart - torch.eye(3)).abs().max()) < 0.06  # four deviations


def test_a_layer_whose_weight_is_computed_is_one_layer() -> None:
    """Weight normalisation keeps a length and a direction a level below the layer's bias."""
    net = nn.Sequential(weight_norm(nn.Linear(3, 2)), nn.Linear(2, 2))
    method = SuPerFed(FedAvg(Handmade()), by_layer=True)
    found = method.mixed(rng.key(1), dict(net.named_parameters()))
    own, other = ({float(v) for n, v in found.items() if n[0] == i} for i in "01")
    assert (len(own), len(other), len(own | other)) == (1, 1, 2)


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
def test_on_a_model_of_one_layer_it_is_model_mixing(engine: Any) -> None:
    """Bit for bit; on two layers it is not."""
    data = federation()
    one = MultiClass(Network(nn.Sequential(nn.Flatten(), nn.Linear(16, 3))))
    for task, equal in ((one, True), (network_task("dense")[0], False)):
        mm, lm = (
            play(composed(task, data, (name, {"start": 0.0, "nu": 1.0})), data, 3, engine=engine)
            for name in ("superfed_mm", "superfed_lm")
        )
        assert same(mm.x, lm.x) == equal
        assert same(mm.kept[-1], lm.kept[-1]) == equal
