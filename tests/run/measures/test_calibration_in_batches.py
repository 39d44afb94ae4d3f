"""ECE and MCE of small batches of rows, averaged, as some published tables have them."""

from typing import Any

import numpy as np
import pytest
import torch

from unalike.errors import ConfigError
from unalike.federation.data import TEST
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.rounds import rounds

RAW: dict[str, Any] = {
    "rounds": 2,
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet", "clients": 4, "alpha": 0.5},
    "local": {"lr": 0.5},
}
BATCH = 7  # of which no client has a whole number


def by_hand(confidence: np.ndarray, correct: np.ndarray) -> tuple[float, float]:
    """15 bins (lo, hi], one after the other."""
    n, gaps, weights = len(correct), [0.0], [0.0]
    for j in range(15):
        inside = (confidence > j / 15) & (confidence <= (j + 1) / 15)
        if inside.any():
            gaps.append(abs(correct[inside].mean() - confidence[inside].mean()))
            weights.append(inside.sum() / n)
    return float(np.dot(gaps, weights)), max(gaps)


@pytest.mark.parametrize("method", ["fedavg", "ditto"])
def test_every_clients_rows_in_batches(method: str) -> None:
    """The last and smaller batch counts as much as the others; nothing else is another number."""
    found = []
    for asked in (0, BATCH):
        made = experiment(
            parse({**RAW, "method": method, "evaluation": {"calibration_batch": asked}})
        )
        *_, last = rounds(made)
        assert last.clients is not None
        found.append(last.clients["local"])
    whole, batched = found
    assert {k: v for k, v in whole.items() if k not in ("ece", "mce")} == {
        k: v for k, v in batched.items() if k not in ("ece", "mce")
    }
    state, algorithm, e = last.progress.state, made.recipe.algorithm, made.federation.examples
    for i in range(4):
        at = made.federation.rows(TEST).of(i)
        down = algorithm.broadcast(state.servers[0])
        w = algorithm.personal(down, made.simulation.examiner._state(i))
        out = algorithm.task.outputs(w, e.x[at], torch.zeros(len(at), 0)).double().numpy()
        p = np.exp(out - out.max(1, keepdims=True))
        p = p / p.sum(1, keepdims=True)
        sure, right = p.max(1), p.argmax(1) == e.y[at].numpy()
        cuts = range(0, len(at), BATCH)
        parts = [by_hand(sure[a : a + BATCH], right[a : a + BATCH]) for a in cuts]
        assert len(at) % BATCH
        assert batched["ece"][i] == pytest.approx(np.mean([p[0] for p in parts]), abs=1e-5)
        assert batched["mce"][i] == pytest.approx(np.mean([p[1] for p in parts]), abs=1e-5)
        once = by_hand(sure, right)
        assert (whole["ece"][i], whole["mce"][i]) == pytest.approx(once, abs=1e-5)
        assert batched["ece"][i] != pytest.approx(whole["ece"][i], abs=1e-4)


def test_what_has_no_calibration_is_refused() -> None:
    raw = {**RAW, "model": {"name": "vae"}, "evaluation": {"calibration_batch": 10}}
    with pytest.raises(ConfigError, match=r"evaluation\.calibration_batch is for classes"):
        experiment(parse(raw))
