"""The modules of a variational autoencoder (Kingma & Welling 2014)."""

from math import prod

from torch import Tensor, nn

from unalike.models.classifier import linear_layers


class Encoder(nn.Module):
    """The parameters of a Gaussian over latent variables, given an input."""

    def __init__(self, inputs: int, hidden: list[int], latent: int) -> None:
        """Hidden layers with ReLU, then one linear layer for each parameter."""
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), *linear_layers([inputs, *hidden]), nn.ReLU())
        self.mean = nn.Linear(hidden[-1], latent)
        self.log_sigma = nn.Linear(hidden[-1], latent)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(mean, log sigma), each (batch, latent)."""
        h = self.layers(x)
        return self.mean(h), self.log_sigma(h)


class Autoencoder(nn.Module):
    """Encoder and decoder, joined by a sample z = mean + sigma * noise."""

    head: tuple[str, ...] = ("decoder.",)

    def __init__(self, shape: tuple[int, ...], hidden: list[int], latent: int) -> None:
        """The decoder mirrors the encoder and ends in a sigmoid."""
        super().__init__()
        inputs = prod(shape)
        self.latent = latent
        self.encoder = Encoder(inputs, hidden, latent)
        self.decoder = nn.Sequential(
            *linear_layers([latent, *reversed(hidden), inputs]),
            nn.Sigmoid(),
            nn.Unflatten(1, shape),
        )

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(reconstruction, mean, log sigma); ``noise`` ~ N(0, 1) is (batch, latent)."""
        mean, log_sigma = self.encoder(x)
        z = mean + log_sigma.exp() * noise
        return self.decoder(z), mean, log_sigma
