"""Fine-tuning is a stage: the method's rounds, then everybody alone from their last model."""

from typing import Any

import pytest
import torch
from autoencoders import clients, vae
from federations import (
    Named,
    Played,
    Quadratic,
    at,
    composed,
    drafted,
    network_task,
    play,
    same,
    sampled,
    scalars,
    state_of,
    walk,
)

from unalike import rng, tree
from unalike.errors import ConfigError
from unalike.parts.optim import Sgd
from unalike.parts.private import EVERYTHING
from unalike.recipe import Decay
from unalike.run.experiment.build import releases


def tuned(*methods: Named, network: str = "dense", rounds: int = 4, **parts: Any) -> Played:
    task, data = network_task(network)
    draft = drafted(task, data, *methods, rounds=rounds, **{**sampled(0.5, 1.5), **parts})
    return walk(draft.program(), data, engine="sequential", batch_size=16, traced=False)


def test_on_parabolas() -> None:
    """Minima 0 and 10 from 4, rate 0.1, two rounds of FedAvg and two of tuning.

    FedAvg: 4 -> 4.1 -> 4.19. Alone: 4.19 x 0.9^t, and 10 - 5.81 x 0.9^t.
    """
    data = scalars([0.0, 10.0])
    draft = drafted(Quadratic(), data, ("finetune", {"rounds": 2}), opt=Sgd(0.1), epochs=1.0)
    played = walk(draft.program(), data, None, at(w=4.0))
    assert played.trace() == pytest.approx([4.1, 4.19, 4.19, 4.19])
    for t in (1, 2):
        kept = [float(played.kept[t + 1][k]["w"]) for k in (0, 1)]
        assert kept == pytest.approx([4.19 * 0.9**t, 10 - 5.81 * 0.9**t])


@pytest.mark.parametrize(
    "methods", [("fedavg",), ("scaffold",), (("fedprox", {"mu": 0.5}), "fedadam"), ("feddisco",)]
)
def test_it_is_the_method_and_then_training_alone(methods: tuple[Named, ...]) -> None:
    """Bit for bit, from the method's own last model; all clients take part in the end."""
    task, data = network_task("conv")
    played = tuned(*methods, ("finetune", {"rounds": 1}), network="conv")
    bare = composed(task, data, *methods, **sampled(0.5, 1.5))
    before = play(bare, data, 3, engine="sequential", batch_size=16, traced=False)
    assert same(played.states[3].servers[0].x, before.x)
    assert played.rounds[-1].ids.tolist() == list(range(data.n_clients))
    alone = drafted(task, data, "fedavg", private=EVERYTHING, **sampled(1.0, 1.5)).recipe()
    loop = play(alone, data, 0, before.x, engine="sequential", batch_size=16, traced=False)
    loop.loop.advance(loop.states[0], 3)
    for i in range(data.n_clients):
        assert same(state_of(played.simulation, i), state_of(loop.simulation, i))


def test_the_shared_model_stays_for_strangers() -> None:
    played = tuned("finetune")
    algorithm = played.loop.recipe.algorithm
    assert same(algorithm.model(played.server, rng.key(0)), played.states[3].servers[0].x)
    own = played.kept[-1][2]
    assert same(algorithm.personal(algorithm.broadcast(played.server), own), own)
    assert not same(own, played.x)
    assert algorithm.personal_models


def test_the_model_is_sent_once_and_then_nothing() -> None:
    """To all six clients, not only to the cohort; then not even numbers of examples."""
    played = tuned(("finetune", {"rounds": 2}))
    size = tree.size_bytes(played.x)
    down, up = zip(*((r.traffic.down, r.traffic.up) for r in played.rounds), strict=True)
    assert down == (3 * size, 3 * size, 6 * size, 0)
    assert up == (3 * (size + 8), 3 * (size + 8), 0, 0)


def test_rate_and_epochs_of_its_own() -> None:
    """A rate of its own does not decay; without one the decay continues where it was."""
    task, data = network_task("dense")
    decay = Decay("exponential", 0.5)
    own = ("finetune", {"lr": 0.2, "epochs": 3.0})
    last = drafted(task, data, own, decay=decay, opt=Sgd(0.05, 0.9)).program()[-1]
    assert last.recipe.algorithm.opt == Sgd(0.2, 0.9)
    assert last.recipe.decay == Decay()
    assert last.recipe.schedule.epochs == 3.0
    plain = drafted(task, data, "finetune", decay=decay).program()[-1]
    assert plain.recipe.decay(3) == 0.125
    assert (plain.rounds, plain.start) == (1, "own")


def test_after_a_stage_of_another_method() -> None:
    """Latent weights begin with an autoencoder: three rounds of it, two of weights, one alone."""
    draft = drafted(vae(), clients(), "latent_disco", "finetune", rounds=3)
    stages = draft.program()
    assert [(s.rounds, s.start) for s in stages] == [(3, "fresh"), (2, "fresh"), (1, "own")]
    assert stages[2].recipe.decay == stages[1].recipe.decay


def test_privacy_is_counted_for_the_rounds_that_release_something() -> None:
    task, data = network_task("dense")
    private = ("dp", {"delta": 0.01})
    stages = drafted(task, data, private, ("finetune", {"rounds": 3}), rounds=5).program()
    span, promised = releases(stages)
    assert span == range(2)
    assert promised is stages[0].recipe
    assert stages[1].recipe.guarantee is None
    assert not stages[1].recipe.filters
    assert releases(drafted(task, data, "finetune").program()) == (range(0), None)


@pytest.mark.parametrize(
    ("methods", "why"),
    [
        ((("finetune", {"rounds": 4}),), "is 4 of 4 rounds"),
        (("finetune", "per_fedavg"), "each of them ends with its own stage"),
        (("finetune", "local_only"), "every client trains alone"),
        (("finetune", "fedevg"), "no shared model"),
    ],
)
def test_what_is_refused(methods: tuple[Named, ...], why: str) -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=why):
        composed(task, data, *methods)


def test_it_needs_one_server() -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match="all clients continue with what one server has"):
        composed(task, data, "finetune", topology="ring")


def test_clients_that_never_trained_are_tuned_as_well() -> None:
    """One of six in a round, but all in the last."""
    played = tuned("finetune", **sampled(0.2, 1.0))
    seen = {i for r in played.rounds[:-1] for i in r.ids.tolist()}
    assert len(seen) < 6
    shared = played.x
    for i in range(6):
        own = state_of(played.simulation, i)
        assert any(not torch.equal(own[k], shared[k]) for k in own)
