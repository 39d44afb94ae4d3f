"""Histograms of clients' latent variables: against counts made with the saved encoder."""

from typing import Any

import numpy as np
import pytest
import torch

from unalike.parts.mixing.wasserstein import w1
from unalike.report.plots import latent_plot
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.measures.latents import BINS, EDGE
from unalike.run.rounds import rounds

RAW: dict[str, Any] = {
    "rounds": 2,
    "data": {"name": "digits"},
    "partition": {"name": "shards", "clients": 4},
    "model": {"name": "vae", "hidden": [16], "latent": 3},
    "local": {"optimizer": "adam", "lr": 0.01},
}


@pytest.mark.parametrize("refresh", ["two_stage", "every"])
def test_shares_and_distances(refresh: str) -> None:
    """Latent means, counted by NumPy."""
    method = {"name": "latent_disco", "a": 0.01, "embed": "mean", "refresh": refresh}
    made = experiment(parse({**RAW, "method": method}))
    *_, before, last = rounds(made)
    assert last.clients is not None
    assert before.clients is not None
    found = last.clients["latents"]
    assert "latents" not in before.clients
    assert found["clients"] == [0, 1, 2, 3]
    assert len(found["edges"]) == BINS + 1
    model = made.course.model(last.progress)
    if refresh == "two_stage":
        model = last.progress.model
    assert model is not None
    for i in range(4):
        x = made.simulation.x[made.simulation.rows.of(i)].flatten(1)
        h = torch.relu(x @ model["encoder.layers.1.weight"].T + model["encoder.layers.1.bias"])
        z = h @ model["encoder.mean.weight"].T + model["encoder.mean.bias"]
        inside = z.double().numpy().ravel().clip(-EDGE + 1e-6, EDGE - 1e-6)
        counts, _ = np.histogram(inside, BINS, (-EDGE, EDGE))
        assert found["shares"][i] == pytest.approx(counts / counts.sum(), abs=1e-2)
        assert sum(found["shares"][i]) == pytest.approx(1, abs=1e-4)
        assert found["d"][i] == pytest.approx(float(w1(z).mean()), abs=1e-4)


def test_other_methods_have_none() -> None:
    *_, last = rounds(experiment(parse(RAW)))
    assert last.clients is not None
    assert "latents" not in last.clients


def test_the_picture_names_the_nearest_and_the_farthest() -> None:
    edges = [-1.0, 0.0, 1.0]
    chart = latent_plot(edges, [[0.5, 0.5], [1.0, 0.0], [0.6, 0.4]], [0.1, 0.9, 0.2], "abc")
    words = chart.to_dict()["description"]
    assert "client a is nearest to it (0.100), client b farthest (0.900)" in words
