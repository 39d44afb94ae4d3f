"""The distance of a run's weights to those of another run."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from unalike.errors import ConfigError
from unalike.run.configuration.config import parse
from unalike.run.execute import start
from unalike.run.experiment.build import experiment
from unalike.run.folder.records import read_json, read_lines
from unalike.run.measures.divergence import divergence

RAW: dict[str, Any] = {
    "rounds": 2,
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet", "clients": 4, "min_size": 10},
    "model": {"name": "mlp", "hidden": [4]},
    "method": {"name": "fedavg"},
}


def run(folder: Path, **changed: Any) -> Path:
    return start(parse({**RAW, "run": {"folder": str(folder)}, **changed}))


def test_oracle() -> None:
    """(3, 4) and (0, 12) from (3, 0) and (0, 8): sqrt(16 + 16) / sqrt(9 + 64)."""
    w = {"a": torch.tensor([3.0, 4.0]), "b": torch.tensor([[0.0, 12.0]]), "mean": torch.ones(1)}
    reference = {"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([[0.0, 8.0]])}
    assert divergence(w, reference) == pytest.approx((32 / 73) ** 0.5)
    assert divergence(reference, reference) == 0


def test_it_is_recorded_in_evaluated_rounds(tmp_path: Path) -> None:
    """And agrees with the files of the two runs; a run's distance to itself is 0."""
    pooled = run(tmp_path / "pooled", method={"name": "pooled"})
    judged = {"reference": str(pooled), "every": 2}
    found = run(tmp_path / "a", rounds=3, evaluation=judged)
    lines = read_lines(found / "rounds.jsonl")
    assert ["divergence" in line for line in lines] == [False, True, True]
    w, reference = (load_file(f / "model.safetensors") for f in (found, pooled))
    gap, norm = (
        sum(float((v.double() ** 2).sum()) for v in tree)
        for tree in ([w[n] - reference[n] for n in w], reference.values())
    )
    assert lines[-1]["divergence"] == pytest.approx((gap / norm) ** 0.5, rel=1e-5)
    assert read_json(found / "summary.json")["divergence"] == lines[-1]["divergence"]
    again = run(tmp_path / "b", method={"name": "pooled"}, evaluation=judged)
    assert read_lines(again / "rounds.jsonl")[-1]["divergence"] == 0


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    judged = {"evaluation": {"reference": str(run(tmp_path / "a", rounds=1))}}
    wide = {"model": {"name": "mlp", "hidden": [5]}}
    with pytest.raises(ConfigError, match="of the shape this one has; name a run with the same"):
        experiment(parse({**RAW, **judged, **wide}))
    with pytest.raises(ConfigError, match="only the clients have whole models; leave it out"):
        experiment(parse({**RAW, **judged, "method": {"name": "local_only"}}))
    with pytest.raises(ConfigError, match="should be a trained model"):
        experiment(parse({**RAW, "evaluation": {"reference": str(tmp_path / "no")}}))
