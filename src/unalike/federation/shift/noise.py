"""Feature skew by noise (Li, Diao, Chen & He 2022): Gaussian, of level i/N for client i of N.

The clients are counted in random order; the mark "noise 0.05" says how much a client has.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.shift.base import Shift

if TYPE_CHECKING:
    from unalike.federation.data import Federation

CHUNK = 8192  # examples changed at once, which bounds the memory beyond the copy itself


class Noise(Shift):
    """Each client's features get Gaussian noise of their own strength."""

    level: float = Field(
        default=0.1,
        ge=0,
        allow_inf_nan=False,
        description="largest standard deviation; the others have level i/N, i from 1 to N - 1",
    )

    def apply(self, federation: "Federation", rng: np.random.Generator) -> "Federation":
        """Adds the noise to all parts of every client, the new ones included."""
        import torch

        examples = federation.examples
        if not examples.x.is_floating_point():
            raise DataError(
                f"noise needs real-valued features, got {examples.x.dtype}; leave the shift out."
            )
        clients = federation.n_clients + federation.n_new
        of_client = self.level * (rng.permutation(clients) + 1) / clients
        deviation = torch.from_numpy(of_client[federation.owner]).to(examples.x)
        x = examples.x.clone()
        per_example = [-1] + [1] * (x.ndim - 1)
        for start in range(0, len(x), CHUNK):
            rows = slice(start, start + CHUNK)
            drawn = torch.from_numpy(rng.standard_normal(x[rows].shape, dtype=np.float32))
            x[rows] += deviation[rows].reshape(per_example) * drawn.to(x)
        noisy = replace(federation, examples=replace(examples, x=x))
        return noisy.marked([f"noise {level:.3g}" for level in of_client])
