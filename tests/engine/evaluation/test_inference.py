"""Maxima and products that a CPU computes in another way, against PyTorch's own and by hand."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from federations import network_task
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from unalike.engine.evaluation import inference as ways
from unalike.engine.evaluation.inference import Quick, products, quick
from unalike.engine.evaluation.judging import outputs

CPU = torch.device("cpu")


class Watching(TorchFunctionMode):
    """Whether each maximum over images is taken with channels last; seen from outside ``Quick``."""

    def __init__(self) -> None:
        super().__init__()
        self.last: list[bool] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in ways.MAXIMA:
            self.last.append(args[0].is_contiguous(memory_format=torch.channels_last))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("channels", [1, 3, 4, 6, 32])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [(2, 2, 0, 1), (2, 2, 1, 1), (3, 2, 1, 1), (3, 1, 0, 2), (5, 5, 0, 1)],
)
def test_maxima_are_the_same_bits(
    channels: int, kernel: int, stride: int, padding: int, dilation: int
) -> None:
    drawn = torch.Generator().manual_seed(channels)
    x = torch.randn(7, channels, 11, 12, generator=drawn)
    x[0, 0, 3, 3] = torch.nan
    layer = nn.MaxPool2d(kernel, stride, padding, dilation)
    with torch.no_grad():
        wanted = layer(x)
        with Watching() as watching, Quick():
            found = layer(x)
            again = torch.max_pool2d(x, kernel, stride, padding, dilation)
    assert watching.last == [channels >= 4 or channels == 1] * 2  # one channel is in any order
    assert found.equal(again) or found.isnan().any()
    assert found.is_contiguous()
    assert torch.equal(found.nan_to_num(9.0), wanted.nan_to_num(9.0))
    assert found.isnan().equal(wanted.isnan())


def test_images_with_channels_last_stay_so() -> None:
    x = torch.randn(3, 8, 6, 6).contiguous(memory_format=torch.channels_last)
    with torch.no_grad(), Quick():
        found = F.max_pool2d(x, 2)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(found, F.max_pool2d(x, 2))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inputs", "units"), [(784, 200), (200, 10), (30, 1), (3, 65)])
def test_products_in_double_precision(inputs: int, units: int, bias: bool) -> None:
    drawn = torch.Generator().manual_seed(inputs)
    x, w = (torch.randn(n, inputs, generator=drawn) for n in (300, units))
    b = torch.randn(units, generator=drawn) if bias else None
    wanted = F.linear(x.double(), w.double(), None if b is None else b.double())
    with torch.no_grad(), Quick():
        found = F.linear(x, w, b)
    size = x.abs().double() @ w.abs().double().T + 1
    assert ((found - wanted).abs() / size).max() < 1e-6
    assert found.dtype == torch.float32


@pytest.mark.skipif(not products(), reason="this processor has its products from one library")
def test_a_row_is_the_same_in_any_company() -> None:
    """So that what a site says of its rows is what a simulation says of them."""
    x, w, b = torch.randn(1024, 784), torch.randn(200, 784), torch.randn(200)
    with torch.no_grad(), Quick():
        every = F.linear(x, w, b)
        for n in (2, 3, 7, 16, 100, 333):
            assert torch.equal(F.linear(x[:n].clone(), w, b), every[:n])


@pytest.mark.parametrize("there", [True, False])
def test_what_does_not_fit_is_pytorchs(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(ways, "products", lambda: there)
    w = torch.randn(5, 6)
    for x in (torch.randn(2, 3, 6), torch.randn(6), torch.randn(6, 4).T):
        with torch.no_grad():
            wanted = F.linear(x, w)
            with Quick():
                assert torch.equal(F.linear(x, w), wanted)
    x, w = torch.randn(4, 6).double(), w.double()
    with torch.no_grad(), Quick():
        assert torch.equal(F.linear(x, w), x @ w.T)


def test_a_gpu_has_its_own_ways() -> None:
    assert not isinstance(quick(torch.device("meta")), Quick)
    assert isinstance(quick(CPU), Quick)


def test_a_convolutional_network_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """All bits where products stay with PyTorch; and the mode is on in the threads of others."""
    monkeypatch.setattr(ways, "products", lambda: False)
    task, data = network_task("conv")
    (w, x), on = (task.network.given(), data.examples.x[:5]), list[bool]()
    real = type(task.network).eval

    def eval_(self: Any, *args: Any) -> Tensor:
        on.append(
            any(isinstance(m, Quick) for m in torch.overrides._get_current_function_mode_stack())
        )
        out: Tensor = real(self, *args)
        return out

    monkeypatch.setattr(type(task.network), "eval", eval_)
    noise = torch.zeros(len(x), 0)
    with torch.no_grad():
        wanted = real(task.network, w, x)
    assert torch.equal(outputs(task, w, x, noise), wanted)
    assert torch.equal(outputs(task, w, x, noise, torch.arange(5)), wanted)
    assert on == [True, True]
