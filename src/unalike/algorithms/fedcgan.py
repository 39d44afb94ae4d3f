"""FedCGAN: an auxiliary-classifier GAN (Odena et al. 2017) trained by FedAvg, as FedEvg's rival.

Both networks are trained by every client and averaged (Rasouli et al. 2020, FedGAN).
``generated.py`` has the rounds, ``parts/generation/generators.py`` the two objectives.
"""

from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.generated import Generating
from unalike.network import Network
from unalike.parts.generation.generators import AuxiliaryGan
from unalike.parts.optim import Adam


class FedCgan(Generating):
    """Clients train a conditional GAN together; its examples train the classifier."""

    label: ClassVar[str] = "fedcgan"
    paper: ClassVar[str] = "FedCGAN, the baseline of FedEvg, on Odena et al. 2017"

    def generator(self, draft: Draft, adam: Adam) -> AuxiliaryGan:
        """One network that draws and one that judges."""
        from unalike.models.generators import discriminator, generator

        shape, classes = draft.shape, draft.classes
        kernels = draft.task.network.kernels
        draws, judges = (
            Network(make(*given), kernels=kernels, alike=(make, *given))
            for make, given in (
                (generator, (shape, classes, self.latent)),
                (discriminator, (shape, classes)),
            )
        )
        return AuxiliaryGan(draws, judges, adam, classes, self.latent)
