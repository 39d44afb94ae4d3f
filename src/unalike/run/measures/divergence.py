"""How far a model's weights are from those of another run: ||w - w_ref|| / ||w_ref||.

With a pooled run as reference, from the same initial weights, this is the weight divergence of Zhao
et al. (2018). Running statistics are not weights and are left out.
"""

from unalike import tree
from unalike.algorithm import Algorithm
from unalike.engine.loop import State
from unalike.rng import Key
from unalike.tree import Params


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
