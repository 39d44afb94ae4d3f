"""Which engine computes the clients, and why."""

from typing import NamedTuple

import numpy as np
import torch

from unalike.engine.simulation.simulate import Engine
from unalike.errors import ConfigError
from unalike.federation.data import TRAIN, Federation
from unalike.native.build import compiler
from unalike.network import Network
from unalike.parts.participation.schedule import Participation
from unalike.run.configuration.config import Config
from unalike.run.engines.refusals import refusal_of_tracing, refusal_of_vmap, refused
from unalike.tasks import Task

ENOUGH = 20  # local steps of a run; with all that it loads, tracing one takes as long as twenty,
MANY = 20_000  # and compiling one on a CPU as long as is saved by ten to twenty thousand
LONG = 30_000  # steps of a run, of all clients at once; on a GPU compiling takes as long as 30,000
NORMED = 20  # a step with normalisation counts for as many: its passes over activations merge


class Choice(NamedTuple):
    """How clients are computed."""

    engine: Engine
    why: str
    traced: bool = False  # whether local steps are traced, on a CPU,
    native: bool = False  # and compiled, if they can be
    compiled: int = 0  # in calls of how many clients steps are compiled, on a GPU


def engine(config: Config, made: Task, data: Federation, on: torch.device) -> Choice:
    """What is set; 'auto' takes what should be faster."""
    chosen = _kind(config, made, data, on)
    if not (chosen.traced and config.engine.compiled and made.network.dense):
        return chosen
    if total(config, data) < MANY:
        return chosen
    if compiler() is None:
        return chosen._replace(why=f"{chosen.why}; there is no C++ compiler to compile them")
    return chosen._replace(native=True, why=f"{chosen.why}; steps are compiled where possible")


def _kind(config: Config, made: Task, data: Federation, on: torch.device) -> Choice:
    kind, cpu = config.engine.kind, on.type == "cpu"
    untraced = "off"
    if cpu and config.engine.traced and total(config, data) >= ENOUGH:
        untraced = refused(refusal_of_tracing, made, data.examples)
    as_set = config.engine.because or "as set"
    if kind == "sequential":
        return Choice(kind, _but(as_set, untraced), not untraced)
    why = refused(refusal_of_vmap, made, data.examples)
    if kind == "vectorized":
        if why:
            raise ConfigError(
                f"the model cannot be vectorized over clients ({why}); "
                "set engine.kind = 'sequential'."
            )
        many = 0 if cpu else _compiled(config, made.network, data)
        return Choice(kind, _but(as_set, untraced), not untraced, compiled=many)
    if why:
        why = _but(f"the model cannot be vectorized: {why}", untraced)
        return Choice("sequential", why, not untraced)
    if not cpu:
        return Choice(
            "vectorized", "many clients fill a GPU", compiled=_compiled(config, made.network, data)
        )
    if not untraced:
        return Choice("vectorized", "local steps are traced and run without Python", True)
    if made.network.dense:
        return Choice("vectorized", _but("matrix products batch well", untraced))
    convolutions = "convolutions and recurrent layers are faster this way on a CPU"
    return Choice("sequential", _but(convolutions, untraced))


def _but(why: str, untraced: str) -> str:
    """The reason, and why steps are not traced, unless that was not tried."""
    return f"{why}; its steps cannot be traced: {untraced}" if untraced not in ("", "off") else why


def total(config: Config, data: Federation) -> float:
    """How many local steps a run has, by the configuration alone.

    Not by a clock, so that a resumed run computes as it did before.
    """
    each, cohort = steps(config, data)
    return config.rounds * cohort * float(each.mean())


def _compiled(config: Config, network: Network, data: Federation) -> int:
    """The size of a cohort whose steps are compiled, in a run that is long enough; else 0."""
    each, cohort = steps(config, data)
    normed = any("Norm" in name for name in network.layers)
    length = config.rounds * each.max() * (NORMED if normed else 1)
    return cohort if config.engine.compiled and length >= LONG else 0


def steps(config: Config, data: Federation) -> tuple[np.ndarray, int]:
    """(the local steps of every client in a round, how many clients a round has)."""
    sizes = data.sizes(TRAIN)[: data.n_clients]
    each = np.ceil(sizes * config.local.epochs / config.local.batch_size)
    participation = Participation(config.participation.fraction, config.participation.number)
    return each, participation.count(len(sizes))
