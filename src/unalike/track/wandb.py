"""Weights & Biases: a run of the project; WANDB_MODE=offline keeps it on this machine."""

from typing import Any
from uuid import uuid4

from unalike.track.base import FILES, Begun, require


class WandB:
    """One W&B run for a run; a resumed run continues in the same one."""

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
            reinit="create_new",  # an open run may belong to the program around us
        )
        self.folder = run.folder
        return id

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """All metrics of a step; steps it has already are ignored by W&B."""
        self.run.log(numbers, step=step, commit=True)  # not with the next step

    def end(self, failed: bool) -> None:
        """Close it, finished or failed; a finished one gets the run's small files."""
        if not failed:
            for name in FILES:
                self.run.save(str(self.folder / name), base_path=str(self.folder), policy="now")
        self.run.finish(exit_code=int(failed))
