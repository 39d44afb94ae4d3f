"""Latent-space weights: clients whose data look unlike a VAE's prior weigh less.

d_k = mean over latent dimensions of W1(z_k, N(0, 1));   p_k ~ max(0, n_k / n - a d_k + b)

two_stage: a VAE is trained by FedAvg to the end; d is measured once with its encoder; training
starts again with the fixed weights. every / after_warmup: the VAE that is being trained measures
itself. The rule is in ``parts/mixing/latent_disco.py``. a = 0 is FedAvg.
"""

from dataclasses import replace
from math import prod
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from unalike.algorithms.method import Draft, Method, Slot
from unalike.errors import ConfigError
from unalike.parts.mixing.base import Mixing
from unalike.parts.mixing.disco import AllZero, Disco
from unalike.parts.mixing.latent_disco import AskedLatentDisco, ReportedLatentDisco
from unalike.parts.mixing.latents import Distance, Embed, LatentDistance, Latents, read_encoder
from unalike.parts.topology import Star
from unalike.tasks import Autoencoding


class LatentDisco(Method):
    """Clients whose data are far from normal in a VAE's latent space weigh less."""

    slot: ClassVar[Slot] = "weights"
    paper: ClassVar[str] = "Latent-space discrepancy weights, on FedDisco's rule (arXiv 2305.19229)"

    a: float = Field(default=0.5, ge=0, description="how much a distance costs (alpha)")
    b: float = Field(default=0.0, ge=0, description="what every client is given on top")
    refresh: Literal["two_stage", "every", "after_warmup"] = Field(
        default="two_stage",
        description="distances from a VAE trained before, renewed every so many rounds, or taken "
        "once after a warm-up",
    )
    every: int = Field(default=1, ge=1, description="rounds between two distances, if every")
    warmup: int = Field(
        default=1, ge=0, description="rounds weighted by size alone, if after_warmup"
    )
    encoder: str = Field(
        default="",
        description="safetensors file or folder of a finished VAE run, if two_stage; if empty, the "
        "first stage is run as well",
    )
    embed: Embed = Field(default="sample", description="latent variables: sampled, or their means")
    w1: Distance = Field(
        default="exact", description="distance from N(0, 1) itself, or from draws of it"
    )
    draws: int = Field(default=1_000_000, ge=1, description="number of draws, if sampled")
    draws_seed: int = Field(default=0, ge=0, description="seed of the draws, if sampled")
    normalise: bool = Field(default=False, description="divide distances by their sum")
    on_all_zero: AllZero = Field(
        default="size",
        description="weights where the formula gives none: sizes, an error, or all to the least "
        "distance",
    )

    @model_validator(mode="after")
    def _no_idle_setting(self) -> Self:
        belongs = {
            "encoder": ("refresh", "two_stage"),
            "every": ("refresh", "every"),
            "warmup": ("refresh", "after_warmup"),
            "draws": ("w1", "sampled"),
            "draws_seed": ("w1", "sampled"),
        }
        for name, (other, value) in belongs.items():
            changed = getattr(self, name) != type(self).model_fields[name].default
            if changed and getattr(self, other) != value:
                raise ValueError(f'{name} belongs to {other} = "{value}"; leave it out')
        return self

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        return replace(draft, mixing=self._rule(draft))

    def _rule(self, draft: Draft) -> Mixing:
        rule = Disco(self.a, self.b, self.on_all_zero)
        gauge = LatentDistance(self.embed, self.w1, self.draws, self.draws_seed)
        if self.refresh == "two_stage":
            if not self.encoder:
                raise ConfigError(
                    "method 'latent_disco' needs a trained autoencoder here: set method.encoder to "
                    "the folder of a finished VAE run, or start it by 'unalike run', which runs "
                    "that stage as well."
                )
            weights = read_encoder(self.encoder, prod(draft.shape))
            return AskedLatentDisco(Latents(weights, gauge), rule, self.normalise)
        if not isinstance(draft.task, Autoencoding):
            raise ConfigError(
                f"method 'latent_disco' with refresh = \"{self.refresh}\" measures the model that "
                'is trained, which must be an autoencoder: set model.name = "vae", or use '
                'refresh = "two_stage".'
            )
        if not isinstance(draft.topology, Star):
            raise ConfigError(
                f"method 'latent_disco' with refresh = \"{self.refresh}\" needs one server that "
                'remembers distances: set topology.name = "star", or use refresh = "two_stage".'
            )
        when = (0, self.every) if self.refresh == "every" else (self.warmup, 0)
        return ReportedLatentDisco(gauge, rule, *when, self.normalise)
