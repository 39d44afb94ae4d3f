"""A network tried on the data, forwards and backwards, before anything long begins."""

from typing import Any

import torch
from torch import nn
from torch.func import vmap

from unalike import rng, tree
from unalike.autoencoding import Autoencoding
from unalike.batches import Batch
from unalike.errors import ConfigError, UnalikeError
from unalike.federation.data import Examples
from unalike.gradient import gradient
from unalike.models.vae import BetaVAE
from unalike.network import Network
from unalike.own_code import reason
from unalike.task import Task
from unalike.tree import Params


def outputs(examples: Examples) -> int:
    """How many numbers a network must give for an example."""
    return 1 if examples.kind == "binary" else examples.classes


def fit(module: nn.Module, examples: Examples, what: str, track: bool = True) -> Task:
    """The task of learning the examples with the module, if it can.

    Args:
        module: The network; a copy is used.
        examples: The data.
        what: The model as an error names it.
        track: Whether batch normalisation keeps running statistics.
    """
    wanted = outputs(examples)
    try:
        made = Task(Network(module, track_statistics=track), examples.kind)
        if not made.network.weights:
            raise ConfigError(f"{what} has no weights to train; use a model with parameters.")
        out = made.logits(made.network.given(), examples.x[:2])
        if isinstance(out, torch.Tensor) and out.shape[-1:] == (wanted,):
            made.per_example(out, examples.y[:2])
            _step(made, made.network.given(), examples)
    except UnalikeError:
        raise
    except Exception as error:  # the module is the user's, and so may be anything it raises
        raise misfit(what, examples, error) from error
    if not isinstance(out, torch.Tensor):
        raise ConfigError(f"{what} must give a tensor of logits, got {type(out).__name__}.")
    if out.shape[-1:] != (wanted,):
        raise ConfigError(
            f"{what} gives outputs of shape {tuple(out.shape)} for 2 examples of "
            f"'{examples.name}', whose last axis must be {wanted}."
        )
    return made


def fit_autoencoder(model: BetaVAE, examples: Examples, what: str) -> Autoencoding:
    """The task of reconstructing the examples; labels play no part."""
    if not examples.x.is_floating_point():
        raise ConfigError(
            f"{what} reconstructs numbers, and the examples of '{examples.name}' are symbols; "
            "use another model."
        )
    network = Network(model.build(tuple(examples.x.shape[1:]), outputs(examples)))
    sampled = model.judge == "sample"
    return Autoencoding(network, latent=model.latent, beta=model.beta, sampled=sampled)


def misfit(what: str, examples: Examples, error: Exception) -> ConfigError:
    """The error for a model that fails on the data."""
    return ConfigError(
        f"{what} cannot be used on '{examples.name}' (examples of shape "
        f"{tuple(examples.x.shape[1:])}, {outputs(examples)} outputs): {reason(error)}."
    )


def refusal_of_vmap(made: Task, examples: Examples) -> str:
    """Why the network cannot be computed for many clients in one call; empty if it can."""
    w = made.network.given()
    try:
        vmap(lambda w: _step(made, w, examples))(tree.stack([w, w]))
    except Exception as error:
        return reason(error)
    return ""


def _step(made: Task, w: Params, examples: Examples) -> Any:
    """The gradient of one training step on two examples."""
    batch = Batch(examples.x[:2], examples.y[:2], torch.ones(2, dtype=torch.bool), rng.key(0))
    weights, buffers = made.split(w)
    return gradient(lambda v: made.loss({**v, **buffers}, batch), weights)
