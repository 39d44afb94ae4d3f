"""One message of each kind, from a recipe and the shapes of a model alone."""

from typing import Any, NamedTuple

from unalike import channel, rng, tree
from unalike.algorithm import Algorithm
from unalike.recipe import Recipe, Start
from unalike.rng import Key
from unalike.tree import Params, Tree


class Messages(NamedTuple):
    """Used to count bytes, and to decode them before anybody has trained."""

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


def left(algorithm: Algorithm, server: Any, key: Key, start: Start) -> Params | None:
    """What a server leaves to a stage that starts this way: the model, or what is shared of it."""
    x: Params | None = server.x if start == "own" else algorithm.leaves(server, key)
    return x


def left_like(recipe: Recipe, w: Params, start: Start) -> Params:
    """The same before anybody trained: its form."""
    algorithm, key = recipe.algorithm, rng.key(0)
    found = left(algorithm, algorithm.server_init(w, key), key, start)
    return w if found is None else found


def completed(shared: Params, w: Params) -> Params:
    """A whole model: what was shared, with the other leaves of ``w`` if that is not all."""
    return shared if shared.keys() == w.keys() else {**w, **shared}


def wire(recipe: Recipe, down: Tree) -> Tree:
    """An answer to a download, as it travels."""
    up = recipe.algorithm.upload_like(down)
    return channel.wire_like(recipe.channel, up) if recipe.channel else up


def told_bytes(recipe: Recipe, servers: Tree) -> int:
    """The bytes of what one of some stacked servers usually sends to another."""
    told = recipe.algorithm.tells(servers)
    if recipe.copies is not None:
        return recipe.copies.size(tree.row(told, 0))
    return tree.size_bytes(told) // len(tree.leaves(servers)[0])
