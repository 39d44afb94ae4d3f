"""The model that a run's weights are compared with, if another run has one that fits."""

from unalike import rng
from unalike.errors import ConfigError
from unalike.recipe import Recipe
from unalike.run.folder.earlier_runs import read_model
from unalike.tree import Params


def weights_of(folder: str, recipe: Recipe, w: Params) -> Params:
    """The trained weights of a run, if they can be compared with those of a run from ``w``."""
    algorithm, key = recipe.algorithm, rng.key(0)
    model, found = algorithm.model(algorithm.server_init(w, key), key), read_model(folder)
    if model is None:
        raise ConfigError(
            "evaluation.reference needs a method with a shared model, but here only the clients "
            "have whole models; leave it out."
        )
    names = algorithm.task.network.weights
    other = [n for n in names if n not in found or found[n].shape != model[n].shape]
    if other:
        raise ConfigError(
            f"evaluation.reference names '{folder}', whose model has no '{other[0]}' of the shape "
            "this one has; name a run with the same model and data."
        )
    return {n: found[n].to(model[n]) for n in names}
