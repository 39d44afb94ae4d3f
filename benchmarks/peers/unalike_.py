"""The product as `unalike run` builds it, with the engine that it chooses by itself."""

import numpy as np
import torch
from workload import chosen, data, first, take_turns

from unalike.federation.build import federate
from unalike.federation.data import Examples
from unalike.federation.partition.natural import Natural
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import assemble, task

MODEL = {
    "dense": {"name": "mcmahan_2nn"},
    "cnn": {"name": "mcmahan_cnn"},
    "lstm": {"name": "stacked_lstm", "hidden": 128},
}
work, starts = chosen()
x, y = map(torch.from_numpy, data(work))
owner = np.repeat(np.arange(work.clients), np.diff(starts))
kind = "characters" if work.model == "lstm" else "multiclass"
n = len(owner)  # Dirichlet sizes, rounded down, leave a few examples over
examples = Examples(x[:n], y[:n], work.classes, kind, owner, test_x=x[:10], test_y=y[:10])
config = parse(
    {
        "rounds": 1000,
        "data": {"name": "digits"},  # never loaded: the examples above take their place
        "partition": {"name": "natural"},
        "split": {"test": 0.0, "validation": 0.0},
        "model": MODEL[work.model],
        "participation": {"number": work.cohort},
        "local": {"epochs": 1, "batch_size": work.batch, "lr": work.lr},
    }
)
federation = federate(examples, Natural(), validation=0.0, test=0.0)
made = assemble(config, federation, task(config, examples))
names = list(made.course.w)
made.course.w = dict(zip(names, map(torch.from_numpy, first(work)), strict=True))
progress = made.course.begin()


def one(t: int) -> None:
    global progress
    with made.simulation.lone():
        progress, _, _ = made.course.advance(progress, t)


def weights() -> list[np.ndarray]:
    model = made.course.model(progress)
    return [model[name].numpy() for name in names]


take_turns(one, weights)
