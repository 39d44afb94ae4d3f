"""Which rows clients train on: their own, followed by those that a transform repeats."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unalike import rng
from unalike.federation.data import Examples, Rows
from unalike.recipe import Recipe


class Extended(NamedTuple):
    """The rows of some clients, one client's after the other's."""

    order: Tensor  # rows of the examples
    start: np.ndarray  # where each client's begin, and where the last one's end
    altered: Tensor  # which of them are repeats


def extended(recipe: Recipe, examples: Examples, rows: Rows, clients: range, seed: int) -> Extended:
    """The rows of these clients, the first of ``rows``, each followed by its repeats.

    Which rows are repeated depends on the seed and a client's number alone.
    """
    transform, strata = recipe.transform, examples.strata
    if transform is None:
        nothing = torch.zeros(len(rows.order), dtype=torch.bool)
        return Extended(rows.order, rows.start, nothing)
    keys, parts, marks = rng.stream(seed, "batches"), [], []
    for j, k in enumerate(clients):
        own = rows.of(j).numpy()
        again = transform.repeats(strata[own], examples.classes, rng.fold_in(keys, k))
        parts.append(np.concatenate([own, own[again]]))
        marks.append(np.arange(len(parts[-1])) >= len(own))
    start = np.concatenate([[0], np.cumsum([len(p) for p in parts])])
    order, altered = np.concatenate(parts), np.concatenate(marks)
    return Extended(torch.from_numpy(order), start, torch.from_numpy(altered))
