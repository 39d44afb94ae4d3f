"""The beta-VAE: an explicit sample, a separate encoder, and vmap."""

import pytest
import torch
from torch.func import functional_call, grad, vmap

from unalike.models.vae import BetaVAE


def test_sample_is_mean_plus_scaled_noise() -> None:
    """Decoding mean + sigma * noise by hand gives the reconstruction."""
    torch.manual_seed(0)
    net = BetaVAE(hidden=[7, 5], latent=3).build((2, 4), 1)
    x, noise = torch.randn(6, 2, 4), torch.randn(6, 3)

    reconstruction, mean, log_sigma = net(x, noise)
    alone = net.encoder(x)

    torch.testing.assert_close((mean, log_sigma), alone)
    torch.testing.assert_close(reconstruction, net.decoder(mean + log_sigma.exp() * noise))
    assert reconstruction.shape == x.shape
    assert mean.shape == log_sigma.shape == (6, 3)
    assert ((reconstruction > 0) & (reconstruction < 1)).all()
    assert not torch.allclose(reconstruction, net(x, torch.zeros_like(noise))[0])


@pytest.mark.filterwarnings("error")
def test_gradients_of_a_cohort() -> None:
    """One vmap over clients equals the clients one by one."""
    torch.manual_seed(0)
    net = BetaVAE(hidden=[6, 5]).build((1, 3, 3), 1).double()
    stacked = {
        n: torch.stack([p.detach(), p.detach() + 0.1 * torch.randn_like(p)])
        for n, p in net.named_parameters()
    }
    x, noise = torch.rand(2, 4, 1, 3, 3).double(), torch.randn(2, 4, 2).double()

    def loss(w: dict[str, torch.Tensor], x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        y, mean, log_sigma = functional_call(net, w, (x, noise))
        divergence = -0.5 * (1 + 2 * log_sigma - mean**2 - (2 * log_sigma).exp()).sum()
        return ((y - x) ** 2).sum() + divergence

    together = vmap(grad(loss))(stacked, x, noise)
    for k in range(2):
        alone = grad(loss)({n: p[k] for n, p in stacked.items()}, x[k], noise[k])
        for n, g in alone.items():
            torch.testing.assert_close(together[n][k], g, atol=1e-10, rtol=1e-8)
