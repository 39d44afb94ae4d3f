"""FedBuff: stale answers from the models their clients were given, weighed by age."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from federations import (
    Played,
    Quadratic,
    at,
    composed,
    distance,
    network_task,
    play,
    same,
    sampled,
    scalars,
)

from unalike.algorithms.fedbuff import Stale
from unalike.errors import ConfigError
from unalike.parts.mixing.examples import Uniform
from unalike.parts.optim import Sgd
from unalike.parts.participation.clock import Clock, Rate
from unalike.parts.topology import Clusters, Ring, Rotating

TASK, DATA = network_task("dense", torch.float64)
UNEVEN = Clock(Rate(10.0, 1.5), Rate(1e6, 0.5), Rate(1e6, 0.5))
SMALL = {"buffer": 2, "concurrency": 3}


def played(*methods: Any, rounds: int = 12, clock: Clock | None = UNEVEN, **options: Any) -> Played:
    recipe = composed(TASK, DATA, *methods, clock=clock, rounds=rounds)
    return play(recipe, DATA, rounds, **options)


def test_against_a_program_of_a_few_lines() -> None:
    """F_k = 1/2 (w - c_k)^2, one step of 0.5: u = (c_k - w_old) / 2, in steps of two answers."""
    c = [0.0, 4.0, 8.0, 12.0, -3.0, 7.0]
    data = scalars(c)
    recipe = composed(Quadratic(), data, ("fedbuff", SMALL), opt=Sgd(0.5), clock=UNEVEN, rounds=15)
    run = play(recipe, data, 15, at(w=1.0), batch_size=1)
    events, versions = run.loop.timing.events, [1.0]
    assert events is not None
    ages = []
    for t in range(15):
        arrivals = events.step(t).arrivals
        ages += [t - a.version for a in arrivals]
        step = sum(
            (c[a.client] - versions[a.version]) / 2 * (1 + t - a.version) ** -0.5 for a in arrivals
        )
        versions.append(versions[-1] + step / 2)
    assert max(ages) >= 2, "somebody must be stale for this to be a test"
    np.testing.assert_allclose(run.trace(), versions[1:], rtol=1e-6)
    assert [r.ids.tolist() for r in run.rounds] == [
        [a.client for a in events.step(t).arrivals] for t in range(15)
    ]
    assert sum(r.seconds for r in run.rounds) == pytest.approx(events.step(14).at)


def test_weights_by_age() -> None:
    from federations import cohort

    found = Stale(0.5, Uniform()).weights((), cohort([1, 1], staleness=[0.0, 3.0]))
    torch.testing.assert_close(found.p, torch.tensor([0.5, 0.25], dtype=torch.float64))


def test_equal_speeds_are_a_plain_mean() -> None:
    """Nobody is stale, so the power is of no account."""
    even = Clock(Rate(1e300), Rate(1e6), Rate(1e6))
    one, other = (
        played(("fedbuff", {"buffer": 3, "concurrency": 3, "power": a}), clock=even)
        for a in (0.0, 2.0)
    )
    assert distance(one.x, other.x) == 0
    assert all(float(r.weights.sum()) == pytest.approx(1) for r in other.rounds)


def test_a_buffer_for_everybody_and_no_delay_is_fedavg() -> None:
    """All six clients start together and arrive together: bit for bit, with a plain mean."""
    even, everybody = Clock(Rate(1e300), Rate(1e6), Rate(1e6)), {"buffer": 6, "concurrency": 6}
    full = played(("fedbuff", everybody), clock=even, rounds=4, engine="sequential")
    plain = composed(TASK, DATA, "fedavg", mean=Uniform(), rounds=4)
    assert same(full.x, play(plain, DATA, 4, engine="sequential").x)
    uneven = played(("fedbuff", everybody), rounds=4, engine="sequential")
    assert same(uneven.x, full.x)  # a step waits for all of them


@pytest.mark.parametrize(
    "beside", ["fedprox", "scaffold", "lg_fedavg", "fedadam", "topk", "feddisco"]
)
def test_around_other_methods_on_both_engines(beside: str) -> None:
    one, many = (
        played(("fedbuff", SMALL), beside, engine=e, rounds=6) for e in ("sequential", "vectorized")
    )
    assert distance(one.x, many.x) < 1e-9
    plain = played(("fedbuff", SMALL), rounds=6).x
    assert distance(one.x, {name: plain[name] for name in one.x}) > 1e-9


def test_bytes_are_those_of_one_model() -> None:
    """Two answers a step, each with one model down."""
    done = played(("fedbuff", SMALL)).rounds[5]
    assert done.traffic == (2 * 8 * 188, 2 * (8 * 188 + 8), 0, 4)


def test_answers_in_vain_have_travelled() -> None:
    """A model down and a change up, although nobody uses it: by hand from who came when."""
    slow, most = Clock(Rate(10.0, 3.0), Rate(1e6), Rate(1e6)), 1
    run = played(("fedbuff", {"buffer": 1, "concurrency": 4, "max_staleness": most}), clock=slow)
    events, model = run.loop.timing.events, 188
    assert events is not None
    lost = [len(events.step(t).lost) for t in range(12)]
    assert 0 < sum(lost) < 12
    for n, done in zip(lost, run.rounds, strict=True):
        down, up = (1 + n) * 8 * model, (1 + n) * (8 * model + 8)
        assert done.traffic == (down, up, 0, 2 * (1 + n))
        assert done.load.at_once == up
        assert done.worked["parameters"] == 2 * (1 + n) * model


@pytest.mark.parametrize(
    ("methods", "parts", "words"),
    [
        (("fedbuff",), {}, "buffer = 10 of 'fedbuff' is more than the 6 clients"),
        ((("fedbuff", {"buffer": 2}),), {}, "concurrency = 20 of 'fedbuff' is more than the 6"),
        ((("fedbuff", SMALL),), sampled(0.5), "leave participation out"),
        ((("fedbuff", SMALL),), {"clock": replace(UNEVEN, deadline=1.0)}, "leave clock.deadline"),
        ((("fedbuff", SMALL), "phase_shift"), {"clock": UNEVEN}, "both set the schedule"),
        ((("fedbuff", SMALL), "fednova"), {"clock": UNEVEN}, "changes the weights|step length"),
        ((("fedbuff", SMALL), "term"), {"clock": UNEVEN}, "different versions"),
        ((("fedbuff", SMALL), ("local_dp", {"delta": 0.01})), {"clock": UNEVEN}, "epsilon"),
        ((("fedbuff", SMALL),), {"clock": UNEVEN, "topology": Ring()}, "updates"),
        ((("fedbuff", SMALL),), {"clock": UNEVEN, "topology": Clusters(2)}, "updates"),
        ((("fedbuff", SMALL),), {"clock": UNEVEN, "topology": Rotating()}, "versions"),
    ],
)
def test_what_is_refused(methods: Any, parts: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        composed(TASK, DATA, *methods, **parts)
