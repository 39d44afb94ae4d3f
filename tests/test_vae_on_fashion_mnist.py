"""The VAE on NIID-2 Fashion-MNIST, as far as a CPU gets in a minute or two."""

from pathlib import Path

import pytest
import torch
from real_data import FOLDER, needs_data

from unalike.run.configuration.config import parse
from unalike.run.execute import start
from unalike.run.folder.records import read_json, read_lines


@pytest.mark.slow
@pytest.mark.timeout(1200)
@needs_data
def test_loss_falls_in_both_stages(tmp_path: Path) -> None:
    """Two stages of a few short rounds, with inputs standardised as in the published setting."""
    torch.set_num_threads(2)
    config = parse(
        {
            "rounds": 5,
            "data": {"name": "fashion_mnist", "folder": str(FOLDER), "normalise": True},
            "partition": {"name": "niid2"},
            "split": {"validation": 0.0, "test": 0.0},
            "model": {"name": "vae", "beta": 10.0},
            "method": {"name": "latent_disco", "a": 0.5},
            "local": {"epochs": 0.15, "batch_size": 64, "optimizer": "adam", "lr": 1e-3},
            "run": {"folder": str(tmp_path / "run")},
        }
    )
    folder = start(config)
    rounds = read_lines(folder / "rounds.jsonl")
    for stage in (1, 2):
        records = [r for r in rounds if r["stage"] == stage]
        losses = [r["metrics"]["global"]["loss"]["mean"] for r in records]
        assert losses[-1] < 0.9 * losses[0]
        assert 400 < losses[-1] < 800  # the scale of standardised inputs and a sigmoid
        assert sum(records[-1]["weights"]) == pytest.approx(1, abs=1e-6)
    facts = read_json(folder / "skew.json")
    assert facts["parameters"] == 1_068_820
    assert rounds[5]["bytes_before"] == 6 * 4 * (534_276 + 1)  # the encoder down, a number up
