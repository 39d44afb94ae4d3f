"""The beta-VAE (Higgins et al. 2017) whose latent space measures how much clients differ."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from unalike.models.base import Model, Shape

if TYPE_CHECKING:
    from torch import nn


class BetaVAE(Model):
    """A variational autoencoder: 512 and 256 hidden units, two latent variables."""

    name: ClassVar[str] = "vae"
    takes: ClassVar[str] = "at least one feature, in an array of any shape"
    task: ClassVar[str] = "autoencoding"

    hidden: list[Annotated[int, Field(gt=0)]] = Field(
        default=[512, 256], min_length=1, description="units of the encoder's hidden layers"
    )
    latent: int = Field(default=2, ge=1, description="number of latent variables")
    beta: float = Field(
        default=1.0, ge=0, description="weight of the KL term in training; always 1 in a test"
    )
    judge: Literal["sample", "mean"] = Field(
        default="sample", description="latent variables in a test: sampled, or their means"
    )

    def options(self) -> dict[str, Any]:
        """The objective and how a row is tested."""
        return {"latent": self.latent, "beta": self.beta, "sampled": self.judge == "sample"}

    def network(self, shape: Shape, classes: int) -> "nn.Module":
        """784-512-256-2 and back for MNIST; it reconstructs, so ``classes`` plays no part."""
        from unalike.models.autoencoder import Autoencoder

        return Autoencoder(shape, self.hidden, self.latent)
