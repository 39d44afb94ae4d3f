"""Weights & Biases: a run of the project; WANDB_MODE=offline keeps it on this machine."""

from typing import Any
from uuid import uuid4

from unalike.track.base import Begun, require


class WandB:
    """One W&B run for a run; a resumed run goes on in the same one."""

    def __init__(self) -> None:
        self.module = require("wandb", "wandb")

    def begin(self, run: Begun) -> str | None:
        """Start or reopen it."""
        id = run.known or uuid4().hex[:12]
        self.run: Any = self.module.init(
            project=run.project,
            name=run.folder.name,
            dir=str(run.folder),
            config=run.config,
            id=id,
            resume="allow",
        )
        return id

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """All metrics of a step; steps it has already are ignored by W&B."""
        self.run.log(numbers, step=step)

    def end(self, failed: bool) -> None:
        """Upload the rest and close it."""
        self.run.finish(exit_code=int(failed))
