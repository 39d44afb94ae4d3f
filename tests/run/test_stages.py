"""Two stages in one run: the VAE that measures the clients, then the run that it measures for."""

import json
import signal

import pytest
import torch
from safetensors.torch import load_file

from unalike.errors import ConfigError
from unalike.run.build import experiment
from unalike.run.config import parse
from unalike.run.execute import Interrupted, Silent, resume, start
from unalike.run.folder import read_json, read_lines

RAW = {
    "rounds": 3,
    "partition": {"name": "dirichlet", "clients": 4, "alpha": 0.5},
    "model": {"name": "vae", "hidden": [10]},
    "method": {"name": "latent_disco", "a": 0.3},
    "local": {"optimizer": "adam", "lr": 1e-3, "batch_size": 64},
}


def config(folder, **changes):
    return parse({**RAW, "run": {"folder": str(folder)}, **changes})


def total(summary):
    return sum(summary[k] for k in ("bytes_down", "bytes_up", "bytes_across"))


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    return start(config(tmp_path_factory.mktemp("runs") / "staged"))


def test_first_stage_is_fedavg_from_the_same_start(staged, tmp_path):
    """The same settings but for the method; a run of its own, with its own summary."""
    plain = start(config(tmp_path / "plain", method={"name": "fedavg"}))
    first = staged / "first"
    assert read_lines(first / "rounds.jsonl") == read_lines(plain / "rounds.jsonl")
    a, b = load_file(first / "model.safetensors"), load_file(plain / "model.safetensors")
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_second_stage_is_a_run_with_that_encoder(staged, tmp_path):
    """From a fresh model, with weights that never change."""
    method = {**RAW["method"], "encoder": str(staged / "first")}
    apart = start(config(tmp_path / "apart", method=method))
    assert read_lines(staged / "rounds.jsonl") == read_lines(apart / "rounds.jsonl")
    weights = [r["weights"] for r in read_lines(staged / "rounds.jsonl")]
    assert weights[0] == weights[1] == weights[2]
    assert weights[0] != read_lines(staged / "first" / "rounds.jsonl")[0]["weights"]


def test_traffic_of_both_stages_and_of_the_encoder_counts(staged):
    """Before round 1: all that stage one sent, the encoder to each client, a number back."""
    first, both = read_json(staged / "first" / "summary.json"), read_json(staged / "summary.json")
    model = load_file(staged / "model.safetensors")
    encoder = 4 * sum(v.numel() for k, v in model.items() if k.startswith("encoder."))
    records = read_lines(staged / "rounds.jsonl")
    survey = 4 * (encoder + 4)
    assert records[0]["bytes_before"] == total(first) + survey
    assert [r["bytes_before"] for r in records[1:]] == [0, 0]
    assert total(both) == 2 * total(first) + survey
    assert both["bytes_peak"] == first["bytes_peak"]
    assert both["samples"] == 2 * first["samples"]
    assert both["messages"] == 2 * first["messages"] + 8


def test_a_file_brings_no_history(staged, tmp_path):
    """Only a run folder says what its training cost."""
    encoder = str(staged / "first" / "model.safetensors")
    done = start(config(tmp_path / "file", method={**RAW["method"], "encoder": encoder}))
    assert total(read_json(done / "summary.json")) < total(read_json(staged / "summary.json"))


class StopAt(Silent):
    """Asks to stop after so many rounds of both stages together."""

    def __init__(self, rounds):
        self.left = rounds

    def round(self, record):
        self.left -= 1
        if not self.left:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("rounds", [2, 4])
def test_interrupted_in_either_stage_it_ends_the_same(staged, tmp_path, rounds):
    """To the byte."""
    folder = tmp_path / "stopped"
    with pytest.raises(Interrupted):
        start(config(folder), StopAt(rounds))
    assert not (folder / "summary.json").exists()
    assert (folder / "first" / "summary.json").exists() == (rounds > 3)
    resume(folder)
    for name in ("rounds.jsonl", "clients.jsonl", "first/rounds.jsonl", "summary.json"):
        assert (folder / name).read_bytes() == (staged / name).read_bytes(), name


def test_other_methods_beside_it_run_in_both_stages(tmp_path):
    """The first stage has them without the weights."""
    done = start(config(tmp_path / "both", plus=[{"name": "fedprox", "mu": 0.1}]))
    first = json.loads((done / "first" / "config.json").read_text())
    assert first["method"]["name"] == "fedprox"
    assert first["plus"] == []


def test_mistakes_in_the_second_stage_are_found_before_the_first(tmp_path):
    """Two rules for the weights; the folder is not made."""
    with pytest.raises(ConfigError, match="both set the weights"):
        start(config(tmp_path / "wrong", plus=[{"name": "fedep"}]))
    assert not (tmp_path / "wrong").exists()


def test_a_classifier_needs_an_encoder_from_elsewhere(staged, tmp_path):
    """Its own model cannot be the first stage's; a trained VAE of the same data can."""
    model = {"name": "mlp", "hidden": [8]}
    with pytest.raises(ConfigError, match="'mlp' is none: train one"):
        start(config(tmp_path / "wrong", model=model))
    method = {**RAW["method"], "encoder": str(staged / "first")}
    done = start(config(tmp_path / "classifier", model=model, method=method))
    assert "accuracy" in read_json(done / "summary.json")["last"]["local"]


def test_without_a_run_there_is_no_first_stage():
    """The library's building blocks say what they lack."""
    with pytest.raises(ConfigError, match="needs a trained autoencoder here"):
        experiment(parse(RAW))


def test_refreshed_weights_need_no_second_run(tmp_path):
    """And a resumed run remembers the distances."""
    method = {"name": "latent_disco", "refresh": "after_warmup", "a": 0.3}
    whole = start(config(tmp_path / "whole", method=method))
    with pytest.raises(Interrupted):
        start(config(tmp_path / "cut", method=method), StopAt(2))
    resume(tmp_path / "cut")
    records = read_lines(whole / "rounds.jsonl")
    assert read_lines(tmp_path / "cut" / "rounds.jsonl") == records
    assert records[0]["weights"] != records[1]["weights"] == records[2]["weights"]
    assert not (whole / "first").exists()


def test_fallbacks_are_noted_in_the_record(tmp_path):
    """In every round that had one, and counted in the summary."""
    method = {"name": "feddisco", "a": 1000.0, "b": 0.0, "normalise": "never"}
    done = start(config(tmp_path / "noted", method=method, model={"name": "mlp", "hidden": [8]}))
    for record in read_lines(done / "rounds.jsonl"):
        assert record["notes"] == ["every client's weight was zero, so they were weighted by sizes"]
    assert read_json(done / "summary.json")["noted"] == 3
