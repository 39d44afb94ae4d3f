"""LG-FedAvg on y^ = g f_k x with a private f_k and a shared g, small enough for a pencil."""

from dataclasses import replace

from federations import Product, at, keep, kept_by, scalars

from unalike.algorithms.fedavg import FedAvg
from unalike.engine.loop import Loop
from unalike.engine.server.guard import Guard
from unalike.engine.simulation.simulate import Engine, Simulation
from unalike.parts.optim import Sgd
from unalike.parts.private import Private
from unalike.recipe import Recipe

# One sample each, (x, y) = (1, 2) and (1, -1), sizes 1 : 3.
TWO = scalars([[1.0, 2.0], [1.0, -1.0]], [1, 3])
PRIVATE_F = FedAvg(Product(("f", "g")), Sgd(0.1), private=Private(("f",)))


def traced(
    recipe: Recipe, rounds: int, engine: Engine = "vectorized"
) -> list[tuple[float, float, float]]:
    """(f_1, f_2, g) after every round from f = (1, 2) and g = 0.5."""
    w = at(f=1.0, g=0.5)
    recipe = replace(recipe, batch_size=4)
    simulation = Simulation(recipe, TWO.examples, TWO.rows, w, 2, engine=engine)
    keep(simulation, {0: at(f=1.0), 1: at(f=2.0)})
    loop = Loop(recipe, simulation, range(rounds), 0, Guard())
    state, trace = loop.begin(w), []
    for t in range(rounds):
        state, _ = loop.advance(state, t)
        one, two = (float(kept_by(simulation)[i]["f"]) for i in (0, 1))
        trace.append((one, two, float(state.servers[0].x["g"])))
    return trace
