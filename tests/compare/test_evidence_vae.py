"""The jobs of benchmarks/vae_niid2.py: stopped, side by side, and without idle clients."""

import importlib

import pytest
from watched import Asked, jobs


@pytest.fixture
def small_vae(monkeypatch):
    """The VAE's benchmark on few examples."""
    from unalike.run.configuration.config import parse

    vae = importlib.import_module("vae_niid2")
    small = {
        "rounds": 3,
        "data": {"name": "digits"},
        "partition": {"name": "niid2"},
        "split": {"validation": 0.0, "test": 0.2},
        "model": {"name": "vae", "hidden": [16]},
        "local": {"epochs": 0.2, "lr": 0.001},
    }
    monkeypatch.setattr(
        vae,
        "settings",
        lambda chosen, seed, method: parse({**small, "seed": seed, "method": method}),
    )
    return {"data": "digits", "partition": "niid2", "init": "torch", "alpha": 0.0}


def test_the_vae_is_stopped_between_rounds_and_begins_again(tmp_path, small_vae):
    encoder = tmp_path / "encoders" / "one"
    job = {**small_vae, "seeds": [0], "encoders": [str(encoder)]}
    for stop, expected in ((2, {"stopped": 2}), (None, None)):
        watch = Asked(stop={0: stop})
        watch.begin(1)
        [found] = jobs.vaes(job, "cpu", watch)
        assert expected is None or found == expected
        assert encoder.exists() == (expected is None)
        assert [done for _, done in watch.seen] == list(range(1, (stop or 3) + 1))
    assert len(found["loss"]) == 3


def test_seeds_of_the_vae_side_by_side_are_those_alone(tmp_path, small_vae):
    def losses(place, alpha, *seeds):
        watch = Asked(stop={})
        watch.begin(len(seeds))
        encoders = [str(tmp_path / place / f"{seed}") for seed in seeds]
        job = {**small_vae, "alpha": alpha, "seeds": seeds, "encoders": encoders}
        return [found["loss"] for found in jobs.vaes(job, "cpu", watch)]

    for alpha in (0.0, 0.5):  # the weights come from the encoders that the first leave behind
        [one], [other] = losses("alone", alpha, 0), losses("alone", alpha, 1)
        assert one != other
        assert losses("beside", alpha, 0, 1) == [
            pytest.approx(one, rel=1e-4),
            pytest.approx(other, rel=1e-4),
        ]


def test_clients_without_a_weight_need_not_compute(tmp_path, small_vae, monkeypatch):
    vae = importlib.import_module("vae_niid2")
    first = {**small_vae, "seeds": [0], "encoders": [str(tmp_path / "encoder")]}
    last = {**first, "alpha": 0.5}
    found = []
    for job in (first, last):
        watch = Asked(stop={})
        watch.begin(1)
        found.append(jobs.vaes(job, "cpu", watch)[0])
    monkeypatch.setattr(vae, "heard", lambda made, chosen, alpha: made)
    watch = Asked(stop={})
    watch.begin(1)
    [whole] = jobs.vaes(last, "cpu", watch)
    assert 0 < whole["nonzero"] < 6
    assert found[1]["weights"] == whole["weights"]
    assert found[1]["loss"] == pytest.approx(whole["loss"], rel=1e-6)
