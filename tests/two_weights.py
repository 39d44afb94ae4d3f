"""The library's side of the model of two numbers that ``by_hand`` does on paper."""

import numpy as np
import torch
from by_hand import COUNTS, OWN, POINTS, SIZES
from federations import Data, Handmade, rows_of
from torch import Tensor

from unalike.batches import Batch
from unalike.federation.data import Examples
from unalike.tree import Params

NAMES = ("f.weight", "g.weight")  # a layer each


def model(w: np.ndarray) -> Params:
    """Two numbers as weights."""
    return {name: torch.tensor(v, dtype=torch.float64) for name, v in zip(NAMES, w, strict=True)}


class TwoWeights(Handmade):
    """The library's side of the same model; whoever draws a model of his own gets the same."""

    def init(self, key: torch.Tensor) -> Params:
        """SuPerFed's local ends."""
        return model(OWN)

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row."""
        f, g = (w[name] for name in NAMES)
        return 0.5 * (g * f * batch.x[:, 0] - batch.x[:, 1]) ** 2


def _data() -> Data:
    sizes = [int(n) for n in SIZES]
    points = torch.from_numpy(POINTS).repeat_interleave(torch.tensor(sizes), 0)
    labels = [c for row in COUNTS for c, n in enumerate(row) for _ in range(int(n))]
    return Data(Examples(points, torch.tensor(labels), 3), rows_of(sizes))


DATA, TASK = _data(), TwoWeights(NAMES)
