"""FedAug: every client evens out its own label distribution by augmenting rare classes.

The level each class is raised to is in ``parts/transform.py``, the random variants of images are in
``parts/augment.py``. An epoch still means n_k examples, so the work equals FedAvg's; nothing extra
is sent.
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.method import Draft, Method, Slot
from unalike.parts.augment import Variants
from unalike.parts.transform import ClassBalance, Solver


class FedAug(Method):
    """Rare classes are augmented on the client until its skew is at most the target."""

    slot: ClassVar[Slot] = "data"
    paper: ClassVar[str] = "FedAug, class-balancing augmentation to a target EMD"

    target: float = Field(default=0.8, ge=0, lt=2, description="EMD every client is brought to")
    solver: Solver = Field(default="bisect", description="exact, or the published closed form")
    rotation: float = Field(default=20.0, ge=0, description="largest rotation in degrees")
    noise: float = Field(default=0.05, ge=0, description="standard deviation of added noise")
    flip: bool = Field(default=True, description="mirror images at random")
    perspective: float = Field(
        default=0.3, ge=0, le=0.6, description="corners move inwards by up to half this share"
    )
    jitter: float = Field(
        default=0.3, ge=0, le=1, description="change of brightness, contrast and saturation"
    )
    hue: float = Field(default=0.3, ge=0, le=0.5, description="change of hue, in whole turns")
    grey: float = Field(default=0.1, ge=0, le=1, description="chance of losing all colour")
    chance: float = Field(
        default=0.5, ge=0, le=1, description="chance of mirroring, of rotation and of noise"
    )
    perspective_chance: float = Field(
        default=0.5, ge=0, le=1, description="chance of a change of perspective"
    )
    jitter_chance: float = Field(
        default=0.5, ge=0, le=1, description="chance of a change of colours"
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the data transform; tables get noise only, and jitter is for three channels."""
        variants = Variants(**self.model_dump(exclude={"target", "solver"}))
        images = len(draft.shape) == 3
        return replace(draft, transform=ClassBalance(self.target, self.solver, images, variants))
