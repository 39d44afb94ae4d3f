"""Histograms of clients' data in the latent space by which a method weights them.

All latent variables of a client's training examples together, against N(0, 1). Only a simulation
has them: in a real federation a client sends its distance and nothing else.
"""

from typing import Any

import torch

from unalike import rng, tree
from unalike.engine.loop import State
from unalike.engine.simulation.simulate import Simulation
from unalike.parts.mixing.latent_disco import AskedLatentDisco, ReportedLatentDisco
from unalike.parts.mixing.latents import Latents, encoder_of
from unalike.run.experiment.build import Experiment

CLIENTS = 20  # whose histograms are kept
EDGE, BINS = 4.0, 32  # from -EDGE to EDGE; what lies beyond is in the outermost bins


def histograms(made: Experiment, state: State) -> dict[str, Any]:
    """The shares of each bin and the distances of the first clients; empty for other methods."""
    mixing, simulation = made.recipe.mixing, made.simulation
    if not isinstance(simulation, Simulation):  # sites of their own keep their examples
        return {}
    if isinstance(mixing, AskedLatentDisco):
        question = mixing.question
    elif isinstance(mixing, ReportedLatentDisco):
        model = made.recipe.algorithm.model(tree.row(state.stack, 0), made.course.judging)
        if model is None:
            return {}
        question = Latents(encoder_of(model, "the model"), mixing.gauge)
    else:
        return {}
    keys, shares, distances = made.course.judging, [], []
    clients = list(range(min(simulation.clients.n, CLIENTS)))
    for i in clients:
        x = simulation.x[simulation.rows.of(i).to(simulation.device)]
        z = question.latents(x, rng.fold_in(keys, i)).cpu()
        inside = z.flatten().clamp(-EDGE + 1e-6, EDGE - 1e-6).double()
        count = torch.histc(inside, BINS, -EDGE, EDGE)
        shares.append([round(v, 6) for v in (count / count.sum()).tolist()])
        distances.append(round(float(question.gauge.mean(z)), 6))
    edges = [round(-EDGE + 2 * EDGE * b / BINS, 6) for b in range(BINS + 1)]
    return {"edges": edges, "clients": clients, "shares": shares, "d": distances}
