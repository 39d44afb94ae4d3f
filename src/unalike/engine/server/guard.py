"""Updates are checked before they count: one broken client must not spoil a round."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from unalike import tree
from unalike.errors import RunError
from unalike.tree import Tree

INSANE = 1e6  # times its own length that a model may grow in a round
ENORMOUS = 1e15  # the length that no trained model has, however slowly it got there


@dataclass(frozen=True)
class Guard:
    """Which answers are refused, and what happens when too few are left.

    An update is too long if it is longer than the model by a factor that no training has, or if it
    is both far longer than the others' and longer than the model: next to clients that have
    converged an honest one may be thousands of times longer, and most of a round may explode.
    """

    explode: float = 1000.0  # times the median length, or times the model's
    min_replies: int = 1
    too_few: Literal["skip", "stop"] = "skip"

    def usable(self, norms: Tensor, scale: float) -> Tensor:
        """Which updates, of these lengths, may count; ``scale`` is the length of the model."""
        finite = torch.isfinite(norms)
        size = max(scale, 1.0)
        typical = norms[finite].median() if finite.any() else torch.tensor(torch.inf)
        # If most did nothing there is nothing to compare with: doing something is not suspicious.
        wild = (norms > self.explode * typical) & (norms > size) & (typical > 0)
        return finite & ~wild & ~(norms > self.explode * size)

    def check(self, ids: Tensor, norms: Tensor, scale: float) -> tuple[Tensor, dict[int, str]]:
        """(which are usable, the refused clients and why)."""
        usable = self.usable(norms, scale)
        if bool(usable.all()):
            return usable, {}
        finite, why = torch.isfinite(norms), dict[int, str]()
        typical = float(norms[finite].median()) if finite.any() else 0.0
        for i, norm in zip(ids[~usable].tolist(), norms[~usable].tolist(), strict=True):
            if not torch.isfinite(torch.tensor(norm)):
                why[i] = "a number that is not finite"
            elif norm > self.explode * typical and typical > 0:
                times = f"{norm / typical:.0f} times the median"
                why[i] = f"an update of length {norm:.3g}, {times}"
            else:
                times = f"{norm / max(scale, 1.0):.0f} times the model"
                why[i] = f"an update of length {norm:.3g}, {times}"
        return usable, why


def refuse_insane(t: int, before: float, after: float) -> None:
    """Stop before keeping a model that no training could have led to, judging by its lengths."""
    old = max(before, 1.0)
    if not after <= min(INSANE * old, ENORMOUS):  # also if it is not a number
        raise RunError(
            f"round {t + 1} would make the model {after / old:.3g} times as long as it was, "
            f"{after:.3g}, so training has diverged; lower the learning rate of the clients or "
            "of the server, then start again or resume from the last checkpoint."
        )


class Longest:
    """The length of the longest of stacked models; those at hand are measured once."""

    def __init__(self) -> None:
        self._of: Tree = None
        self._found = 0.0

    def __call__(self, x: Tree) -> float:
        """The length, with all leaves as one vector."""
        if self._of is not x:
            self._of, self._found = x, self._measured(x)
        return self._found

    def _measured(self, x: Tree) -> float:
        if not tree.leaves(x):
            return 0.0
        first = tree.leaves(x)[0]
        rows = x if first.stride(0) else tree.map(lambda v: v[:1], x)  # copies of one are one
        return float(tree.lengths(rows).max())
