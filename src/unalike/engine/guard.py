"""Updates are checked before they count: one broken client must not spoil a round."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from unalike import tree

if TYPE_CHECKING:
    from unalike.engine.loop import Replies


@dataclass(frozen=True)
class Guard:
    """Which answers are refused, and what happens when too few are left."""

    explode: float = 1000.0  # refuse an update longer than this many times the median
    min_replies: int = 1
    too_few: Literal["skip", "stop"] = "skip"

    def check(self, sent: "Replies") -> tuple["Replies", dict[int, str]]:
        """(the usable answers, the refused clients and why)."""
        if not len(sent.ids):
            return sent, {}
        norm = torch.zeros(len(sent.ids), dtype=torch.float64)
        if tree.leaves(sent.ups):  # who shares nothing sends nothing
            norm = tree.sqnorms(sent.ups).sqrt()
        for value in sent.stats.values():
            norm = norm + torch.where(torch.isfinite(value.cpu()), 0.0, torch.nan)
        finite = torch.isfinite(norm)
        typical = norm[finite].median() if finite.any() else torch.tensor(torch.inf)
        wild = finite & (norm > self.explode * typical) & (typical > 0)
        usable = finite & ~wild
        if usable.all():
            return sent, {}
        why = {int(i): "a number that is not finite" for i in sent.ids[~finite]}
        for i, size in zip(sent.ids[wild].tolist(), norm[wild].tolist(), strict=True):
            why[i] = f"an update of length {size:.3g}, {size / float(typical):.0f} times the median"
        keep = sent._replace(
            ids=sent.ids[usable],
            ups=tree.map(lambda x: x[usable.to(x.device)], sent.ups),
            stats={k: v[usable.to(v.device)] for k, v in sent.stats.items()},
        )
        return keep, why
