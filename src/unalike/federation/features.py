"""What was learned about features from training rows, as a record that is applied to other rows.

A run saves it beside its model, so that new rows go through the same arithmetic as those that
trained: gaps filled first, then columns or channels scaled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unalike.federation.columns import Column, Scale


@dataclass(frozen=True)
class Features:
    """Fills and scales; where there is none of them, rows stay as they are."""

    columns: tuple[Column, ...] = ()  # of a table, as the model sees them; empty: no table
    fill: Tensor | None = None  # [width] what a gap gets
    scale: Scale = "none"
    mean: Tensor | None = None  # over all training rows; what strangers are scaled by
    spread: Tensor | None = None
    own_mean: Tensor | None = None  # [clients, width], if each client's rows are scaled by its own
    own_spread: Tensor | None = None

    def apply(self, x: Tensor, owner: Tensor | None = None) -> Tensor:
        """Rows as the model takes them; ``owner`` says whose they are, nobody's if left out."""
        if self.fill is not None:
            x = torch.where(x.isnan(), self.fill, x)
        if self.mean is None or self.spread is None:
            return x
        if self.scale == "pooled":
            return (x - self.mean) / self.spread
        mean, spread = self.mean, self.spread
        if owner is not None and self.own_mean is not None and self.own_spread is not None:
            mean, spread = self.own_mean[owner], self.own_spread[owner]
        return ((x.double() - mean) / spread).float()

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it; no digit is lost."""
        columns, start = [], 0
        for column in self.columns:
            end = start + column.width
            fill = None if self.fill is None else self.fill[start:end].tolist()
            columns.append({**column._asdict(), "fill": fill})
            start = end
        numbers = {"mean": self.mean, "spread": self.spread}
        numbers |= {"own_mean": self.own_mean, "own_spread": self.own_spread}
        return {
            "columns": columns,
            "scale": self.scale,
            **{k: None if v is None else v.tolist() for k, v in numbers.items()},
        }

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "Features":
        """From what ``as_dict`` gave."""
        columns = tuple(
            Column(c["name"], c["width"], c["role"], tuple(c["levels"]), c["base"])
            for c in raw["columns"]
        )
        filled = [value for c in raw["columns"] for value in c["fill"] or ()]
        dtype = torch.float64 if raw["scale"] == "client" else torch.float32

        def tensor(name: str) -> Tensor | None:
            return None if raw[name] is None else torch.tensor(raw[name], dtype=dtype)

        return cls(
            columns,
            torch.tensor(filled) if columns else None,
            raw["scale"],
            tensor("mean"),
            tensor("spread"),
            tensor("own_mean"),
            tensor("own_spread"),
        )


UNTOUCHED = Features()
