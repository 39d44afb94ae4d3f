"""Questions to sites before the first round: sums for scaling, and how many rows train."""

from itertools import count

import torch
from torch import Tensor

from unalike.deploy import preparing, targets
from unalike.deploy.agreement import Agreement
from unalike.deploy.exchange import Exchange
from unalike.deploy.messages import MessageError, fitted, message
from unalike.errors import RunError
from unalike.federation.split import training_rows
from unalike.kinds import measured
from unalike.run.configuration.config import Config
from unalike.tree import Tree

COUNTS = {"n", "ones", "rows", "below", "squares"}


def ask_scales(agreed: Agreement, run: str, desk: Exchange, seconds: float) -> Tree:
    """What sites receive to prepare their features; asks them for what that needs."""
    numbers = count(1 << 41)

    def ask(tensors: Tree, like: Tree) -> list[Tree]:
        m = message("learn", run, next(numbers), "coordinator", tensors)
        got = {}
        for site, answer in desk.ask(dict.fromkeys(agreed.names, m), seconds):
            if isinstance(answer, str) or answer.kind == "refusal":
                why = answer if isinstance(answer, str) else answer.note.get("why")
                raise RunError(f"site '{site}' did not send what scaling and filling need: {why}")
            try:
                got[site] = _counted(fitted(answer.tensors, like, "an answer"))
            except MessageError as error:
                raise RunError(f"site '{site}': {error}") from None
        return [got[name] for name in agreed.names]  # sums must not depend on who answers first

    shape, told = agreed.shape, dict[str, Tensor]()
    if measured(shape.kind):
        told = targets.learned(agreed.rows, ask)
    so_far = {f"so_far_{k}": v for k, v in told.items() if k in ("edges", "ranges")}

    def ask_then(tensors: Tree, like: Tree) -> list[Tree]:
        return ask({**dict(tensors), **so_far}, like)

    given = (agreed.pending, shape.features, shape.dtype, ask_then, agreed.reading.gaps)
    return {**told, **preparing.learned(*given)}


def _counted(found: Tree) -> Tree:
    """An answer, unless it counts below zero."""
    for name in COUNTS & found.keys():
        if bool((found[name] < 0).any()):
            raise MessageError(f"an answer gives a negative '{name}'.")
    return found


def training_sizes(
    agreed: Agreement, config: Config, run: str, desk: Exchange, seconds: float
) -> Tensor:
    """Training examples of each site: as the split makes them of its rows, or as it says."""
    if agreed.units:  # only a site knows how large its units are
        return _told_sizes(agreed, run, desk, seconds)
    validation, test = config.split.validation, config.split.test
    shares = [0.0 if b else s for b, s in zip(agreed.brought, (validation, test), strict=True)]
    found = []
    for name in agreed.names:
        free = agreed.rows_of[name] - sum(agreed.given[name])
        dealt = training_rows([free], *shares)[0] if free else 0
        found.append(agreed.given[name][0] + dealt)
    return torch.tensor(found)


def _told_sizes(agreed: Agreement, run: str, desk: Exchange, seconds: float) -> Tensor:
    m, found = message("learn", run, 1 << 43, "coordinator", note={"sizes": True}), {}
    like = {"rows": torch.zeros((), dtype=torch.long)}
    for site, answer in desk.ask(dict.fromkeys(agreed.names, m), seconds):
        try:
            if isinstance(answer, str) or answer.kind == "refusal":
                raise MessageError(answer if isinstance(answer, str) else answer.note.get("why"))
            found[site] = int(fitted(answer.tensors, like, "an answer")["rows"])
        except MessageError as error:
            raise RunError(f"site '{site}' did not say how many rows train: {error}") from None
        if not 1 <= found[site] <= agreed.rows_of[site]:
            raise RunError(f"site '{site}' claims to train on {found[site]} rows.")
    return torch.tensor([found[name] for name in agreed.names])
