"""Convolutions for many weight sets against ``F.conv2d``, on the CPU and on a GPU."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from precisions import multiplied
from torch import Tensor
from torch.func import grad, vmap

from unalike.kernels import operators, reference
from unalike.kernels.functions import convolution
from unalike.kernels.geometry import Geometry, phases

gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
GEOMETRIES = {
    f"stride {s} padding {p} dilation {d} groups {g}": Geometry(s, p, d, g)
    for s in ((1, 1), (2, 1), (3, 2))
    for p in ((0, 0), (1, 2))
    for d in ((1, 1), (2, 1))
    for g in (1, 2, 4)
}


def drawn(*shape: int, dtype: torch.dtype = torch.float64, device: str = "cpu") -> Tensor:
    generator = torch.Generator(device).manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=dtype, device=device)


def ours(geometry: Geometry) -> Callable[..., Tensor]:
    return lambda w, b, x: convolution(x, w, b, geometry).sin().sum()


def pytorchs(geometry: Geometry) -> Callable[..., Tensor]:
    g = geometry
    return lambda w, b, x: F.conv2d(x, w, b, g.stride, g.padding, g.dilation, g.groups).sin().sum()


def client_tensors(geometry: Geometry) -> tuple[Tensor, Tensor, Tensor]:
    return drawn(3, 8, 4 // geometry.groups, 3, 2), drawn(3, 8), drawn(3, 2, 4, 9, 8)


def agree(f: Callable[[Any], Any], geometry: Geometry) -> None:
    for one, two in zip(f(ours(geometry)), f(pytorchs(geometry)), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_gradients_of_many_clients(name):
    """Weights, bias and images of every client; then each of them shared by all."""
    geometry = GEOMETRIES[name]
    w, b, x = client_tensors(geometry)
    for dims, args in {
        (0, 0, 0): (w, b, x),
        (0, 0, None): (w, b, x[0]),
        (None, None, 0): (w[0], b[0], x),
        (0, None, 0): (w, b[0], x),
        (None, 0, 0): (w[0], b, x),
        (1, 0, 2): (w.movedim(0, 1), b, x.movedim(0, 2)),
    }.items():
        agree(lambda f, d=dims, a=args: vmap(grad(f, (0, 1, 2)), d)(*a), geometry)


@pytest.mark.parametrize("name", list(GEOMETRIES)[::5])
def test_second_derivatives(name):
    geometry = GEOMETRIES[name]
    w, b, x = client_tensors(geometry)

    def norm(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *a: sum((t**2).sum() for t in grad(f, (0, 1, 2))(*a))

    agree(lambda f: vmap(grad(norm(f), (0, 1, 2)))(w, b, x), geometry)


@pytest.mark.parametrize("name", list(GEOMETRIES)[::5])
def test_maps_inside_maps(name):
    """Three models on each of three clients' images."""
    geometry = GEOMETRIES[name]
    w, b, x = client_tensors(geometry)
    models = (0, 0, None)
    agree(lambda f: vmap(vmap(grad(f, (0, 1, 2)), models), (None, None, 0))(w, b, x), geometry)


def test_without_bias_and_without_maps():
    geometry = Geometry(padding=(1, 1))
    w, _, x = client_tensors(geometry)
    one = vmap(grad(lambda w, x: convolution(x, w, None, geometry).sin().sum()))(w, x)
    two = vmap(grad(lambda w, x: F.conv2d(x, w, None, padding=1).sin().sum()))(w, x)
    torch.testing.assert_close(one, two)
    torch.testing.assert_close(
        convolution(x[0], w[0], None, geometry), F.conv2d(x[0], w[0], padding=1)
    )


@pytest.mark.parametrize("n", [1, 3])
def test_operators_are_registered_rightly(n):
    """Schemas, and the shapes and layouts that tracing relies on."""
    geometry = ((2, 1), (1, 0), (1, 2), 2)
    x, w, b = drawn(n, 2, 4, 9, 8), drawn(n, 6, 2, 3, 2), drawn(n, 6)
    y = operators.convolution(x, w, b, *geometry)
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(operators.convolution, (x, w, b, *geometry), test_utils=tests)
    torch.library.opcheck(operators.input_gradient, (y, w, (9, 8), *geometry), test_utils=tests)
    for bias in (True, False):
        args = (x, y, (3, 2), bias, *geometry)
        torch.library.opcheck(operators.weight_gradient, args, test_utils=tests)


def test_a_traced_step_holds_one_node_per_convolution():
    geometry = Geometry(padding=(1, 1))
    w, b, x = client_tensors(geometry)
    step = vmap(grad(ours(geometry), (0, 1, 2)))
    graph = torch.fx.experimental.proxy_tensor.make_fx(step)(w, b, x)
    called = [str(n.target) for n in graph.graph.nodes if "unalike" in str(n.target)]
    assert sorted(called) == [
        "unalike.convolution.default",
        "unalike.convolution_input_gradient.default",
        "unalike.convolution_weight_gradient.default",
    ]
    for one, two in zip(graph(w, b, x), step(w, b, x), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_phases_hold_every_tap_once(stride, dilation, padding):
    """Pairs (input, tap) of a phase's correlation are those that a convolution connects."""
    taps, pixels = 3, 11
    outputs = (pixels + 2 * padding - dilation * (taps - 1) - 1) // stride + 1
    forward = {
        (o * stride - padding + r * dilation, r, o) for o in range(outputs) for r in range(taps)
    }
    back = {
        (i + stride * j, p.last - t * p.step, j - p.padding + t * p.dilation)
        for i, p in enumerate(phases(taps, stride, padding, dilation))
        for j in range(-(-(pixels - i) // stride))
        for t in range(p.taps)
    }
    assert {b for b in back if 0 <= b[2] < outputs} == {f for f in forward if 0 <= f[0] < pixels}


class Case(NamedTuple):
    """A convolution on a GPU."""

    clients: int
    images: int
    channels: int
    size: tuple[int, int]
    outputs: int
    kernel: tuple[int, int]
    geometry: Geometry
    bias: bool = True


CASES = {
    "mcmahan 1": Case(5, 50, 1, (28, 28), 32, (5, 5), Geometry(padding=(1, 1))),
    "mcmahan 2": Case(5, 50, 32, (14, 14), 64, (5, 5), Geometry(padding=(1, 1))),
    "lenet": Case(3, 9, 6, (14, 14), 16, (5, 5), Geometry()),
    "strided": Case(3, 7, 64, (9, 10), 128, (3, 3), Geometry((2, 2), (1, 1)), False),
    "strided colours": Case(3, 7, 3, (33, 31), 20, (3, 3), Geometry((2, 2), (1, 1))),
    "dilated": Case(3, 9, 48, (9, 10), 96, (3, 3), Geometry((1, 1), (2, 2), (2, 2))),
    "uneven in groups": Case(3, 9, 48, (9, 10), 96, (3, 2), Geometry((2, 3), (1, 0), (1, 2), 3)),
    "small groups": Case(3, 9, 12, (9, 9), 24, (3, 3), Geometry((1, 1), (1, 1), (1, 1), 6)),
    "depthwise": Case(3, 9, 128, (16, 16), 128, (3, 3), Geometry(padding=(1, 1), groups=128)),
    "depthwise strided": Case(3, 9, 20, (9, 11), 20, (3, 3), Geometry((2, 2), (1, 1), groups=20)),
    "1x1": Case(3, 9, 64, (7, 7), 32, (1, 1), Geometry()),
    "1x1 strided": Case(3, 7, 64, (9, 10), 128, (1, 1), Geometry((2, 2)), False),
    "wide": Case(3, 1, 256, (4, 4), 512, (3, 3), Geometry(padding=(1, 1)), False),
    "one line": Case(3, 5, 16, (1, 40), 16, (1, 9), Geometry((1, 4), (0, 4))),
    "more padding than taps": Case(3, 5, 16, (5, 5), 16, (1, 1), Geometry(padding=(2, 2))),
    "two clients, one image": Case(2, 1, 16, (3, 3), 8, (3, 3), Geometry()),
}
# ||ours - reference|| / ||reference||. A number rounded towards zero to TF32 is too small by a part
# in 2900 on average, so products are by 7e-4; bf16 rounds a result by 1.7e-3.
BOUNDS = {"exact": 1e-6, "tf32": 1e-3, "bf16": 3e-3}


def apart(one: Tensor, two: Tensor) -> float:
    if not two.numel():
        return 0.0
    return float(torch.linalg.norm(one.double() - two) / torch.linalg.norm(two))


@pytest.fixture(params=list(BOUNDS))
def precision(request):
    with multiplied("tf32" if request.param == "tf32" else "ieee"):
        yield request.param


def computed(case: Case, x: Tensor, w: Tensor, b: Tensor | None, g: Tensor) -> list[Tensor]:
    where = (
        case.geometry.stride,
        case.geometry.padding,
        case.geometry.dilation,
        case.geometry.groups,
    )
    y = operators.convolution(x, w, b, *where)
    dx = operators.input_gradient(g, w, case.size, *where)
    return [y, dx, *operators.weight_gradient(x, g, case.kernel, case.bias, *where)]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", CASES)
class TestOnGPU:
    """The kernels against PyTorch in double precision, and against themselves."""

    pytestmark = gpu

    def test_kernels(self, name, shared, precision, record_property):
        case = CASES[name]
        n, geometry, kind = case.clients, case.geometry, torch.float32
        if precision == "bf16":
            kind = torch.bfloat16
        size = geometry.size(case.size, case.kernel)

        def tensor(*shape: int) -> Tensor:
            return drawn(*shape, device="cuda").to(kind)

        x = tensor(1 if shared else n, case.images, case.channels, *case.size).expand(n, *[-1] * 4)
        w = tensor(n, case.outputs, case.channels // geometry.groups, *case.kernel)
        b = tensor(n, case.outputs) if case.bias else None
        g = tensor(n, case.images, case.outputs, *size)
        found = computed(case, x, w, b, g)

        wide = None if b is None else b.double()
        true = [
            reference.convolution(x.double(), w.double(), wide, geometry),
            reference.input_gradient(g.double(), w.double(), case.size, geometry),
            *reference.weight_gradient(x.double(), g.double(), case.kernel, case.bias, geometry),
        ]
        gaps = [apart(one, two) for one, two in zip(found, true, strict=True)]
        record_property("gaps", gaps)
        assert max(gaps) <= BOUNDS[precision], gaps
        for one, two in zip(found, computed(case, x, w, b, g), strict=True):
            assert torch.equal(one, two)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
@pytest.mark.filterwarnings("ignore:.*Profiler clears events")  # of which one is all we want
def test_a_map_on_a_gpu_uses_the_kernels():
    """Through vmap and grad, with images as they come: contiguous, channels first."""
    geometry = Geometry(padding=(1, 1))
    w, b = drawn(4, 32, 16, 3, 3, device="cuda"), drawn(4, 32, device="cuda")
    x = drawn(4, 6, 16, 12, 12, device="cuda")
    true = vmap(grad(pytorchs(geometry), (0, 1, 2)))(w, b, x)
    cuda = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
    with multiplied("ieee"), cuda as seen:
        found = vmap(grad(ours(geometry), (0, 1, 2)))(w.float(), b.float(), x.float())
        torch.cuda.synchronize()
    names = {e.key for e in seen.key_averages()}
    assert {"correlate", "weight_gradient"} <= names, names
    assert max(map(apart, found, true)) < 1e-5
