"""The product as `unalike run` builds it, with the engine that it chooses by itself."""

import tempfile
from pathlib import Path

import numpy as np
from workload import LR, chosen, data, take_turns

from unalike.run.build import experiment
from unalike.run.config import parse

work, starts = chosen()
x, y = data(work)
place = Path(tempfile.mkdtemp()) / "data.npz"
owner = np.repeat(np.arange(work.clients), np.diff(starts))
few = {"x_test": x[:10], "y_test": y[:10]}  # it asks for something to judge by
np.savez(place, x_train=x[: len(owner)], y_train=y[: len(owner)], client=owner, **few)
made = experiment(
    parse(
        {
            "rounds": 1000,
            "data": {"name": "files", "path": str(place), "client": "client", "normalise": "none"},
            "partition": {"name": "natural"},
            "split": {"test": 0.0, "validation": 0.0},
            "model": {"name": "mlp", "hidden": [200, 200]},
            "participation": {"number": work.cohort},
            "local": {"epochs": 1, "batch_size": work.batch, "lr": LR},
        }
    )
)
progress = made.course.begin()


def one(t: int) -> None:
    global progress
    with made.simulation.lone():
        progress, _, _ = made.course.advance(progress, t)


take_turns(one)
