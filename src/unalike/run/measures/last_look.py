"""What is measured once, after the last round: it costs too much for every evaluation."""

from typing import Any

from unalike import tree
from unalike.engine.evaluation.cross import cross
from unalike.engine.loop import State
from unalike.run.experiment.build import Experiment
from unalike.run.measures.latents import histograms


def last_look(made: Experiment, state: State) -> dict[str, Any]:
    """Fields of the last line of clients.jsonl, as far as they are asked for."""
    asked, found = made.config.evaluation, {}
    if asked.cross:
        algorithm = made.recipe.algorithm
        downs = tree.stack([algorithm.broadcast(s) for s in state.servers])
        models = [algorithm.model(s, made.evaluator.key) for s in state.servers]
        metric = algorithm.task.headline if asked.select == "auto" else asked.select
        found["cross"] = cross(made.simulation.examiner, downs, asked.cross, metric, models)
    found["latents"] = histograms(made, state)
    if asked.landscape:
        found["landscape"] = made.evaluator.landscape(state, asked.landscape)
    return {name: value for name, value in found.items() if value}
