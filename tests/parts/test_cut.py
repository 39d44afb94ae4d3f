"""Where a network is cut: the layer that a leaf is of, and what goes into it."""

import pytest
import torch
from federations import Named, composed, federation, play, state_of
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from unalike.network import Network
from unalike.parts.representation.cut import first_layer, tapped
from unalike.tasks import MultiClass


class Normed(nn.Module):
    """A head without a bias whose weight is computed from two leaves."""

    head = ("top.",)

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.top = nn.Linear(16, 4), weight_norm(nn.Linear(4, 3, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        return self.top(torch.tanh(self.body(x.flatten(1))))


def test_what_goes_into_a_layer_whose_weight_is_computed() -> None:
    module = Normed()
    network = Network(module)
    assert first_layer(network, ("top.",)) == "top"
    x = torch.randn(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    held = {f"inner.{n}": v for n, v in network.given().items()}
    out, h = tapped(network, ("top.",)).eval(held, x)
    assert torch.allclose(h, torch.tanh(module.body(x.flatten(1))))
    assert torch.allclose(out, module(x))


@pytest.mark.parametrize(
    "method", [("moon", {"mu": 5.0}), "fedproto", ("lg_fedavg", {"local": "supervised"})]
)
def test_methods_that_look_into_such_a_network(method: Named) -> None:
    """One by one: PyTorch has no weight normalisation of many clients in a call."""
    task, data = MultiClass(Network(Normed())), federation()
    plain = "lg_fedavg" if method[0] == "lg_fedavg" else "fedavg"
    one, other = (
        play(composed(task, data, m), data, 3, engine="sequential") for m in (method, plain)
    )
    found = [
        p.loop.recipe.algorithm.personal(
            p.loop.recipe.algorithm.broadcast(p.server), state_of(p.simulation, 0)
        )["body.weight"]
        for p in (one, other)
    ]
    assert bool(torch.isfinite(found[0]).all())
    assert not torch.equal(*found)
