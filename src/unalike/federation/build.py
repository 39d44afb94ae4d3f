"""From data to a federation: partition, split, prepare, shift.

Each random step has its own random numbers; what is learned about features is learned from training
rows alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unalike.errors import ConfigError, DataError
from unalike.federation.anything import examples_of
from unalike.federation.data import Federation
from unalike.federation.goals import outcomes
from unalike.federation.partition.base import UNUSED, Labels, Partitioner
from unalike.federation.prepare import prepared
from unalike.federation.shift.base import Shift
from unalike.federation.split import split

PARTITION, SPLIT, SHIFT = 0, 1, 2


def federate(
    data: Any,
    partitioner: Partitioner,
    shifts: Sequence[Shift] = (),
    *,
    validation: float = 0.1,
    test: float = 0.2,
    new_clients: int = 0,
    adapt: bool = False,
    stratified: bool = True,
    seed: int = 0,
) -> Federation:
    """A federation made from data.

    The partition, the split and each shift draw from separate streams, so changing the test share
    does not change the partition, and adding a shift does not change the others.

    Args:
        data: Whatever ``examples_of`` takes: examples, a named dataset, arrays, frames.
        partitioner: Who gets which example.
        shifts: Applied in this order, after the split.
        validation: Share of each client's examples.
        test: Share of each client's examples.
        new_clients: How many clients are held out whole.
        adapt: Whether these have rows to learn from before they are tested.
        stratified: Whether a client's test and validation rows hold its classes in proportion.
        seed: The same seed gives the same federation.

    Example:
        >>> from unalike.federation.datasets.digits import Digits
        >>> from unalike.federation.partition.dirichlet import Dirichlet
        >>> federation = federate(Digits(), Dirichlet(clients=10, alpha=0.3), new_clients=2)
        >>> federation.n_clients, federation.n_new, federation.counts.shape
        (8, 2, (8, 10))
    """
    if seed < 0:
        raise ConfigError(f"seed must be 0 or more, got {seed}.")
    examples = examples_of(data)
    if examples.classes == 1 and examples.ranges is None:  # a site of several may have only one
        raise DataError(
            f"all {len(examples)} labels are '{(*examples.class_names, '0')[0]}'; classification "
            "needs at least two classes."
        )
    labels = Labels(examples.strata, examples.classes, examples.groups, examples.group_names)
    owner, names, marks = partitioner.assign(labels, stream(seed, PARTITION))
    held = np.flatnonzero(owner != UNUSED)
    if len(held) < len(owner):
        examples = examples.take(held)
    federation = split(
        examples,
        owner[held],
        validation=validation,
        test=test,
        new_clients=new_clients,
        adapt=adapt,
        stratified=stratified,
        rng=stream(seed, SPLIT),
        names=names,
        marks=marks,
    )
    federation = replace(
        prepared(federation),
        outcomes=outcomes(partitioner.goals(labels), federation.counts, federation.marks),
        unused=len(labels) - len(held),
        source=held,
    )
    for number, shift in enumerate(shifts):
        federation = shift.apply(federation, stream(seed, SHIFT, number))
    return federation


def stream(seed: int, *purpose: int) -> np.random.Generator:
    """A generator for one purpose; streams of different purposes are independent."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=purpose))
