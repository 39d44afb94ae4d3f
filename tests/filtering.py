"""Updates small enough to work out by hand, and what a server makes of them through a rule."""

import torch
from federations import cohort

from unalike.recipe import Filter
from unalike.tree import mean

# Five clients, two coordinates; the last one lies.
FIVE = [[1.0, 10.0], [2.0, 30.0], [4.0, 20.0], [3.0, 50.0], [1e6, -1e6]]


def used(rule: Filter, rows: list[list[float]], p: list[float] | None = None) -> list[float]:
    """What a server that sums p_k u_k gets, with the two coordinates in two leaves."""
    x = torch.tensor(rows, dtype=torch.float64)
    weights = torch.full((len(x),), 1 / len(x)) if p is None else torch.tensor(p)
    ups, kept = rule({"a": x[:, :1], "b": x[:, 1:]}, weights.double(), cohort([1.0] * len(x)))
    whole = mean(kept, ups)
    return [float(whole["a"]), float(whole["b"])]
