"""The exact spectral norm and the layer that divides by it."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import grad, vmap

from unalike.models.spectral import SpectralLinear, spectral_norm, without_spectral_norm


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 1_000))
def test_largest_singular_value(rows: int, columns: int, seed: int) -> None:
    """Value and gradient (the outer product of the singular vectors), for tall and wide ones."""
    matrix = torch.randn(
        rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)

    torch.testing.assert_close(spectral_norm(matrix), s[0])
    torch.testing.assert_close(grad(spectral_norm)(matrix), torch.outer(u[:, 0], v[0]))


def test_known_matrix() -> None:
    """Singular values 4 and 3, by construction."""
    matrix = torch.tensor([[0.0, 3.0, 0.0], [-4.0, 0.0, 0.0]])
    torch.testing.assert_close(spectral_norm(matrix), torch.tensor(4.0))


def test_layer_agrees_with_power_iteration() -> None:
    """Torch's own layer converges to the same output."""
    torch.manual_seed(0)
    exact = SpectralLinear(12, 5)
    iterated = nn.Linear(12, 5)
    iterated.load_state_dict(exact.state_dict())
    nn.utils.parametrizations.spectral_norm(iterated, n_power_iterations=200)
    x = torch.randn(4, 12)

    torch.testing.assert_close(exact(x), iterated(x), atol=1e-5, rtol=1e-4)


def test_layer_ignores_the_scale_of_its_matrix() -> None:
    """Also under vmap over stacked matrices, and with a gradient orthogonal to the matrix."""
    torch.manual_seed(0)
    layer = SpectralLinear(6, 3).double()
    x = torch.randn(4, 6, dtype=torch.float64)
    weights = torch.stack([layer.weight.detach() * scale for scale in (0.1, 1.0, 50.0)])

    def output(weight: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, {"weight": weight}, x)

    torch.testing.assert_close(vmap(output)(weights), output(weights[1]).expand(3, 4, 3))
    slopes = vmap(grad(lambda w: output(w).square().sum()))(weights)
    torch.testing.assert_close((slopes * weights).sum((1, 2)), torch.zeros(3).double())


def test_ordinary_layers_in_their_place() -> None:
    """The same leaves by the same names, nothing drawn, and no division."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU(), SpectralLinear(3, 2, bias=False)))
    leaves, before = net.state_dict(), torch.get_rng_state()
    plain = without_spectral_norm(net)
    assert torch.equal(torch.get_rng_state(), before)
    assert type(plain[1][1]) is nn.Linear
    assert plain.state_dict().keys() == leaves.keys()
    x = torch.randn(5, 4)
    hidden = torch.relu(x @ leaves["0.weight"].T + leaves["0.bias"])
    torch.testing.assert_close(plain(x), hidden @ leaves["1.1.weight"].T)
