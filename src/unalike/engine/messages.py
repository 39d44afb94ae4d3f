"""One message of each kind, from a recipe and the shapes of a model alone."""

from typing import NamedTuple

from unalike import channel, rng
from unalike.recipe import Recipe
from unalike.rng import Key
from unalike.tree import Params, Tree


class Messages(NamedTuple):
    """To count bytes and to decode them before anybody trained."""

    down: Tree
    up: Tree  # as a server uses it
    wire: Tree  # as it travels
    handed: Tree  # what every client is sent when the stage begins


def messages_of(recipe: Recipe, w: Params, key: Key) -> Messages:
    """Those of a stage that begins with the model ``w``."""
    algorithm = recipe.algorithm
    down = algorithm.broadcast(algorithm.server_init(w, key))
    handed = algorithm.handed(w), getattr(recipe.transform, "handed", ())
    return Messages(down, algorithm.upload_like(down), wire(recipe, down), handed)


def left(recipe: Recipe, w: Params) -> Params:
    """What the stage after this one inherits, as it is before anybody trained: its form."""
    algorithm, key = recipe.algorithm, rng.key(0)
    found = algorithm.leaves(algorithm.server_init(w, key), key)
    return w if found is None else found


def wire(recipe: Recipe, down: Tree) -> Tree:
    """An answer to a download, as it travels."""
    up = recipe.algorithm.upload_like(down)
    return channel.wire_like(recipe.channel, up) if recipe.channel else up
