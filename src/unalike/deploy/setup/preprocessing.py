"""Levels, fills and scales over all sites, learned from counts and sums, without sending any row.

levels    how often each level occurs in a site's training rows: those that occur nowhere are left
          out, gaps get the most frequent one
medians   of numbers, which fill gaps: the coordinator halves an interval, and sites count how many
          of their values are not above its middle; after 33 questions it holds one number
scale     sums, then sums of squares around the common mean

The result is what ``federation/prepare.py`` learns from all training rows in one place.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from unalike.deploy.wire.messages import MessageError, fitted
from unalike.errors import RunError
from unalike.federation.columns import Column, Pending
from unalike.federation.features import Features
from unalike.tree import Tree

Ask = Callable[[Tree, Tree], list[Tree]]  # (what is sent, the form of answers) -> sites' answers
HALVINGS = 33  # of all 32-bit numbers


# At a site.


def counted(rows: Tensor, told: dict[str, Tensor]) -> Tree:
    """A site's answer to a question about its training rows, as they are so far."""
    asked = {name[2:-2]: x for name, x in told.items()}
    if not asked:
        return {"n": (~rows.isnan()).sum(0), "ones": (rows == 1).sum(0), "rows": _whole(len(rows))}
    if "at_most" in asked:
        top = fitted(told, {"at_most": rows.new_zeros(2, rows.shape[1])}, "a bound")["at_most"]
        return {"below": torch.stack([(rows <= t).sum(0) for t in top])}
    x = rows.double()
    axes = [0, *range(2, x.ndim)]
    if "sums" in asked:
        dummy = ((x == 0) | (x == 1)).all(0) if x.ndim == 2 else torch.zeros(x.shape[1]) > 0
        return {"n": _whole(x.numel() // x.shape[1]), "sum": x.sum(axes), "dummy": dummy}
    if "mean" in asked:
        blank = torch.zeros(x.shape[1], dtype=torch.float64)
        mean = fitted(told, {"mean": blank}, "a mean")["mean"]
        return {"squares": ((x - _wide(mean, x)) ** 2).sum(axes)}
    raise MessageError("that is not a question about features.")


def prepared(x: Tensor, train: Tensor, told: dict[str, Tensor]) -> Tensor:
    """A site's features as all sites prepare them; ``train`` are its training rows."""
    asked = {name[2:-2]: v for name, v in told.items()}
    if "keep" in asked:
        keep = asked["keep"]
        if keep.dtype != torch.bool or keep.shape != x.shape[1:] or not bool(keep.any()):
            raise MessageError("the columns to keep are not those of this site.")
        x = x[:, keep]
        like = {"fill": torch.zeros(x.shape[1], dtype=x.dtype)}
        x = torch.where(x.isnan(), fitted(_only(told, "fill"), like, "a fill")["fill"], x)
    if "mean" not in asked:
        return x
    blank = torch.zeros(x.shape[1], dtype=torch.float64)
    like = {"mean": blank, "spread": blank, "dummy": blank > 0}
    scale = fitted(_only(told, "mean", "spread", "dummy"), like, "a scale")
    mean, spread = scale["mean"], scale["spread"]
    if "own" not in asked:
        return (x - _wide(mean, x).to(x.dtype)) / _wide(spread, x).to(x.dtype)
    own, spread = _own(x[train], spread, scale["dummy"])
    return ((x.double() - own) / spread).float()


def _own(rows: Tensor, spread: Tensor, dummy: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and spread of a site's own training rows; the common spread where they do not vary."""
    rows = rows.double()
    own = rows.mean(0)
    varies = ((rows - own) ** 2).mean(0).sqrt()
    spread = torch.where(varies > 1e-6 * own.abs(), varies, spread)
    return own.masked_fill(dummy, 0.0), spread.masked_fill(dummy, 1.0)


def features(pending: Pending, told: Tree, x: Tensor, train: Tensor | None = None) -> Features:
    """What was received, as a record that is also applied to new rows.

    ``x`` are a site's unprocessed features and ``train`` its training rows, for scaling by each
    site's own rows.
    """
    asked = {name.removeprefix("['").removesuffix("']"): v for name, v in told.items()}
    found = Features()
    if "keep" in asked:
        columns = _learned_columns(pending.columns, asked["keep"], asked["base"])
        found = Features(columns, asked["fill"])
    if "mean" not in asked:
        return found
    mean, spread = (_wide(asked[k], x)[0] for k in ("mean", "spread"))
    if "own" not in asked:
        mean, spread = mean.to(x.dtype), spread.to(x.dtype)
        return replace(found, scale="pooled", mean=mean, spread=spread)
    found = replace(found, scale="client", mean=mean, spread=spread)
    if train is None:
        return found
    before = {f"['{k}']": asked[k] for k in ("keep", "fill") if k in asked}
    own, wide = _own(prepared(x, train, before)[train], asked["spread"], asked["dummy"])
    return replace(found, own_mean=own[None], own_spread=wide[None])


def _learned_columns(columns: tuple[Column, ...], keep: Tensor, base: Tensor) -> tuple[Column, ...]:
    """Columns with the levels that training rows have."""
    found, start = [], 0
    for c in columns:
        here, first = (m[start : start + c.width].tolist() for m in (keep, base))
        start += c.width
        levels = tuple(level for level, kept in zip(c.levels, here, strict=False) if kept)
        left = "".join(level for level, out in zip(c.levels, first, strict=False) if out)
        found.append(c._replace(width=sum(here), levels=levels, base=left))
    return tuple(found)


# At the coordinator.


def learned(
    pending: Pending, features: tuple[int, ...], dtype: str, ask: Ask, gaps: bool = False
) -> Tree:
    """What sites are told to prepare their features; asks them what that takes.

    With ``gaps`` medians are found even if no training row lacks a number: other rows may.
    """
    told: dict[str, Tensor] = {}
    d = torch.zeros(features[0], dtype=torch.long)
    if pending.columns:
        found = ask((), {"n": d, "ones": d, "rows": _whole(0)})
        n, ones = (torch.stack([f[k] for f in found]).sum(0) for k in ("n", "ones"))
        keep, base, fill = _kept(pending, n, ones)
        number = _of_role(pending.columns, "number")
        if gaps or bool((n[number] < sum(f["rows"] for f in found)).any()):
            fill[number] = _medians(n[number], number, getattr(torch, dtype), ask)
        told = {"keep": keep, "base": base, "fill": fill[keep].to(getattr(torch, dtype))}
    if pending.scale == "none":
        return told
    return {**told, **_scale(pending, told, features, ask)}


def _kept(pending: Pending, n: Tensor, ones: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(the columns that stay, first levels that do not, what gaps get: the most frequent level)."""
    keep, fill = torch.ones(len(n), dtype=torch.bool), torch.zeros(len(n), dtype=torch.float64)
    base, start = torch.zeros_like(keep), 0
    for column in pending.columns:
        here = slice(start, start + column.width)
        start += column.width
        if column.role == "number":
            if not int(n[here]):
                raise RunError(
                    f"column '{column.name}' is empty in all training rows, so there is nothing "
                    "to fill it with; leave it out at every site."
                )
            continue
        fill[here.start + int(ones[here].argmax())] = 1.0
        if column.role == "levels":
            seen = ones[here] > 0
            if pending.drop_first:
                first = int(seen.int().argmax())
                seen[first], base[start - column.width + first] = False, True
            keep[here] = seen
    return keep, base, fill


def _medians(n: Tensor, number: Tensor, dtype: torch.dtype, ask: Ask) -> Tensor:
    """The medians of some columns: both middle values, each found by halving."""
    rank = torch.stack([(n - 1) // 2, n // 2]) + 1  # how many values are at most the median
    low = torch.full_like(rank, -(1 << 31))  # numbers in the order of their bits
    high = torch.full_like(rank, (1 << 31) - 1)
    width = len(number)
    for _ in range(HALVINGS):
        middle = torch.div(low + high, 2, rounding_mode="floor")
        bound = torch.zeros(2, width, dtype=dtype)
        bound[:, number] = _floats(middle).to(dtype)
        found = ask({"at_most": bound}, {"below": torch.zeros(2, width, dtype=torch.long)})
        below = torch.stack([f["below"] for f in found]).sum(0)[:, number]
        enough = below >= rank
        high, low = torch.where(enough, middle, high), torch.where(enough, low, middle + 1)
    return _floats(high).double().mean(0)


def _floats(ordered: Tensor) -> Tensor:
    """Whole numbers of 32 bits as floats in the same order; what is none becomes infinite."""
    bits = np.where(ordered >= 0, ordered, -(1 << 31) - 1 - ordered).astype(np.int64)
    floats = torch.from_numpy((bits & 0xFFFFFFFF).astype(np.uint32).view(np.float32).copy())
    ends = torch.where(ordered >= 0, torch.inf, -torch.inf)
    return torch.where(floats.isnan(), ends, floats)


def _scale(pending: Pending, told: Tree, features: tuple[int, ...], ask: Ask) -> Tree:
    keep = told.get("keep")
    d = torch.zeros(features[0] if keep is None else int(keep.sum()), dtype=torch.float64)
    with_told = {f"so_far_{k}": v for k, v in told.items()}
    sums = ask({"sums": _whole(1), **with_told}, {"n": _whole(0), "sum": d, "dummy": d > 0})
    n = torch.stack([s["n"] for s in sums]).sum()
    mean = torch.stack([s["sum"] for s in sums]).sum(0) / n
    dummy = torch.stack([s["dummy"] for s in sums]).all(0)
    squares = ask({"mean": mean, **with_told}, {"squares": d})
    spread = (torch.stack([s["squares"] for s in squares]).sum(0) / n).sqrt()
    flat = dummy | (spread <= 1e-6 * mean.abs())
    scale = {
        "mean": torch.where(dummy, 0.0, mean),
        "spread": torch.where(flat, 1.0, spread),
        "dummy": dummy,
    }
    return {**scale, "own": _whole(1)} if pending.scale == "client" else scale


def _of_role(columns: tuple[Column, ...], role: str) -> Tensor:
    """Which columns of ``x`` belong to table columns of a role."""
    return torch.tensor([c.role == role for c in columns for _ in range(c.width)])


def _wide(values: Tensor, x: Tensor) -> Tensor:
    return values.reshape(1, -1, *[1] * (x.ndim - 2))


def _only(told: dict[str, Tensor], *names: str) -> dict[str, Tensor]:
    return {f"['{n}']": told[f"['{n}']"] for n in names if f"['{n}']" in told}


def _whole(n: int) -> Tensor:
    return torch.tensor(n, dtype=torch.long)
