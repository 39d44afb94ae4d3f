"""Layers that take the place of PyTorch's compute the same, under the same names."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from precisions import multiplied
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from unalike.errors import RunWarning
from unalike.kernels import available, layers
from unalike.kernels.layers import Conv2d, Linear, MaxPool2d, accelerated

CUDA = pytest.param(
    "cuda",
    marks=[
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
    ],
)


# An uneven border needs a padded copy, says PyTorch
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2, padding=1),
        nn.Conv2d(16, 32, 3, padding="same", bias=False),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1, groups=32),
        nn.Conv2d(32, 8, 2, padding="same"),  # more on one side than on the other
        nn.Conv2d(8, 8, 3, padding=1, padding_mode="circular"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 2 * 2, 10),
    )


def clients(device: str, dtype: torch.dtype) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Three sets of weights and of images 14 x 14, and their classes."""
    generator = torch.Generator().manual_seed(1)
    weights = {
        n: p.detach() + 0.1 * torch.randn(3, *p.shape, generator=generator)
        for n, p in network().named_parameters()
    }
    x = torch.randn(3, 4, 3, 14, 14, generator=generator)
    y = torch.randint(10, (3, 4), generator=generator)
    return {n: w.to(device, dtype) for n, w in weights.items()}, x.to(device, dtype), y.to(device)


def gradients(net: nn.Module, device: str, dtype: torch.dtype) -> dict[str, Tensor]:
    net = net.to(device, dtype)

    def loss(w: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(net, w, (x,)).float(), y)

    return vmap(grad(loss))(*clients(device, dtype))


def gap(one: dict[str, Tensor], two: dict[str, Tensor]) -> float:
    a, b = (torch.cat([g[n].flatten().double().cpu() for n in sorted(g)]) for g in (one, two))
    return float(torch.linalg.norm(a - b) / torch.linalg.norm(b))


def test_names_and_numbers_stay():
    plain, own = network(), accelerated(network())
    assert [n for n, _ in own.named_parameters()] == [n for n, _ in plain.named_parameters()]
    kinds = [type(m) for m in own]
    assert kinds.count(Conv2d) == 5
    assert kinds.count(MaxPool2d) == 2
    assert kinds.count(Linear) == 1
    x = clients("cpu", torch.float32)[1][0]
    one, two = plain(x), own(x)
    assert torch.equal(one, two)
    for a, b in zip(
        *(
            torch.autograd.grad(y.sin().sum(), list(n.parameters()))
            for n, y in ((plain, one), (own, two))
        ),
        strict=True,
    ):
        assert torch.equal(a, b)


def test_a_map_goes_through_the_functions(monkeypatch):
    """As on a GPU, with PyTorch's operators underneath."""
    monkeypatch.setattr(layers, "available", lambda x: True)
    called = []
    real = layers.convolution
    monkeypatch.setattr(layers, "convolution", lambda *a: called.append(a) or real(*a))
    one = gradients(accelerated(network()), "cpu", torch.float64)
    two = gradients(network(), "cpu", torch.float64)
    assert len(called) == 3  # not the circular one, nor that with uneven padding
    assert gap(one, two) < 1e-12


def test_only_layers_of_pytorch_are_replaced():
    class Mine(nn.Conv2d):
        pass

    pool = nn.MaxPool2d(2)
    net = nn.ModuleList(
        [Mine(1, 1, 1), nn.MaxPool2d(2, ceil_mode=True), nn.MaxPool2d(2, return_indices=True),
         nn.Sequential(nn.ReLU(), pool), nn.Sequential(nn.Tanh(), pool)]
    )  # fmt: skip
    own = accelerated(copy.deepcopy(net))
    assert [type(m) for m in own[:3]] == [Mine, nn.MaxPool2d, nn.MaxPool2d]
    x = torch.randn(1, 1, 4, 4)
    for i in (3, 4):
        assert torch.equal(own[i](x), net[i](x))


def test_hooks_stay():
    """A spectral norm of the older kind is a hook that writes the weights before each call."""
    net = nn.Sequential(nn.utils.spectral_norm(nn.Conv2d(2, 3, 3)))
    x = torch.randn(1, 2, 5, 5)
    own = accelerated(copy.deepcopy(net)).eval()
    assert torch.equal(own(x), net.eval()(x))


@pytest.mark.parametrize(
    ("spec", "capability", "words"),
    [(None, (9, 0), "pip install triton"), (object(), (7, 5), "older than")],
)
def test_what_is_missing_is_said_once(monkeypatch, spec, capability, words):
    monkeypatch.setattr(available, "find_spec", lambda name: spec)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda i: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: "a GPU")
    available._device.cache_clear()
    try:
        with pytest.warns(RunWarning, match=words):
            assert not available._device(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not available._device(0)
    finally:
        available._device.cache_clear()


def test_a_cpu_needs_no_kernels():
    assert not available.available(torch.zeros(1))


@pytest.mark.parametrize("device", [CUDA])
@pytest.mark.parametrize("kind", ["exact", "tf32", "bf16"])
def test_a_network_on_a_gpu(device, kind, record_property):
    told = multiplied("tf32" if kind == "tf32" else "ieee")
    true = gradients(network(), "cpu", torch.float64)
    with told, torch.autocast("cuda", torch.bfloat16, enabled=kind == "bf16"):
        found = gradients(accelerated(network()), device, torch.float32)
        again = gradients(accelerated(network()), device, torch.float32)
        cudnn = gradients(network(), device, torch.float32)
    gaps = gap(found, true), gap(cudnn, true)
    record_property("gaps", gaps)
    assert gaps[0] <= {"exact": 1e-5, "tf32": 3e-2, "bf16": 1e-1}[kind], gaps
    assert all(torch.equal(found[n], again[n]) for n in found)


@pytest.mark.parametrize("device", [CUDA])
def test_a_step_can_be_recorded(device):
    """Replayed as a CUDA graph it gives the same bits."""
    net = accelerated(network()).to(device)
    w, x, y = clients(device, torch.float32)

    def loss(w: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(net, w, (x,)), y)

    first = vmap(grad(loss))(w, x, y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = vmap(grad(loss))(w, x, y)
    graph.replay()
    assert all(torch.equal(first[n], held[n]) for n in first)
