"""A server and a site that share a configuration, and nothing else, play the same rounds.

Each process builds the program by itself from the configuration and the shapes of the data, or gets
it pickled. Sets have another order in every process, tensors other addresses: what depends on such
things differs here.
"""

import multiprocessing
import pickle
from collections.abc import Iterator
from multiprocessing.pool import Pool
from typing import Any

import numpy as np
import pytest
import torch
from federations import CLASSES, SIZES, Data, federation, kept_by, same, walk

from unalike import tree
from unalike.algorithms.table import METHODS
from unalike.federation.data import TRAIN, Federation
from unalike.recipe import Program
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import program, task
from unalike.run.experiment.shape import Shape
from unalike.tree import Params

FEATURES = (1, 4, 4)
SHAPE = Shape(len(SIZES), CLASSES, "multiclass", FEATURES, (), "float32")
COMMON: dict[str, Any] = {
    "rounds": 2,
    "model": {"name": "mlp", "hidden": [5]},
    "local": {"epochs": 1.5, "batch_size": 8, "lr": 0.05},
    "participation": {"fraction": 0.5},
}
EVERYBODY = {"participation": {"fraction": 1.0}}
SETTINGS: dict[str, dict[str, Any]] = {  # of methods that need others than their own
    "lg_fedavg": {"warm_start": 1},
    "superfed_mm": {"start": 0.0},
    "superfed_lm": {"start": 0.0},
    "phase_shift": {"phases": 2},
    "fedaug": {"target": 0.1},
    "fedevg": {"per_class": 2},
    "krum": {"attackers": 1},
    "trimmed_mean": {"trim": 0.34},
    "fedbuff": {"buffer": 2, "concurrency": 3},
    "dp": {"delta": 0.01},
    "local_dp": {"delta": 0.01},
}
PARTS: dict[str, dict[str, Any]] = {  # of the configuration, where a method needs others
    "aaggff_s": EVERYBODY,
    "fedbuff": EVERYBODY,
    "krum": EVERYBODY,
    "phase_shift": EVERYBODY,
    "fedbn": {"model": {"name": "mlp", "hidden": [5], "batch_norm": True}},
    "latent_disco": {"model": {"name": "vae", "hidden": [5], "latent": 2}},
}


def raw(name: str) -> dict[str, Any]:
    """A configuration as it lies in a file."""
    method = {"name": name, **SETTINGS.get(name, {})}
    return {**COMMON, **PARTS.get(name, {}), "method": method}


def built(settings: dict[str, Any]) -> Program:
    """From the configuration and the shapes alone: not one example is seen."""
    config = parse(settings)
    stages, _ = program(config, task(config, SHAPE.blank()), SHAPE)
    return stages


def played(stages: Program, data: Data) -> tuple[Params, list[Any]]:
    """(all numbers of servers and clients, what the rounds said)."""
    done = walk(stages, data)
    everything = {"states": done.states, "kept": kept_by(done.simulation)}
    said = [(r.ids.tolist(), r.weights.tolist(), r.rejected, r.traffic) for r in done.rounds]
    return {name: x.detach().clone() for name, x in tree.named(everything).items()}, said


def _there(sent: bytes) -> bytes:
    """What a process does that got everything as bytes: rounds it built itself, rounds it got."""
    torch.set_num_threads(1)
    settings, data, stages = pickle.loads(sent)
    return pickle.dumps((played(built(settings), data), played(stages, data)))


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Pool]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield pool


@pytest.mark.parametrize("name", METHODS)
def test_rounds_are_the_same_in_another_process(name: str, elsewhere: Pool) -> None:
    """Bit for bit, with a recipe that was built there and with one that was sent there."""
    data = federation(FEATURES)
    if name == "pooled":
        data = Data(data.examples, type(data.rows)(data.rows.order, data.rows.start[[0, -1]]))
    settings = raw(name)
    stages = built(settings)
    numbers, said = played(stages, data)
    sent = pickle.dumps((settings, data, stages))
    for theirs, heard in pickle.loads(elsewhere.apply(_there, (sent,))):
        assert heard == said
        assert same(theirs, numbers)


def test_the_number_of_stages() -> None:
    """Some begin or end with another training, so all kinds of run are tried."""
    stages = {name: len(built(raw(name))) for name in METHODS}
    several = {"lg_fedavg", "latent_disco", "finetune", "per_fedavg", "fedmix", "astraea"}
    assert {name for name, n in stages.items() if n > 1} == several


def test_the_shape_is_that_of_the_data() -> None:
    """So the program is the one that the federation itself would make."""
    examples, rows = federation(FEATURES)
    train = np.full(len(examples.x), TRAIN, np.int8)
    assert Shape.of(Federation(examples, rows.owner.numpy(), train, len(SIZES))) == SHAPE
    blank = SHAPE.blank()
    assert blank.x.shape[1:] == examples.x.shape[1:]
    assert (blank.x.dtype, blank.y.dtype) == (examples.x.dtype, examples.y.dtype)
    assert (blank.classes, blank.kind) == (examples.classes, examples.kind)
    assert not blank.x.any()
