"""FedCVAE: a conditional VAE (Sohn et al. 2015) trained by FedAvg, as FedEvg's rival.

min R(x, x^) + beta KL(q(z | x) || N(0, 1));   the server draws x from z ~ N(0, 1) and y

``generated.py`` has the rounds, ``parts/generation/generators.py`` the objective.
"""

from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.generated import Generating
from unalike.network import Network
from unalike.parts.generation.generators import ConditionalVae, Reduction
from unalike.parts.optim import Adam
from unalike.settings import setting


class FedCvae(Generating):
    """Clients train a conditional VAE together; its examples train the classifier."""

    label: ClassVar[str] = "fedcvae"
    paper: ClassVar[str] = "FedCVAE, the baseline of FedEvg, on Sohn et al. 2015"

    beta: float = setting(1.0, "weight of the KL term", ge=0, source="authors' code")
    reduction: Reduction = setting(
        "sum",
        "squared errors of an example: their sum, or their mean",
        source="our choice: with the mean, as in the authors' code, the KL term outweighs the "
        "reconstruction and all examples look the same",
    )

    def generator(self, draft: Draft, adam: Adam) -> ConditionalVae:
        """An encoder and a decoder, of which the decoder draws."""
        from unalike.models.generators import ConditionalAutoencoder

        given = draft.shape, draft.classes, self.latent
        made = ConditionalAutoencoder(*given)
        kernels = draft.task.network.kernels
        network = Network(made, kernels=kernels, alike=(ConditionalAutoencoder, *given))
        rest = draft.classes, self.latent, self.beta, self.reduction
        return ConditionalVae(network, adam, *rest)
