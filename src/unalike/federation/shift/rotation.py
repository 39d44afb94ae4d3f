"""Feature skew by rotation: the rotated images of continual and clustered federated learning.

Every angle goes to equally many clients, drawn at random; the mark "turned by 90" says which.
"""

from dataclasses import replace
from math import cos, radians, sin
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, FiniteFloat

from unalike.errors import DataError
from unalike.federation.shift.base import Shift

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.federation.data import Federation

CHUNK = 8192  # images rotated at once, which bounds the memory beyond the copy itself


class Rotation(Shift):
    """Each client's images are turned by their own angle."""

    angles: list[FiniteFloat] = Field(
        default=[0.0, 90.0, 180.0, 270.0],
        min_length=1,
        description="degrees, counter-clockwise; multiples of 90 are exact",
    )
    last: int = Field(
        default=0,
        ge=0,
        description="turn only this many of the last training clients, such as those that join "
        "late; 0: all",
    )
    fill: float = Field(
        default=0.0,
        allow_inf_nan=False,
        description="value of the corners that come into view",
    )

    def apply(self, federation: "Federation", rng: np.random.Generator) -> "Federation":
        """Turns all parts, training and test, of every client, the new ones included."""
        import torch

        examples = federation.examples
        if examples.x.ndim not in (3, 4):
            raise DataError(
                f"rotation needs images [n, height, width] or [n, channels, height, width], "
                f"got features of shape {list(examples.x.shape)}; leave the shift out."
            )
        clients = federation.n_clients + federation.n_new
        dealt = np.resize(np.array(self.angles, dtype=float) % 360.0, clients)
        of_client = rng.permutation(dealt)
        if self.last:
            known = federation.n_clients
            chosen = np.arange(known - min(self.last, known), known)
            of_client = np.zeros(clients)
            of_client[chosen] = np.resize(np.array(self.angles, dtype=float) % 360.0, len(chosen))
        angle = of_client[federation.owner]
        x = examples.x.clone()
        for degrees in np.unique(angle[angle != 0]):
            rows = torch.from_numpy(np.flatnonzero(angle == degrees))
            for chunk in torch.split(rows, CHUNK):
                x[chunk] = rotated(examples.x[chunk], float(degrees), self.fill)
        turned = replace(federation, examples=replace(examples, x=x))
        told = of_client != 0 if self.last else np.ones(clients, bool)
        marks = zip(of_client, told, strict=True)
        return turned.marked([f"turned by {degrees:g}" if told else "" for degrees, told in marks])


def rotated(images: "Tensor", degrees: float, fill: float = 0.0) -> "Tensor":
    """Images rotated counter-clockwise about their centre: exactly by 90°, else bilinearly."""
    import torch
    from torch.nn import functional

    height, width = images.shape[-2:]
    if degrees % 180 == 0 or (degrees % 90 == 0 and height == width):
        return torch.rot90(images, int(degrees // 90), dims=(-2, -1))
    if degrees % 90 == 0:
        raise DataError(
            f"rotation by {degrees:g} degrees needs square images, got {height} x {width}; "
            "use multiples of 180."
        )
    if not images.is_floating_point():
        raise DataError(
            f"rotation by {degrees:g} degrees needs real-valued images, got {images.dtype}; "
            "use multiples of 90."
        )
    c, s = cos(radians(degrees)), sin(radians(degrees))
    # From output to input, in coordinates that run from -1 to 1 along either side.
    turn = torch.tensor([[c, -s * height / width, 0.0], [s * width / height, c, 0.0]])
    flat = images.reshape(len(images), -1, height, width)
    grid = functional.affine_grid(turn[None].to(images), [1, 1, height, width], align_corners=False)
    grid = grid.expand(len(flat), -1, -1, -1)
    turned = functional.grid_sample(flat - fill, grid, align_corners=False) + fill
    return turned.reshape(images.shape)
