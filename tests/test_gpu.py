"""The CPU and a CUDA device give the same numbers, for both engines and every method."""

from typing import Any

import pytest
import torch
from federations import composed, distance, keep, kept_by, network_task, play, sampled
from interrupted import assert_same_run
from torch.func import vmap

from unalike import rng, tree
from unalike.algorithms.table import METHODS
from unalike.engine.compiled import fusing
from unalike.engine.loop import Loop, State
from unalike.engine.simulation.simulate import Engine
from unalike.run.configuration.config import Config, parse
from unalike.run.engines import choice
from unalike.run.execute import resume, start
from unalike.run.experiment.build import Experiment, experiment
from unalike.tree import Params

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
    pytest.mark.filterwarnings("ignore:fedaug leaves"),  # some clients lack classes, as they may
]
LOCAL = {"epochs": 0.5, "batch_size": 8, "lr": 0.05}
CONFIG = {
    "rounds": 3,
    "partition": {"name": "dirichlet", "clients": 6, "alpha": 0.5, "min_size": 20},
    "model": {"name": "two_cnn"},
    "local": LOCAL,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "fedbuff": {"buffer": 2, "concurrency": 3},
    "phase_shift": {"phases": 3},
    "fedaug": {"target": 0.2},
    "latent_disco": {"refresh": "every"},
}
MODELS: dict[str, dict[str, Any]] = {
    "latent_disco": {"name": "vae", "hidden": [16]},  # it measures an autoencoder's latents
    "fedbn": {"name": "mlp", "hidden": [16], "batch_norm": True},
}
CHOOSING = ("by_size", "power_of_choice")  # have nothing to choose if all take part
PRIVATE = ("dp", "local_dp")  # they count what they spend by an optional package
SWITCHES: dict[str, tuple[str, dict[str, Any]]] = {  # through other code than the defaults
    "lg_fedavg in turns": ("lg_fedavg", {"settings": {"step": "sequential"}}),
    "lg_fedavg warm": ("lg_fedavg", {"settings": {"warm_start": 2}}),
    "fednova with feddisco": ("fednova", {"plus": ["feddisco"]}),
    "spectral fedevg": (
        "fedevg",
        {
            "settings": {"noise": 0.0, "chain_noise": 0.0},
            "data": {"name": "digits", "size": 16},
            "model": {"name": "resnet10", "width": 8, "spectral": True},
        },
    ),
}
ENGINES = {
    "sequential": {"kind": "sequential"},
    "vectorized": {"kind": "vectorized", "graphs": False},
    "graphs": {"kind": "vectorized", "graphs": True},
}
CPU = {"kind": "sequential", "device": "cpu"}


def made(
    method: str, engine: dict[str, Any], settings: dict[str, Any] | None = None, **more: Any
) -> Experiment:
    if method in PRIVATE:
        pytest.importorskip("dp_accounting", reason="the accountant is not installed")
    some = {"participation": {"fraction": 0.5}} if method in CHOOSING else {}
    raw = {
        **CONFIG,
        **some,
        "model": MODELS.get(method, CONFIG["model"]),
        "method": {"name": method, **(settings or SETTINGS.get(method, {}))},
        "engine": {"device": "cuda", **engine},
        **more,
    }
    return experiment(parse(raw))


def final(made: Experiment, rounds: int | None = None) -> torch.Tensor:
    """All numbers of servers and clients after the last round of the last stage, or earlier."""
    progress = made.course.begin()
    for t in range(made.course.rounds if rounds is None else rounds):
        progress, _, _ = made.course.advance(progress, t)
    leaves = tree.leaves((progress.state.stack, dict(sorted(kept_by(made.simulation).items()))))
    return torch.cat([x.flatten().double().cpu() for x in leaves])


def precisely(made: Experiment) -> torch.Tensor:
    """In double precision: in single a rounding may turn a ReLU on that was off, and then devices
    differ by whole gradients, as two orders of the same sum do on one device.
    """

    def double(x: torch.Tensor) -> torch.Tensor:
        return x.double() if x.is_floating_point() else x

    made.simulation.x = double(made.simulation.x)
    made.course.w = tree.map(double, made.course.w)
    return final(made)


def gap(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.linalg.norm(a - b) / torch.linalg.norm(a))


@pytest.mark.parametrize("method", METHODS)
def test_cuda_equals_cpu(method, record_property):
    alone = precisely(made(method, CPU))
    gaps = {name: gap(alone, precisely(made(method, e))) for name, e in ENGINES.items()}
    record_property("gaps", gaps)
    assert max(gaps.values()) <= 1e-6, gaps  # noise is drawn in single precision


@pytest.mark.parametrize("method", [m for m in METHODS if m not in CHOOSING])
def test_compiled_steps(method, monkeypatch, record_property):
    """What the compiler merges is rounded otherwise, and no more than that."""
    alone = precisely(made(method, CPU))
    monkeypatch.setattr(choice, "LONG", 0)
    monkeypatch.setattr(fusing, "BUSY", 0.0)
    found = gap(alone, precisely(made(method, {"kind": "vectorized"})))
    record_property("gap", found)
    assert found <= 1e-6


def test_compiled_steps_are_the_same_again(monkeypatch):
    monkeypatch.setattr(choice, "LONG", 0)
    one, two = (final(made("superfed_mm", {"kind": "vectorized"})) for _ in range(2))
    assert torch.equal(one, two)


@pytest.mark.parametrize("engine", [{"tf32": True}, {"bf16": True}], ids=str)
def test_descent_in_the_pass_of_its_product(engine, monkeypatch):
    """Rounded products differ from exact ones by what rounding is, compiled or not."""
    model = {"model": {"name": "mlp", "hidden": [320, 64]}}  # wide enough for every kernel
    exact, plain = (
        final(made("fedavg", {"kind": "vectorized", **e}, **model)) for e in ({}, engine)
    )
    monkeypatch.setattr(choice, "LONG", 0)
    merged = final(made("fedavg", {"kind": "vectorized", **engine}, **model))
    assert gap(exact, merged) <= 2 * gap(exact, plain) + 1e-4


@pytest.mark.parametrize("engine", [{"tf32": True}, {"bf16": True}], ids=str)
def test_a_recorded_cohort_is_the_same_cohort(engine, monkeypatch):
    """Compiled steps one by one, as after a run is resumed, and all of a round in one recording."""
    monkeypatch.setattr(choice, "LONG", 0)
    model = {"model": {"name": "mlp", "hidden": [320, 64]}}
    whole, steps = (made("fedavg", {"kind": "vectorized", **engine}, **model) for _ in range(2))
    steps.simulation.calls = None
    assert torch.equal(final(whole), final(steps))


@pytest.mark.filterwarnings("ignore:a local step of this model")  # the spectral norm's, recorded
@pytest.mark.parametrize("name", SWITCHES)
def test_switches(name, record_property):
    method, more = SWITCHES[name]
    alone = precisely(made(method, CPU, **more))
    gaps = {kind: gap(alone, precisely(made(method, e, **more))) for kind, e in ENGINES.items()}
    record_property("gaps", gaps)
    # Synthetic examples begin as noise of single precision, and Adam's first steps are the signs
    # of gradients: what two devices round otherwise grows, alike on all engines of a device.
    made_of_noise = name == "spectral fedevg"
    assert max(gaps.values()) <= (2e-4 if made_of_noise else 1e-6), gaps
    assert max(gaps.values()) - min(gaps.values()) <= 1e-6, gaps


@pytest.mark.parametrize("ensemble", ["probabilities", "votes", "weights"])
def test_strangers_are_judged_alike(ensemble):
    """By all clients' own models, after a round on the CPU."""
    parts = {"evaluation": {"ensemble": ensemble}, "split": {"new_clients": 1}}
    alone, there = (made("lg_fedavg", engine, **parts) for engine in (CPU, {}))
    state, _ = alone.loop.advance(alone.loop.begin(alone.w), 0)
    one = alone.evaluator(state).clients
    cuda = torch.device("cuda")
    keep(there.simulation, {k: tree.to(v, cuda) for k, v in kept_by(alone.simulation).items()})
    two = there.evaluator(tree.to(state, cuda)).clients
    for section in ("local", "global", "new"):
        assert two[section]["accuracy"] == one[section]["accuracy"]
        assert two[section]["loss"] == pytest.approx(one[section]["loss"], rel=1e-3)


@pytest.mark.parametrize("network", ["conv", "dense", "lstm"])
def test_networks(network, record_property):
    """BatchNorm, dropout and symbols; enough steps for a recording."""
    task, data = network_task(network, torch.float64)
    recipe = composed(task, data, "fedavg", **sampled(0.5, 4.0))
    w = tree.map(torch.Tensor.double, task.init(rng.key(7)))

    def played(engine: Engine, device: str = "cuda", **options: Any) -> Params:
        on = torch.device(device)
        options |= {"batch_size": 3, "engine": engine, "device": on}
        return tree.to(play(recipe, data, 3, tree.to(w, on), **options).x, torch.device("cpu"))

    alone = played("sequential", "cpu")
    gaps = {
        "sequential": distance(alone, played("sequential")),
        "vectorized": distance(alone, played("vectorized", graphs=False)),
        "graphs": distance(alone, played("vectorized")),
    }
    record_property("gaps", gaps)
    assert max(gaps.values()) <= 1e-9, gaps


def test_products_are_rounded_only_where_asked(record_property):
    """Outputs of four clients' networks at once; TF32 has three decimal digits."""

    def outputs(engine: dict[str, Any]) -> torch.Tensor:
        it = made("fedavg", engine, model={"name": "resnet9"})
        x, w = it.simulation.x[:256].reshape(4, 64, 1, 8, 8), it.simulation.w
        several = tree.stack([w] * 4)
        return vmap(it.recipe.algorithm.task.logits)(several, x).cpu()

    precise = outputs(CPU)
    gaps = {tf32: gap(precise, outputs({"tf32": tf32})) for tf32 in (False, True)}
    record_property("gaps", gaps)
    assert gaps[False] <= 1e-5 < 1e-4 <= gaps[True], gaps


def test_a_deep_network_gives_the_same_numbers_again():
    """Convolutions and pooling have fast kernels that add in an order left to chance."""
    setting = {"model": {"name": "resnet9"}}
    looped = final(made("fedavg", ENGINES["vectorized"], **setting), rounds=2)
    for name in ("vectorized", "graphs"):
        assert torch.equal(looped, final(made("fedavg", ENGINES[name], **setting), rounds=2)), name


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedaug", "superfed_mm"])
def test_a_replayed_step_is_the_same_step(method):
    """The graph holds the kernels that a loop would launch, so not a bit may differ."""
    looped, replayed = (final(made(method, ENGINES[name])) for name in ("vectorized", "graphs"))
    assert torch.equal(looped, replayed)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "aaggff_s", "lg_fedavg"])
def test_a_resumed_run_is_the_same_run(method, tmp_path, monkeypatch):
    """Killed between two checkpoints and resumed: the same weights, the same records."""

    def config(folder: str) -> Config:
        raw = {
            **CONFIG,
            "rounds": 6,
            "method": {"name": method},
            "engine": {"device": "cuda", "kind": "vectorized"},
            "run": {"folder": str(tmp_path / folder), "checkpoint_every": 2},
        }
        return parse(raw)

    start(config("whole"))
    real = Loop.advance

    def dying(self: Loop, state: State, t: int) -> Any:
        if t == 3:
            raise SystemError("killed")
        return real(self, state, t)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "advance", dying)
        with pytest.raises(SystemError, match="killed"):
            start(config("cut"))
    resume(tmp_path / "cut")
    assert_same_run(tmp_path / "cut", tmp_path / "whole")
