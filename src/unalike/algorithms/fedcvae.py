"""FedCVAE: a conditional VAE (Sohn et al. 2015) trained by FedAvg, as FedEvg's rival.

min R(x, x^) + beta KL(q(z | x) || N(0, 1));   the server draws x from z ~ N(0, 1) and y

``generated.py`` has the rounds, ``parts/generators.py`` the objective.
"""

from dataclasses import replace
from typing import ClassVar, cast

from torch import Tensor

from unalike.algorithms.draft import Draft
from unalike.algorithms.generated import Generated, needs_classes, needs_unit
from unalike.algorithms.method import NO_MODEL_SENT, Method, Slot
from unalike.network import Network
from unalike.parts.generators import ConditionalVae, Reduction
from unalike.parts.optim import Adam
from unalike.settings import setting
from unalike.tasks import MultiClass
from unalike.traits import Trait


class FedCvae(Method):
    """Clients train a conditional VAE together; its examples train the classifier."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.SENDS_NO_MODEL})
    refuses = {Trait.WEIGHTS_FOLLOW_LOSSES: NO_MODEL_SENT[Trait.WEIGHTS_FOLLOW_LOSSES]}
    paper: ClassVar[str] = "FedCVAE, the baseline of FedEvg, on Sohn et al. 2015"

    per_class: int = setting(
        10,
        "drawn examples of each class",
        ge=1,
        source="our choice: as FedEvg's, to be compared with",
    )
    latent: int = setting(128, "latent variables", ge=1, source="authors' code")
    beta: float = setting(1.0, "weight of the KL term", ge=0, source="authors' code")
    reduction: Reduction = setting(
        "sum",
        "squared errors of an example: their sum, or their mean",
        source="our choice: with the mean, as in the authors' code, the KL term outweighs the "
        "reconstruction and all examples look alike",
    )
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
        return needs_classes(draft, "fedcvae")

    def misfit(self, x: Tensor) -> str:
        """The decoder ends in a sigmoid."""
        return needs_unit(x, "fedcvae")

    def _make(self, draft: Draft) -> Generated:
        from unalike.models.generators import ConditionalAutoencoder

        network = Network(ConditionalAutoencoder(draft.shape, draft.classes, self.latent))
        adam = Adam(self.lr, b1=0.5, weight_decay=1e-4)
        made = ConditionalVae(network, adam, draft.classes, self.latent, self.beta, self.reduction)
        task = cast(MultiClass, draft.task)
        return Generated(task, made, draft.classes, self.per_class, self.judge_epochs)
