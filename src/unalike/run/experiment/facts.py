"""What was decided while a run was built, for the record."""

from typing import Any

import torch

from unalike.run.experiment.build import Experiment


def facts(made: Experiment) -> dict[str, Any]:
    """What was decided while building, for the record."""
    sim, questions = made.simulation, made.recipe.survey
    transforms = (stage.recipe.transform for stage in made.course.program)
    counts = made.federation.counts
    counts = counts if made.loop.n == len(counts) else counts.sum(0)[None]
    w, network = made.course.w, made.recipe.algorithm.task.network
    return {
        "engine": sim.engine,
        "engine_because": made.engine,
        "workers": sim.workers if sim.engine == "sequential" else torch.get_num_threads(),
        "evaluated_every": made.cadence.every,
        "evaluated_because": made.cadence.why,
        "parameters": sum(w[n].numel() for n in network.weights),
        "buffers": sum(w[n].numel() for n in network.buffers),
        "frozen": sum(p.numel() for p in network.constants().values()),
        "clients": made.federation.n_clients,
        "new_clients": made.federation.n_new,
        "survey_reveals": [q.reveals for q in questions],
        "attackers": list(made.attackers),
        "privacy": None if made.accountant is None else made.accountant.promise.meaning,
        "note": made.note,
        "augmented": next((e for t in transforms if t is not None and (e := t.effect(counts))), {}),
    }
