"""FedAug: every client evens out its own label distribution by augmenting rare classes.

The level each class is raised to is in ``parts/augmentation/transform.py``, the random variants of
images are in ``parts/augmentation/variants.py``. An epoch still means n_k examples, so the work
equals FedAvg's; nothing extra is sent.
"""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import Method, Slot
from unalike.parts.augmentation.transform import ClassBalance, Solver
from unalike.parts.augmentation.variants import Variants
from unalike.settings import setting

_STRENGTH = "our choice: the text names it without its strength"
_CHANCES = "our choice: the text gives no chances"

_ROTATION_ALONE = "text: it names only the rotation of the affine map"


class FedAug(Method):
    """Rare classes are augmented on the client until its skew is at most the target."""

    slot: ClassVar[Slot] = "data"
    paper: ClassVar[str] = "FedAug, class-balancing augmentation to a target EMD"

    target: float = setting(
        0.8,
        "highest EMD that a client may have after augmentation",
        ge=0,
        lt=2,
        source="text: the EMD of the combined run",
    )
    solver: Solver = setting(
        "bisect",
        "exact, or the published closed form",
        source="our choice: the published closed form misses the target on some counts",
    )
    rotation: float = setting(20.0, "largest rotation in degrees", ge=0, source="text")
    noise: float = setting(0.05, "standard deviation of added noise", ge=0, source=_STRENGTH)
    flip: bool = setting(True, "mirror images at random", source="text")
    perspective: float = setting(
        0.3, "corners move inwards by up to half this share", ge=0, le=0.6, source=_STRENGTH
    )
    jitter: float = setting(
        0.3, "change of brightness, contrast and saturation", ge=0, le=1, source=_STRENGTH
    )
    hue: float = setting(
        0.3,
        "change of hue, in whole turns",
        ge=0,
        le=0.5,
        source="our choice: as strong as the jitter; the text names none",
    )
    grey: float = setting(
        0.1,
        "chance of losing all colour",
        ge=0,
        le=1,
        source="our choice: the text names it without its chance",
    )
    chance: float = setting(
        0.5,
        "chance of mirroring, of rotation, of shift with scale and shear, and of noise",
        ge=0,
        le=1,
        source=_CHANCES,
    )
    perspective_chance: float = setting(
        0.5, "chance of a change of perspective", ge=0, le=1, source=_CHANCES
    )
    jitter_chance: float = setting(
        0.5, "chance of a change of colours", ge=0, le=1, source=_CHANCES
    )

    shift: float = setting(
        0.0, "largest shift, as a share of a side", ge=0, le=1, source=_ROTATION_ALONE
    )
    scale: float = setting(
        0.0, "change of size: a factor within 1 ± scale", ge=0, lt=1, source=_ROTATION_ALONE
    )
    shear: float = setting(0.0, "largest shear in degrees", ge=0, lt=60, source=_ROTATION_ALONE)

    def change(self, draft: Draft) -> Draft:
        """Fill the data transform; tables get noise only, and jitter is for three channels."""
        variants = Variants(**self.model_dump(exclude={"target", "solver"}))
        images = len(draft.shape) == 3
        return replace(draft, transform=ClassBalance(self.target, self.solver, images, variants))
