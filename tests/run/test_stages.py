"""Two stages in one run: the VAE that measures the clients, then the run that it measures for."""

import signal

import pytest
from safetensors.torch import load_file

from unalike.errors import ConfigError
from unalike.run.configuration.config import parse
from unalike.run.execute import Interrupted, Silent, resume, start
from unalike.run.folder.records import read_json, read_lines

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


def stage(folder, number):
    """The records of one stage, numbered from 1, without what only a run of stages has."""
    records = [r for r in read_lines(folder / "rounds.jsonl") if r["stage"] == number]
    first = records[0]["round"] - 1
    return [{**r, "round": r["round"] - first, "stage": 1} for r in records]


def plain(folder):
    return [{"round": r["round"], "stage": 1, **r} for r in read_lines(folder / "rounds.jsonl")]


def test_first_stage_is_fedavg_from_the_same_start(staged, tmp_path):
    """The same settings but for the method."""
    alone = start(config(tmp_path / "plain", method={"name": "fedavg"}))
    assert stage(staged, 1) == plain(alone)


def test_second_stage_weighs_by_what_the_first_one_learned(staged, tmp_path):
    """From a fresh model, with weights that never change: those of a run with that encoder."""
    alone = start(config(tmp_path / "plain", method={"name": "fedavg"}))
    method = {**RAW["method"], "encoder": str(alone)}
    apart = start(config(tmp_path / "apart", method=method))
    ours, theirs = stage(staged, 2), plain(apart)
    assert [r["weights"] for r in ours] == [r["weights"] for r in theirs]
    assert ours[0]["weights"] == ours[1]["weights"] == ours[2]["weights"]
    assert ours[0]["weights"] != stage(staged, 1)[0]["weights"]


def test_traffic_of_both_stages_and_of_the_encoder_counts(staged, tmp_path):
    """Before its first round the second stage sends the encoder to each client, who answer."""
    alone = start(config(tmp_path / "plain", method={"name": "fedavg"}))
    one, both = read_json(alone / "summary.json"), read_json(staged / "summary.json")
    model = load_file(staged / "model.safetensors")
    encoder = 4 * sum(v.numel() for k, v in model.items() if k.startswith("encoder."))
    survey = 4 * (encoder + 4)
    assert [r["bytes_before"] for r in read_lines(staged / "rounds.jsonl")] == [0] * 3 + [
        survey,
        0,
        0,
    ]
    assert total(both) == 2 * total(one) + survey
    assert both["bytes_peak"] == one["bytes_peak"]
    assert both["samples"] == 2 * one["samples"]
    assert both["messages"] == 2 * one["messages"] + 8
    assert both["rounds"] == 6


def test_the_round_is_selected_from_the_last_stage(staged):
    """What comes before is not the method's model."""
    assert read_json(staged / "summary.json")["selected"]["round"] > 3


def test_a_run_it_builds_on_counts_and_a_file_brings_no_history(staged, tmp_path):
    """Only a run folder says what its training cost."""
    alone = start(config(tmp_path / "plain", method={"name": "fedavg"}))
    folder = {**RAW["method"], "encoder": str(alone)}
    file = {**RAW["method"], "encoder": str(alone / "model.safetensors")}
    one, other = (
        read_json(start(config(tmp_path / name, method=m)) / "summary.json")
        for name, m in (("folder", folder), ("file", file))
    )
    assert total(one) == total(read_json(staged / "summary.json"))
    assert total(one) - total(other) == total(read_json(alone / "summary.json"))


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
    resume(folder)
    for name in ("rounds.jsonl", "clients.jsonl", "model.safetensors", "summary.json"):
        assert (folder / name).read_bytes() == (staged / name).read_bytes(), name


def test_other_methods_beside_it_act_in_both_stages(staged, tmp_path):
    """The first stage has them without the weights."""
    done = start(config(tmp_path / "both", plus=[{"name": "fedprox", "mu": 10.0}]))
    alone = start(config(tmp_path / "prox", method={"name": "fedprox", "mu": 10.0}))
    assert stage(done, 1) == plain(alone)
    assert stage(done, 2)[-1]["metrics"] != stage(staged, 2)[-1]["metrics"]


def test_mistakes_in_the_second_stage_are_found_before_the_first(tmp_path):
    """Two rules for the weights; the folder is not made."""
    with pytest.raises(ConfigError, match="both set the weights"):
        start(config(tmp_path / "wrong", plus=[{"name": "fedep"}]))
    assert not (tmp_path / "wrong").exists()


def test_a_classifier_needs_an_encoder_from_elsewhere(staged, tmp_path):
    """Its own model cannot be the first stage's; a trained VAE of the same data can."""
    model = {"name": "mlp", "hidden": [8]}
    with pytest.raises(ConfigError, match="needs an autoencoder, and this model is not one"):
        start(config(tmp_path / "wrong", model=model))
    method = {**RAW["method"], "encoder": str(staged)}
    done = start(config(tmp_path / "classifier", model=model, method=method))
    assert "accuracy" in read_json(done / "summary.json")["last"]["local"]


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
    assert "stage" not in records[0]


def test_fallbacks_are_noted_in_the_record(tmp_path):
    """In every round that had one, and counted in the summary."""
    method = {"name": "feddisco", "a": 1000.0, "b": 0.0, "normalise": "never"}
    done = start(config(tmp_path / "noted", method=method, model={"name": "mlp", "hidden": [8]}))
    for record in read_lines(done / "rounds.jsonl"):
        assert record["notes"] == ["every client's weight was zero, so they were weighted by sizes"]
    assert read_json(done / "summary.json")["noted"] == 3
