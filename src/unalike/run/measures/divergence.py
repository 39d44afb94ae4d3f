"""How far a model's weights are from those of another run: ||w - w_ref|| / ||w_ref||.

With a pooled run as reference, from the same initial weights, this is the weight divergence of Zhao
et al. (2018). Running statistics are not weights and are left out.
"""

from unalike import rng, tree
from unalike.algorithm import Algorithm
from unalike.engine.loop import State
from unalike.errors import ConfigError
from unalike.recipe import Recipe
from unalike.rng import Key
from unalike.run.experiment.earlier_runs import read_model
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


def divergence(w: Params, reference: Params) -> float:
    """The length of the difference, in lengths of the reference."""
    gap = tree.sub({n: w[n] for n in reference}, reference)
    return float((tree.sqnorm(gap) / tree.sqnorm(reference)).sqrt())


def recorded(algorithm: Algorithm, state: State, reference: Params, key: Key) -> dict[str, float]:
    """The mean over the servers; nothing in a stage of another model."""
    if algorithm.task.network.weights != tuple(reference):
        return {}
    models = [w for s in state.servers if (w := algorithm.model(s, key)) is not None]
    mean = sum(divergence(w, reference) for w in models) / len(models)
    return {"divergence": round(mean, 9)}
