"""TensorBoard: event files in the run's folder, shown by ``tensorboard --logdir runs``."""

from typing import Any

from unalike.track.base import Begun, require


class TensorBoard:
    """One writer for a run; steps after a resume replace those that came after the checkpoint."""

    def __init__(self) -> None:
        require("tensorboard", "tensorboard")
        self.module = require("torch.utils.tensorboard", "tensorboard")

    def begin(self, run: Begun) -> str | None:
        """Open a writer; the folder is all there is to find."""
        self.writer: Any = self.module.SummaryWriter(
            str(run.folder / "tensorboard"), purge_step=run.done + 1 if run.done else None
        )
        return None

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """A point of every curve."""
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def end(self, failed: bool) -> None:
        """Close the files."""
        self.writer.close()
