"""FedCGAN: an auxiliary-classifier GAN (Odena et al. 2017) trained by FedAvg, as FedEvg's rival.

Both networks are trained by every client and averaged (Rasouli et al. 2020, FedGAN).
``generated.py`` has the rounds, ``parts/generators.py`` the two objectives.
"""

from dataclasses import replace
from typing import ClassVar, cast

from torch import Tensor

from unalike.algorithms.draft import Draft
from unalike.algorithms.generated import Generated, needs_classes, needs_unit
from unalike.algorithms.method import NO_MODEL_SENT, Method, Slot
from unalike.network import Network
from unalike.parts.generators import AuxiliaryGan
from unalike.parts.optim import Adam
from unalike.settings import setting
from unalike.tasks import MultiClass
from unalike.traits import Trait


class FedCgan(Method):
    """Clients train a conditional GAN together; its examples train the classifier."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.SENDS_NO_MODEL})
    refuses = {Trait.WEIGHTS_FOLLOW_LOSSES: NO_MODEL_SENT[Trait.WEIGHTS_FOLLOW_LOSSES]}
    paper: ClassVar[str] = "FedCGAN, the baseline of FedEvg, on Odena et al. 2017"

    per_class: int = setting(
        10,
        "drawn examples of each class",
        ge=1,
        source="our choice: as FedEvg's, to be compared with",
    )
    latent: int = setting(128, "numbers of noise", ge=1, source="authors' code")
    lr: float = setting(1e-3, "Adam's rate", gt=0, source="authors' code")
    judge_epochs: int = setting(
        100,
        "epochs of the evaluating classifier",
        ge=1,
        source="our choice: as FedEvg's, to be compared with",
    )

    def change(self, draft: Draft) -> Draft:
        """Replace the algorithm."""
        return replace(draft, base=self._make)

    def objection(self, draft: Draft) -> str:
        """Examples are drawn by class."""
        return needs_classes(draft, "fedcgan")

    def misfit(self, x: Tensor) -> str:
        """The generator ends in a tanh, which is stretched to [0, 1]."""
        return needs_unit(x, "fedcgan")

    def _make(self, draft: Draft) -> Generated:
        from unalike.models.generators import discriminator, generator

        shape, classes = draft.shape, draft.classes
        players = (
            Network(generator(shape, classes, self.latent)),
            Network(discriminator(shape, classes)),
        )
        adam = Adam(self.lr, b1=0.5, weight_decay=1e-4)
        made = AuxiliaryGan(*players, adam, classes, self.latent)
        task = cast(MultiClass, draft.task)
        return Generated(task, made, classes, self.per_class, self.judge_epochs)
