"""Whether a sum of uploads is all that a method's server needs."""

import torch

from unalike import tree
from unalike.channel import InPlace
from unalike.cohort import Cohort
from unalike.engine.server.step import MEASURED
from unalike.parts.mediators import Mediated
from unalike.recipe import Recipe
from unalike.rng import Key
from unalike.tree import Params
from unalike.uploads import NotSummed, Summed

TRIED = 3  # clients of the sum that a server is tried with


def needs_more(recipe: Recipe, w: Params, key: Key) -> str:
    """Why a sum is not enough; empty if it is."""
    algorithm = recipe.algorithm
    if isinstance(recipe.schedule, Mediated):
        return "clients start from models of other single clients"
    if recipe.filters:
        return f"{type(recipe.filters[0]).__name__} looks at every single update"
    if measured := sorted(recipe.needs & MEASURED.keys()):
        return f"the method's weights depend on the updates themselves ({measured[0]})"
    if not all(isinstance(member, InPlace) for member in recipe.channel):
        return "compressed updates do not add up"
    if algorithm.flying(algorithm.client_init(w, key)) is not None:
        return "models in transit are collected from single sites"
    server = algorithm.server_init(w, key)
    zero = tree.map(torch.zeros_like, algorithm.upload_like(algorithm.broadcast(server)))
    p = torch.full((TRIED,), 1 / TRIED, dtype=torch.float64)
    stats = {name: torch.ones_like(p) for name in ("examples", "steps", *recipe.needs)}
    cohort = Cohort(0, torch.arange(TRIED), stats, {}, torch.arange(TRIED), key)
    try:
        algorithm.server(server, Summed(zero, p), p, cohort)
    except NotSummed:
        return "the method's server step asks for single updates"
    return ""
