"""What is learned: the task of the examples, with the named model."""

from functools import partial
from typing import cast

from torch import nn

from unalike import rng
from unalike.errors import ConfigError, UnalikeError
from unalike.federation.data import Examples
from unalike.generator import seeded
from unalike.models.base import Model
from unalike.models.own import OwnModel
from unalike.run.configuration.config import Config, chosen
from unalike.run.experiment.device import device
from unalike.run.experiment.fit import fit, misfit, outputs
from unalike.run.experiment.protected import blind
from unalike.tasks import TASKS, Task


def module(config: Config, examples: Examples) -> nn.Module:
    """The named model, built for the data."""
    model = cast(Model, chosen("model", config.model))
    try:
        # PyTorch draws the weights of a new module from its global generator.
        with seeded(rng.stream(config.seed, "init")):
            return blind(model, tuple(examples.x.shape[1:]), outputs(examples), examples.protected)
    except (UnalikeError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a module of the user's own may raise anything, also SystemExit
        raise misfit(f"model '{config.model.name}'", examples, error) from error


def task(config: Config, examples: Examples) -> Task:
    """What is learned, with the named model."""
    what, track = f"model '{config.model.name}'", config.run.buffers != "drop"
    model = cast(Model, chosen("model", config.model))
    if config.run.init == "given" and model.init != "glorot":
        raise ConfigError(
            f"model.init = '{model.init}' draws weights, and run.init = 'given' keeps the "
            "module's own; leave one of them out."
        )
    if getattr(model, "weights", "") and config.run.init != "given":
        raise ConfigError(
            "model.weights are pre-trained but would be drawn at random; set run.init = 'given'."
        )
    learn = partial(TASKS[model.task or examples.kind], **model.options())
    how = config.engine
    kernels = how.kernels and device(how.device).type == "cuda"
    made = module(config, examples)
    built = model.name, repr(model), examples.x.shape[1:], outputs(examples), examples.protected
    alike = None if isinstance(model, OwnModel) else built  # a file may change between two runs
    return fit(made, examples, what, track, learn, kernels, how.bf16, model.init, alike)
