"""How far a client's data are from normal in the latent space of a variational autoencoder.

z = the latent variables of the client's m training examples, [m, L], sampled or at their means
d = 1/L sum over j of W1(column j of z, N(0, 1))

Measured by a gauge, with the autoencoder that is being trained, or asked in the survey, with one
that was trained before and travels to every client as the payload of the question.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from unalike import rng
from unalike.batches import Batches
from unalike.errors import ConfigError
from unalike.generator import seeded
from unalike.models.autoencoder import Encoder
from unalike.network import Network
from unalike.parts.mixing.questions import Own
from unalike.parts.mixing.wasserstein import NORMAL, Drawn, Reference, w1
from unalike.rng import Key
from unalike.tasks import Autoencoding, Task
from unalike.tree import Params

Embed = Literal["sample", "mean"]
Distance = Literal["exact", "sampled"]
AT_ONCE = 4096  # examples in one forward pass


@dataclass(frozen=True)
class LatentDistance:
    """The gauge: d of the received autoencoder, over the client's own examples."""

    embed: Embed = "sample"
    distance: Distance = "exact"
    draws: int = 1_000_000
    seed: int = 0

    @property
    def reference(self) -> Reference:
        """The normal distribution, or draws from it."""
        return NORMAL if self.distance == "exact" else Drawn(self.draws, self.seed)

    def __call__(self, task: Task, w: Params, whole: Batches) -> Tensor:
        """d in single precision, as it is sent."""
        assert isinstance(task, Autoencoding), "checked when the recipe was built"
        z, real = [], []
        for t in range(whole.draw.row.shape[0]):
            batch = whole.batch(t)
            z.append(task.latents(w, batch, self.embed == "sample"))
            real.append(batch.real)
        return self.mean(torch.cat(z), torch.cat(real))

    def mean(self, z: Tensor, real: Tensor | None = None) -> Tensor:
        """d of latent variables [m, L]."""
        return w1(z, real, self.reference).mean().float()


@dataclass(frozen=True, eq=False)
class Latents:
    """The question: d of a given encoder, which every client is sent.

    The payload, the encoder's weights, is empty while the stage that trains it has not ended.
    """

    payload: Params
    gauge: LatentDistance = LatentDistance()
    name: ClassVar[str] = "latent"
    reveals: ClassVar[str] = (
        "how far the examples are from normal in the encoder's latent space (1 number)"
    )

    def inherit(self, model: Params) -> Self:
        """With the encoder of an autoencoder, unless there is one already."""
        if self.payload:
            return self
        return replace(self, payload=encoder_of(model, "the first stage"))

    @cached_property
    def encoder(self) -> Network:
        """The module that the weights belong to."""
        inputs, hidden, latent = architecture(self.payload)
        with seeded(rng.key(0)):  # a new module draws; what is drawn is not used
            return Network(Encoder(inputs, hidden, latent))

    def answer(self, own: Own, key: Key) -> np.ndarray:
        """[1], from the features of all training examples of one client."""
        return self.gauge.mean(self.latents(own.features(), key)).cpu().numpy()[None]

    def latents(self, x: Tensor, key: Key) -> Tensor:
        """[m, L]: the latent variables of examples, sampled or at their means."""
        w = {k: v.to(x.device) for k, v in self.payload.items()}
        with torch.no_grad():
            parts = [self.encoder.eval(w, part) for part in torch.split(x, AT_ONCE)]
            z, log_sigma = (torch.cat(p) for p in zip(*parts, strict=True))
            if self.gauge.embed == "sample":
                noise = rng.normal(key.to(x.device), *z.shape).to(z.dtype)
                z = z + log_sigma.exp() * noise
        return z


def architecture(encoder: Params) -> tuple[int, list[int], int]:
    """(inputs, hidden units, latent variables) of an encoder, from the shapes of its weights."""
    names = (n for n in encoder if n.startswith("layers.") and n.endswith(".weight"))
    layers = [encoder[n] for n in sorted(names, key=lambda n: int(n.split(".")[1]))]
    return layers[0].shape[1], [len(w) for w in layers], len(encoder["mean.weight"])


def encoder_of(model: Params, where: str) -> Params:
    """The encoder of an autoencoder; ``where`` is what an error calls the model."""
    prefix = "encoder."
    found = {n.removeprefix(prefix): x for n, x in model.items() if n.startswith(prefix)}
    if "mean.weight" not in found or not any(n.startswith("layers.") for n in found):
        raise ConfigError(
            f"'{where}' holds no autoencoder; give the model.safetensors of a run with "
            'model.name = "vae".'
        )
    return found
