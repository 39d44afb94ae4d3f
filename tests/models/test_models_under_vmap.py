"""Gradients of a cohort in one vmap equal those of its clients one by one."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from unalike.models import MODELS

CLIENTS, BATCH, CLASSES = 2, 3, 4

# The smallest inputs that exercise every layer.
SMALL = [
    ("logistic", {}, (5,)),
    ("mlp", {"hidden": [7, 6], "head_layers": 2}, (5,)),
    ("two_nn", {}, (1, 4, 4)),
    ("mcmahan_2nn", {}, (1, 4, 4)),
    ("fedep_mlp", {}, (1, 4, 4)),
    ("lg_mlp", {"double_softmax": True}, (1, 4, 4)),
    ("two_cnn", {}, (1, 8, 8)),
    ("mcmahan_cnn", {}, (1, 8, 8)),
    ("lg_cnn", {}, (1, 16, 16)),
    ("feddisco_cnn", {}, (1, 16, 16)),
    ("mnist_cnn", {}, (1, 16, 16)),
    ("fmnist_cnn", {}, (1, 8, 8)),
    ("cifar_cnn", {"bn_after_relu": True}, (1, 8, 8)),
    ("vgg9", {}, (1, 16, 16)),
    ("resnet9", {}, (1, 16, 16)),
    ("resnet9", {"skip_first": False}, (1, 16, 16)),
    ("resnet10", {"width": 8, "spectral": True}, (1, 8, 8)),
    ("resnet10", {"width": 8, "activation": "relu"}, (1, 8, 8)),
    ("mobilenet", {}, (1, 37, 37)),
    ("mobilenet_small", {}, (1, 8, 8)),
    ("stacked_lstm", {"hidden": 6, "bias": True}, (5,)),
    ("stacked_lstm", {"hidden": 6, "every_step": True}, (5,)),
    ("m5", {"width": 4}, (1, 1_500)),
    ("leaf_cnn", {}, (1, 20, 20)),
]


def test_every_network_is_tried() -> None:
    """A network added to the table must also be tried here."""
    assert {name for name, _, _ in SMALL} == {n for n, m in MODELS.items() if not m.task}


@pytest.mark.filterwarnings("error")  # torch warns where vmap falls back to a loop
@pytest.mark.parametrize(("name", "settings", "shape"), SMALL, ids=lambda v: str(v))
def test_gradients_of_a_cohort(
    name: str, settings: dict[str, object], shape: tuple[int, ...]
) -> None:
    """In double precision, so that only a wrong formula can differ by 1e-9."""
    torch.manual_seed(0)
    net = MODELS[name](**settings).build(shape, CLASSES).double().eval()
    stacked = {
        n: torch.stack([p.detach() + 0.01 * torch.randn_like(p) for _ in range(CLIENTS)])
        for n, p in net.named_parameters()
    }
    if name == "stacked_lstm":
        x = torch.randint(CLASSES, (CLIENTS, BATCH, *shape))
    else:
        x = torch.randn(CLIENTS, BATCH, *shape, dtype=torch.float64)

    together = vmap(grad(_loss, argnums=1), in_dims=(None, 0, 0))(net, stacked, x)
    outputs = vmap(functional_call, in_dims=(None, 0, 0))(net, stacked, x)
    for k in range(CLIENTS):
        alone = {n: p[k] for n, p in stacked.items()}
        torch.testing.assert_close(outputs[k], functional_call(net, alone, x[k]))
        for n, g in grad(_loss, argnums=1)(net, alone, x[k]).items():
            torch.testing.assert_close(together[n][k], g, atol=1e-9, rtol=1e-7)
            assert g.abs().sum() > 0, f"{n} has no influence"


def _loss(net: nn.Module, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    logits = functional_call(net, weights, x).reshape(-1, CLASSES)
    return F.cross_entropy(logits, torch.arange(len(logits)) % CLASSES)
