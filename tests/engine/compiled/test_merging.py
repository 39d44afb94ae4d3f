"""Products of a recorded step are merged with the step of descent that uses them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from unalike.engine.compiled.merging import merge
from unalike.engine.compiled.recording import recorded
from unalike.kernels import dense
from unalike.kernels.linear import linear, product


def drawn(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


W, G, X, STEP = drawn(3, 7, 5), drawn(3, 4, 7), drawn(3, 4, 5), torch.tensor(-0.1).double()


def merged(f: Callable[..., Tensor], *args: Tensor) -> tuple[int, list[object]]:
    """(how many were merged, the operations that are left); the numbers must be the same."""
    graph = recorded(lambda *a: [f(*a)], args)
    found = merge(graph.graph)
    graph.recompile()
    (after,) = graph(*args)
    torch.testing.assert_close(after, f(*args), rtol=1e-12, atol=1e-12)
    return found, [node.target for node in graph.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize(
    "gradient",
    [
        lambda g, x: torch.bmm(g.transpose(1, 2), x),
        lambda g, x: torch.bmm(x.transpose(1, 2), g).transpose(1, 2),
        lambda g, x: torch.bmm(g.transpose(1, 2).expand(3, 7, 4).reshape(3, 7, 4), x).view(3, 7, 5),
        lambda g, x: dense.weight_gradient(x, g),
        lambda g, x: dense.weight_gradient(g, x).transpose(1, 2),
        lambda g, x: dense.weight_gradient(x, g).unflatten(0, (3, 1)).squeeze(1),
    ],
    ids=["product", "turned", "behind views", "of 16 bits", "of 16 bits, turned", "unsqueezed"],
)
def test_a_gradient_is_never_written_down(gradient):
    found, left = merged(lambda w, g, x, s: torch.addcmul(w, gradient(g, x), s), W, G, X, STEP)
    assert found == 1
    assert left == [dense.moved]


def test_a_gradient_that_others_use_stays():
    def step(w: Tensor, g: Tensor, x: Tensor, s: Tensor) -> Tensor:
        d = torch.bmm(g.transpose(1, 2), x)
        return torch.addcmul(w, d, s) + d.square().sum()

    assert merged(step, W, G, X, STEP)[0] == 0


def test_every_client_with_its_own_rate_stays():
    own = drawn(3, 1, 1)
    step = lambda w, g, x, s: torch.addcmul(w, torch.bmm(g.transpose(1, 2), x), s)
    assert merged(step, W, G, X, own)[0] == 0


def test_other_products_stay():
    """A square layer's forward product is added to something too."""
    w, a = drawn(3, 4, 4), drawn(3, 4, 5)
    step = lambda w, a, b, s: torch.addcmul(w, torch.bmm(a, b) * 2, s)
    assert merged(step, w, a, drawn(3, 5, 4), STEP)[0] == 0


@pytest.mark.parametrize(
    ("rows", "inputs", "ours"), [(10, 300, True), (17, 300, False), (10, 200, False)]
)
def test_few_rows_and_many_inputs(rows, inputs, ours):
    x, w = drawn(2, rows, inputs), drawn(2, 6, inputs)
    _, left = merged(lambda x, w: torch.bmm(x, w.transpose(1, 2)), x, w)
    assert (dense.narrow in left) == ours


@pytest.mark.parametrize(("inputs", "rows", "ours"), [(300, 5, 1), (300, 65, 0), (20, 5, 0)])
def test_weights_are_rounded_in_the_pass_of_their_product(inputs, rows, ours):
    """Of two layers the second has few inputs; rounded weights are used on the way back too."""

    def step(x: Tensor, first: Tensor, second: Tensor, b: Tensor) -> list[Tensor]:
        def loss(first: Tensor, second: Tensor, x: Tensor, b: Tensor) -> Tensor:
            h = linear(linear(x.bfloat16(), first, b).relu(), second, None)
            return linear(h, second.detach().transpose(0, 1).contiguous(), None).float().sum()

        slopes = vmap(grad(loss, argnums=(0, 1)))(first, second, x, b)
        return [
            torch.addcmul(w, d, STEP.float()) for w, d in zip((first, second), slopes, strict=True)
        ]

    given = [(3, rows, inputs), (3, inputs, inputs), (3, 4, inputs), (3, inputs)]
    args = [0.1 * drawn(*shape).float() for shape in given]
    graph = recorded(step, args)
    merge(graph.graph)
    graph.recompile()
    for a, b in zip(graph(*args), step(*args), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    left = [node.target for node in graph.graph.nodes]
    assert left.count(dense.rounded) == 2 * ours
    assert left.count(product) == 3 - 2 * ours
