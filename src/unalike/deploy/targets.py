"""Numbers to predict, over all sites: their ranges and their scale, learned from counts and sums.

ranges    as ``federation/readers/targets.py`` makes them of all rows in one place: the coordinator
          halves intervals, and sites count how many values are not above the middles; after
          65 questions they hold the quantiles
scale     sums over training rows, then sums of squares around the common mean
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from unalike.deploy.messages import MessageError, fitted
from unalike.deploy.preparing import Ask
from unalike.errors import RunError
from unalike.federation.data import Examples
from unalike.federation.readers.targets import shares
from unalike.kinds import Unit
from unalike.tree import Tree

HALVINGS = 65  # of all 64-bit numbers
LARGEST = float(np.finfo(np.float64).max)
ASKED = ("target_at_most", "target_sums", "target_mean")


# At a site.


def counted(y: Tensor, train: Tensor, asked: dict[str, Tensor]) -> Tree:
    """A site's answer to a question about its target; ``train`` are its training rows."""
    named = {name[2:-2]: x for name, x in asked.items()}
    y = y.double()
    if "target_at_most" in named:
        bounds = named["target_at_most"]
        if bounds.ndim != 1 or bounds.dtype != torch.float64 or len(bounds) > 1000:
            raise MessageError("the bounds of a target are not a few numbers.")
        return {"below": torch.stack([(y <= b).sum() for b in bounds])}
    if "target_sums" in named:
        return {"n": torch.tensor(len(train)), "sum": y[train].sum()}
    like = {"target_mean": torch.zeros((), dtype=torch.float64)}
    mean = fitted(asked, like, "a mean")["target_mean"]
    return {"squares": ((y[train] - mean) ** 2).sum()}


def ranged(examples: Examples, told: dict[str, Tensor]) -> Examples:
    """Examples whose targets are in the ranges of all sites."""
    edges, count = told["['edges']"].double().numpy(), int(told["['ranges']"])
    if edges.ndim != 1 or not 2 <= count <= len(edges) + 1 or not len(edges) <= count:
        raise MessageError("the ranges of the target are malformed.")
    ranges = np.searchsorted(edges, examples.y.numpy(), side="left").clip(max=count - 1)
    names = [f"at most {edge:.4g}" for edge in edges] + [f"above {edges[-1]:.4g}"]
    return replace(
        examples, ranges=ranges.astype(np.int64), classes=count, class_names=tuple(names[:count])
    )


def scaled(examples: Examples, told: dict[str, Tensor]) -> Examples:
    """Examples whose targets are scaled as those of all sites are."""
    unit = unit_of({name[2:-2]: x for name, x in told.items()})
    y = ((examples.y.double() - unit.centre) / unit.spread).float()
    return replace(examples, y=y, unit=unit)


def unit_of(told: Tree) -> Unit:
    """The scale that was learned."""
    return Unit(float(told["centre"]), float(told["unit"]))


# At the coordinator.


def learned(rows: int, ask: Ask) -> Tree:
    """Edges of the ranges, their number, and the scale, from questions to the sites."""
    edges = np.unique(_quantiles(rows, ask))
    bounds = torch.from_numpy(edges)
    (*_, below) = _below(bounds, ask).tolist()
    told = {"edges": bounds, "ranges": torch.tensor(len(edges) + (below < rows))}
    if int(told["ranges"]) < 2:
        raise RunError(
            f"all values of the target are {edges[0]:g} at all sites, so there is nothing to learn."
        )
    so_far = {f"so_far_{k}": v for k, v in told.items()}
    zero, whole = torch.zeros((), dtype=torch.float64), torch.tensor(0)
    sums = ask({"target_sums": whole, **so_far}, {"n": whole, "sum": zero})
    n = sum(int(s["n"]) for s in sums)
    centre = torch.stack([s["sum"] for s in sums]).sum() / n
    found = ask({"target_mean": centre, **so_far}, {"squares": zero})
    spread = (torch.stack([s["squares"] for s in found]).sum() / n).sqrt()
    unit = torch.where(spread > 1e-12 * centre.abs(), spread, torch.ones_like(spread))
    return {**told, "centre": centre, "unit": unit}


def _quantiles(rows: int, ask: Ask) -> np.ndarray:
    """The values at which ranges end, each found by halving."""
    rank = np.floor((rows - 1) * shares(rows)).astype(np.int64) + 1
    low, high = [-(1 << 63)] * len(rank), [(1 << 63) - 1] * len(rank)
    for _ in range(HALVINGS):
        middle = [(a + b) // 2 for a, b in zip(low, high, strict=True)]
        enough = (_below(torch.from_numpy(_floats(middle)), ask).numpy() >= rank).tolist()
        for k, found in enumerate(enough):
            low[k], high[k] = (low[k], middle[k]) if found else (middle[k] + 1, high[k])
    return _floats(high)


def _below(bounds: Tensor, ask: Ask) -> Tensor:
    """How many values of all sites are not above each bound."""
    like = {"below": torch.zeros(len(bounds), dtype=torch.long)}
    return torch.stack([f["below"] for f in ask({"target_at_most": bounds}, like)]).sum(0)


def _floats(ordered: list[int]) -> np.ndarray:
    """Whole numbers of 64 bits as floats in the same order; what is none becomes the largest."""
    bits = [i if i >= 0 else -(1 << 63) - 1 - i for i in ordered]
    floats = np.array([b % (1 << 64) for b in bits], dtype=np.uint64).view(np.float64)
    ends = np.where(np.array(ordered, dtype=object) >= 0, LARGEST, -LARGEST).astype(np.float64)
    return np.where(np.isfinite(floats), floats, ends)
