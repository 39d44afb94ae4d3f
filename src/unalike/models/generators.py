"""Networks that make examples of a given class, convolutional for images of 32 or 64 pixels.

The layers are those of FedEvg's authors' baselines: 4 x 4 kernels, stride 2. Examples of any other
shape get two dense layers in the place of every stack.
"""

from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn

LATENT = 128
SIDES = (32, 64)
WIDTH = 128  # of the dense layers


def convolutional(shape: tuple[int, ...]) -> bool:
    """Whether examples are images of a size that the convolutions are made for."""
    return len(shape) == 3 and shape[1] == shape[2] and shape[1] in SIDES


def _down(a: int, b: int, bias: bool) -> nn.Module:
    return nn.Conv2d(a, b, 4, 2, 1, bias=bias)


def _up(a: int, b: int, bias: bool) -> nn.Module:
    return nn.ConvTranspose2d(a, b, 4, 2, 1, bias=bias)


class ConditionalAutoencoder(nn.Module):
    """q(z | x) and p(x | z, y): the encoder sees an example, the decoder its class as well."""

    def __init__(self, shape: tuple[int, ...], classes: int, latent: int = LATENT) -> None:
        """The decoder mirrors the encoder and ends in a sigmoid."""
        super().__init__()
        self.latent = latent
        if not convolutional(shape):
            self.encoder = nn.Sequential(
                nn.Flatten(), nn.Linear(prod(shape), WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2 * latent)
            )
            self.decoder = nn.Sequential(
                nn.Linear(latent + classes, WIDTH),
                nn.ReLU(),
                nn.Linear(WIDTH, prod(shape)),
                nn.Sigmoid(),
                nn.Unflatten(1, shape),
            )
            return
        channels, side = shape[0], shape[1] // 16
        widths = [channels, 64, 64, 128, 256]
        body: list[nn.Module] = []
        for a, b in pairwise(widths):
            body += [_down(a, b, True), nn.BatchNorm2d(b), nn.ReLU()]
        inner = 256 * side * side
        self.encoder = nn.Sequential(*body, nn.Flatten(), nn.Linear(inner, 2 * latent))
        back: list[nn.Module] = [nn.Linear(latent + classes, inner), nn.ReLU()]
        back += [nn.Unflatten(1, (256, side, side))]
        for a, b in ((256, 128), (128, 64), (64, 64)):
            back += [_up(a, b, True), nn.BatchNorm2d(b), nn.ReLU()]
        self.decoder = nn.Sequential(*back, _up(64, channels, True), nn.Sigmoid())

    def forward(self, x: Tensor, noise: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(reconstruction, mean, sigma); ``label`` is one-hot."""
        mean, raw = self.encoder(x).chunk(2, 1)
        sigma = nn.functional.softplus(raw) + 1e-8
        return self.decoder(torch.cat([mean + sigma * noise, label], 1)), mean, sigma


class _Lifted(nn.Module):
    """A vector as an image of one pixel."""

    def forward(self, z: Tensor) -> Tensor:
        return z[:, :, None, None]


def generator(shape: tuple[int, ...], classes: int, latent: int = LATENT) -> nn.Module:
    """From noise and a one-hot class to an example in [-1, 1]."""
    if not convolutional(shape):
        return nn.Sequential(
            nn.Linear(latent + classes, WIDTH),
            nn.LeakyReLU(0.2),
            nn.Linear(WIDTH, prod(shape)),
            nn.Tanh(),
            nn.Unflatten(1, shape),
        )
    layers: list[nn.Module] = [
        _Lifted(),
        nn.ConvTranspose2d(latent + classes, 256, 4, 1, 0, bias=False),
    ]
    layers += [nn.BatchNorm2d(256), nn.LeakyReLU(0.2)]
    for a, b in ((256, 128), *([(128, 128)] if shape[1] == 64 else []), (128, 64)):
        layers += [_up(a, b, False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, _up(64, shape[0], False), nn.Tanh())


def discriminator(shape: tuple[int, ...], classes: int) -> nn.Module:
    """From an example in [-1, 1] to a logit of being real, and one for each class."""
    if not convolutional(shape):
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(prod(shape), WIDTH),
            nn.LeakyReLU(0.2),
            nn.Linear(WIDTH, 1 + classes),
        )
    layers: list[nn.Module] = [_down(shape[0], 64, False), nn.LeakyReLU(0.2), nn.Dropout(0.5)]
    for a, b in ((64, 128), (128, 256), *([(256, 256)] if shape[1] == 64 else [])):
        layers += [_down(a, b, False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2), nn.Dropout(0.5)]
    layers += [nn.Conv2d(256, 256, 4, 1, 0, bias=False), nn.Dropout(0.5), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(256, 1 + classes))
