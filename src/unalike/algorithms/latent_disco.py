"""Latent-space weights: clients whose data differ more from a VAE's prior count less.

d_k = mean over latent dimensions of W1(z_k, N(0, 1));   p_k ~ max(0, n_k / n - a d_k + b)

two_stage: a VAE is trained by FedAvg to the end; d is measured once with its encoder; training
starts again with the fixed weights. every / after_warmup: the VAE that is being trained measures
itself. The rule is in ``parts/mixing/latent_disco.py``. a = 0 is FedAvg.
"""

from dataclasses import replace
from math import prod
from typing import ClassVar, Literal

from unalike.algorithms.draft import Before, Draft
from unalike.algorithms.method import Method, Slot
from unalike.parts.mixing.base import Mixing
from unalike.parts.mixing.disco import AllZero, Disco
from unalike.parts.mixing.latent_disco import AskedLatentDisco, ReportedLatentDisco
from unalike.parts.mixing.latents import (
    Distance,
    Embed,
    LatentDistance,
    Latents,
    architecture,
    encoder_of,
)
from unalike.settings import setting
from unalike.tasks import Autoencoding
from unalike.traits import Trait


class LatentDisco(Method):
    """Clients whose data are far from normal in a VAE's latent space count less."""

    slot: ClassVar[Slot] = "weights"
    paper: ClassVar[str] = "Latent-space discrepancy weights, on FedDisco's rule (arXiv 2305.19229)"

    a: float = setting(
        0.5,
        "how much a distance costs (alpha)",
        ge=0,
        source="our choice: the middle one of the text's 0.1, 0.5 and 0.9",
    )
    b: float = setting(
        0.0,
        "what is added to every client's weight",
        ge=0,
        source="authors' code; the text has none",
    )
    refresh: Literal["two_stage", "every", "after_warmup"] = setting(
        "two_stage",
        "distances from a VAE trained beforehand, measured again every few rounds, or measured "
        "once after a warm-up",
        source="authors' code: it made the published results",
    )
    every: int = setting(
        1,
        "rounds between two measurements, if every",
        ge=1,
        only={"refresh": "every"},
        source="our choice: as often as possible; the text has no such mode",
    )
    warmup: int = setting(
        1,
        "rounds weighted by size alone, if after_warmup",
        ge=0,
        only={"refresh": "after_warmup"},
        source="our choice: as short as possible; the text has no such mode",
    )
    encoder: str = setting(
        "",
        "safetensors file or folder of a finished VAE run, if two_stage; if empty, the first "
        "stage runs too",
        only={"refresh": "two_stage"},
        source="our choice: the first stage runs unless a finished one is named",
    )
    embed: Embed = setting(
        "sample", "latent variables: sampled, or their means", source="authors' code"
    )
    w1: Distance = setting(
        "exact",
        "distance from N(0, 1) itself, or from draws of it",
        source="our choice: nothing is drawn; the authors' million draws are within 0.001 of it",
    )
    draws: int = setting(
        1_000_000,
        "number of draws, if sampled",
        ge=1,
        only={"w1": "sampled"},
        source="authors' code",
    )
    draws_seed: int = setting(
        0,
        "seed of the draws, if sampled",
        ge=0,
        only={"w1": "sampled"},
        source="our choice: any seed will do",
    )
    normalise: bool = setting(False, "divide distances by their sum", source="authors' code")
    on_all_zero: AllZero = setting(
        "size",
        "weights if the formula gives none: sizes, an error, or all to the smallest distance",
        source="our choice: the authors' code drops such a run, which favours the others",
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the weights; without an encoder, train one first."""
        draft = replace(draft, weights=self._rule(draft))
        if self.encoder:
            return replace(draft, builds_on=(*draft.builds_on, self.encoder))
        if self.refresh != "two_stage":
            return draft
        return replace(draft, before=Before(lambda d: replace(d, weights=None), draft.rounds))

    def _rule(self, draft: Draft) -> Mixing:
        rule = Disco(self.a, self.b, self.on_all_zero)
        gauge = LatentDistance(self.embed, self.w1, self.draws, self.draws_seed)
        if self.refresh == "two_stage":
            known = encoder_of(draft.read(self.encoder), self.encoder) if self.encoder else {}
            return AskedLatentDisco(Latents(known, gauge), rule, self.normalise)
        when = (0, self.every) if self.refresh == "every" else (self.warmup, 0)
        return ReportedLatentDisco(gauge, rule, *when, self.normalise)

    def objection(self, draft: Draft) -> str:
        """There must be an autoencoder that fits the data, and one server to remember distances."""
        trained = isinstance(draft.task, Autoencoding)
        if self.refresh == "two_stage":
            return self._misfit(draft) if self.encoder or trained else _NO_ENCODER
        if not trained:
            return (
                f"method 'latent_disco' with refresh = \"{self.refresh}\" measures the model that "
                'is trained, which must be an autoencoder: set model.name = "vae", or use '
                'refresh = "two_stage".'
            )
        if Trait.MANY_SERVERS in draft.topology.traits:
            return (
                f"method 'latent_disco' with refresh = \"{self.refresh}\" needs one server that "
                'remembers distances: set topology.name = "star", or use refresh = "two_stage".'
            )
        return self._too_rare(draft.rounds)

    def _too_rare(self, rounds: int) -> str:
        """Why distances would not be measured as often as asked for; empty if they are."""
        if self.refresh == "after_warmup" and self.warmup >= rounds > 1:
            return (
                f"method.warmup of 'latent_disco' is {self.warmup} of {rounds} rounds, which "
                "leaves none with weights by distance; lower it or raise rounds."
            )
        if self.refresh == "every" and self.every >= rounds > 1:
            return (
                f"method.every of 'latent_disco' is {self.every} of {rounds} rounds, so distances "
                "would be measured once; lower it, raise rounds, or set method.refresh = "
                '"after_warmup" with warmup = 0.'
            )
        return ""

    def _misfit(self, draft: Draft) -> str:
        rule = draft.weights
        if not (self.encoder and isinstance(rule, AskedLatentDisco)):
            return ""
        takes, have = architecture(rule.question.payload)[0], prod(draft.shape)
        if takes == have:
            return ""
        return (
            f"the autoencoder in '{self.encoder}' takes {takes} features, these data have {have}; "
            "train one on the same data."
        )


_NO_ENCODER = (
    "method 'latent_disco' needs an autoencoder, and this model is not one: train one with "
    'model.name = "vae" and name its run folder in method.encoder.'
)
