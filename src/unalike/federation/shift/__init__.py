"""Shifts: changes of features or labels by client, found by name in one table."""

from unalike.federation.shift.base import Shift
from unalike.federation.shift.given_rows import GivenRows
from unalike.federation.shift.label_noise import LabelNoise
from unalike.federation.shift.noise import Noise
from unalike.federation.shift.public_subset import PublicSubset
from unalike.federation.shift.rotation import Rotation

SHIFTS: dict[str, type[Shift]] = {
    "rotation": Rotation,
    "noise": Noise,
    "label_noise": LabelNoise,
    "public_subset": PublicSubset,
    "given_rows": GivenRows,
}

__all__ = ["SHIFTS", "Shift"]
