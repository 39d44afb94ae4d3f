"""Astraea (Duan et al. 2019, Alg. 1 to 3): rare classes augmented, skewed clients put together.

before:  C_c, the examples of class c among all clients, and C, their mean over the classes;
         every example of a class below the mean is augmented until it counts (C / C_c)^alpha times
round:   mediators take clients so that their labels together are as even as can be
         (``parts/participation/mediators.py``); those of one mediator train one after the other,
         x <- x_k
         x <- x + sum_m n_m / n (x_m - x),   x_m where the last client of m arrived

One client for each mediator and alpha = 0 is FedAvg.
"""

from dataclasses import replace
from typing import ClassVar, Literal

from unalike.algorithms.counting import Counting
from unalike.algorithms.draft import Before, Draft
from unalike.algorithms.method import Method, Slot
from unalike.parts.augmentation.transform import GlobalBalance
from unalike.parts.augmentation.variants import Variants
from unalike.parts.participation.mediators import Mediated
from unalike.parts.participation.schedule import Schedule
from unalike.settings import setting
from unalike.traits import Trait

_STRENGTH = "our choice: the text names it without its strength"


class Astraea(Method):
    """Classes that are rare everywhere are augmented; mediators train clients in turn."""

    slot: ClassVar[Slot] = "schedule"
    refuses = {
        Trait.SENDS_NO_MODEL: "there is no model that a mediator could pass on",
        Trait.MANY_SERVERS: "mediators choose among all clients, and one server must see them",
        Trait.FILTERS_UPDATES: "its updates are those of mediators, one for several clients",
        Trait.ALTERS_DOWNLOADS: "clients that train later receive their mediator's model, not "
        "the server's",
        Trait.WEIGHTS_FOLLOW_LOSSES: "clients of a mediator receive different models, whose "
        "losses cannot be compared",
        Trait.ENDS_WITH_A_STAGE: "its augmentation belongs to its own rounds",
    }
    paper: ClassVar[str] = "Duan et al. 2019, arXiv 1907.01132"

    clients: int = setting(
        10,
        "most clients of a mediator (gamma)",
        ge=1,
        source="our choice: one for each of ten classes",
    )
    alpha: float = setting(
        1.0,
        "how far rare classes are augmented; 0: not at all, 1: until they are as frequent as the "
        "mean",
        ge=0,
        le=2,
        source="our choice: it evens the classes out; in the text it is a factor to be tuned",
    )
    epoch: Literal["whole", "equal"] = setting(
        "whole",
        "an epoch includes augmented examples, or has as many examples as FedAvg's",
        source="text; 'equal' is what its critics want for a fair comparison",
    )
    rotation: float = setting(15.0, "largest rotation in degrees", ge=0, source=_STRENGTH)
    shift: float = setting(0.1, "largest shift, share of a side", ge=0, le=1, source=_STRENGTH)
    shear: float = setting(10.0, "largest shear in degrees", ge=0, lt=60, source=_STRENGTH)
    scale: float = setting(0.1, "change of size: 1 ± scale", ge=0, lt=1, source=_STRENGTH)
    noise: float = setting(
        0.05,
        "standard deviation of the noise that rows of a table get",
        ge=0,
        source="our choice: as FedAug's; the text only has images",
    )

    def change(self, draft: Draft) -> Draft:
        """Put clients under mediators; count classes first, if rare ones are augmented."""
        draft = replace(draft, schedule=self._schedule)
        if not self.alpha:
            return draft
        images = len(draft.shape) == 3
        how = self.model_dump(include={"rotation", "shift", "shear", "scale"})
        how |= {"noise": 0.0 if images else self.noise, "chance": 1.0, "flip": False}
        variants = Variants(**how | dict.fromkeys(("perspective", "jitter", "hue", "grey"), 0.0))
        balance = GlobalBalance(images=images, variants=variants, power=self.alpha)
        return replace(draft, transform=balance, before=Before(self._counting, 1))

    def objection(self, draft: Draft) -> str:
        """Labels are classes, and all clients must be there to be asked."""
        if not draft.task.classifies:
            return f"method 'astraea' balances classes, and the task is {draft.task.called}."
        if draft.late is not None:
            return (
                "method 'astraea' asks all clients before the first round, and some join later; "
                "leave the late clients out."
            )
        return ""

    def _schedule(self, draft: Draft) -> Schedule:
        parts = draft.participation, draft.epochs, None, self.clients, self.alpha
        return Mediated(*parts, self.epoch == "whole")

    def _counting(self, draft: Draft) -> Draft:
        d, size = draft, (draft.task, draft.n_clients, draft.classes, draft.shape)
        plain = Draft(*size, 1, topology=d.topology, clock=d.clock, fits=d.fits)
        made = Counting(d.task, d.classes)
        return replace(plain, batch_size=d.batch_size, base=lambda _: made)
