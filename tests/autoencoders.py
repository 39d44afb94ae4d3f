"""A small VAE as a task, and a federation it can be trained on."""

from dataclasses import replace

import torch
from federations import Data, federation

from unalike.models import MODELS
from unalike.network import Network
from unalike.tasks import Autoencoding

SHAPE = (1, 4, 4)


def vae(dtype: torch.dtype = torch.float64, **settings: float) -> Autoencoding:
    """16 features, 7 and 5 hidden units, two latent variables."""
    module = MODELS["vae"](hidden=[7, 5]).build(SHAPE, 3).to(dtype)
    return replace(Autoencoding(Network(module)), **settings)


def clients(dtype: torch.dtype = torch.float64, sizes: tuple[int, ...] = (5, 9, 30, 300)) -> Data:
    """One of them has more examples than a pass takes at once."""
    return federation(SHAPE, sizes, dtype=dtype)
