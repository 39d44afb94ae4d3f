"""What the targets of examples are."""

from typing import Literal

Kind = Literal["multiclass", "binary", "characters"]
