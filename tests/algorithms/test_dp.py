"""Differential privacy, central and what it shares with the local one (see test_local_dp.py)."""

from typing import Any

import pytest
import torch
from federations import Named, cohort, composed, distance, federation, network_task, play, sampled
from pydantic import ValidationError

from unalike import rng
from unalike.algorithms.dp import CentralDp
from unalike.algorithms.table import METHODS
from unalike.engine.attacks import AttackedTransport, SignFlip
from unalike.engine.loop import Loop
from unalike.engine.server.guard import Guard
from unalike.errors import ConfigError
from unalike.parts.clip import length
from unalike.parts.mixing.examples import Uniform
from unalike.tree import sub

EQUAL = federation(sizes=(12,) * 6)
RAGGED = federation()


def run(data: Any, *methods: Named, rounds: int = 3, **options: Any) -> Any:
    task, _ = network_task("dense")
    return play(composed(task, data, *methods), data, rounds, **options)


def with_(name: str, clip: float, noise: float) -> Named:
    return name, {"clip": clip, "noise_multiplier": noise}


def test_no_noise_and_a_large_bound_is_fedavg() -> None:
    """Central: with equal weights. Local: with FedAvg's own."""
    plain = run(EQUAL, "fedavg").x
    assert distance(plain, run(EQUAL, with_("dp", 1e30, 0.0)).x) < 1e-6
    ragged = run(RAGGED, "fedavg").x
    assert distance(ragged, run(RAGGED, with_("local_dp", 1e30, 0.0)).x) < 1e-6


@pytest.mark.parametrize("name", ["dp", "local_dp"])
def test_no_round_moves_the_model_further_than_the_bound(name: str) -> None:
    done = run(RAGGED, with_(name, 0.01, 0.0))
    for before, after in zip(done.states, done.states[1:], strict=False):
        step = sub(after.servers[0].x, before.servers[0].x)
        assert 0 < float(length(step)) <= 0.01 * 1.001


@pytest.mark.parametrize(("name", "answers"), [("dp", 6.0), ("local_dp", 6.0**0.5)])
def test_the_size_of_the_noise(name: str, answers: float) -> None:
    """On the mean of six: z C / 6 if added once, z C / sqrt(6) if everybody adds his own."""
    task, data = network_task("dense")
    before = task.init(torch.tensor(7))
    recipe = composed(task, EQUAL, with_(name, 1e-6, 1e6))  # the updates themselves vanish
    after = play(recipe, EQUAL, 1, before).x
    noise = torch.cat([(after[k] - before[k]).flatten() for k in before])
    expected = 1 / answers
    assert float(noise.std()) == pytest.approx(expected, rel=5 / (2 * len(noise)) ** 0.5)


@pytest.mark.parametrize("name", ["dp", "local_dp"])
@pytest.mark.parametrize("settings", [{}, sampled(0.5)])
def test_engines_agree_on_noise(name: str, settings: dict[str, Any]) -> None:
    """Alone or vmapped, a client draws the same noise."""
    task, data = network_task("dense")
    recipe = composed(task, data, with_(name, 0.1, 1.0), **settings)
    a, b = (play(recipe, data, 3, engine=e) for e in ("sequential", "vectorized"))
    assert distance(a.x, b.x) < 1e-5
    other = play(recipe, data, 3, seed=1)
    assert distance(a.x, other.x) > 1e-3


def test_everybody_counts_the_same() -> None:
    done = run(RAGGED, "dp")
    assert done.loop.recipe.mixing == Uniform()
    assert done.rounds[0].weights.tolist() == pytest.approx([1 / 6] * 6)


def test_an_attacker_cannot_break_the_bound() -> None:
    """The server clips what the client did not."""
    task, data = network_task("dense")
    recipe = composed(task, data, with_("dp", 0.01, 0.0))
    simulation = play(recipe, data, 0).simulation
    attack = SignFlip(number=3, scale=100.0)
    loop = Loop(
        recipe, AttackedTransport(simulation, attack, attack.attackers(6, 0), 0), 1, 0, Guard()
    )
    state = loop.begin(simulation.w)
    after, _ = loop.advance(state, 0)
    assert float(length(sub(after.servers[0].x, state.servers[0].x))) <= 0.01 * 1.001


@pytest.mark.parametrize("other", ["fedprox", "fedadam", "lg_fedavg", "superfed_mm", "fedaug"])
@pytest.mark.parametrize("name", ["dp", "local_dp"])
def test_they_combine_with_other_parts(name: str, other: str) -> None:
    task, data = network_task("dense")
    for methods in ([other, name], [name, other]):
        done = play(composed(task, data, *methods, rounds=2), data, 2)
        assert all(torch.isfinite(x).all() for x in done.x.values())


@pytest.mark.parametrize(
    ("methods", "settings", "message"),
    [
        (["dp", "fedep"], {}, "'dp' cannot be combined with 'fedep': .*plain mean"),
        (["fednova", "dp"], {}, "cannot be combined"),
        (["dp", "median"], {}, "'dp' cannot be combined with 'median': .*no other rule"),
        (["dp", "local_dp"], {}, "both set the privacy"),
        (["dp", ("phase_shift", {"phases": 2})], {}, "'dp' cannot be .* 'phase_shift': .*uniform"),
        (["scaffold", "dp"], {}, "'scaffold' cannot be combined"),
        (["fedevg", "local_dp"], {}, "'fedevg' cannot be combined"),
        (["dp"], {"topology": "clusters"}, "cannot run on topology 'clusters'"),
        (["local_dp", "fedep"], {}, "covers only the updates.*label_mixture, size"),
        (["aaggff_d", "local_dp"], {}, "covers only the updates.*loss"),
        ([("fedprox", {"adaptive": True}), "dp"], {}, "covers only the updates.*report their loss"),
        ([("dp", {"delta": 0.5})], {}, "delta = 0.5 of method 'dp'.*one of 6 clients.*below 0.17"),
    ],
)
def test_refusals(methods: list[Named], settings: dict[str, Any], message: str) -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=message):
        composed(task, data, *methods, **settings)


@pytest.mark.parametrize("name", ["dp", "local_dp"])
def test_shared_batch_statistics_are_refused(name: str) -> None:
    """Noise would make running variances negative."""
    task, data = network_task("conv")
    with pytest.raises(ConfigError, match=r"BatchNorm.*run.buffers to 'local' or 'drop'"):
        composed(task, data, name)


@pytest.mark.parametrize("name", ["dp", "local_dp"])
@pytest.mark.parametrize(
    "settings", [{"clip": 0.0}, {"noise_multiplier": -1.0}, {"delta": 0.0}, {"delta": 1.0}]
)
def test_impossible_settings(name: str, settings: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        METHODS[name](**settings)


# -- the server's half of the mechanism -----------------------------------------------------------

MANY = 40_000


def zeros(n: int) -> dict[str, torch.Tensor]:
    return {"a": torch.zeros(n, MANY // 2), "b": torch.zeros(n, 2, MANY // 4)}


def flat(up: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([x.flatten() for x in up.values()])


@pytest.mark.parametrize("n", [1, 4, 10])
def test_central_noise_falls_with_the_number_of_answers(n: int) -> None:
    """z C / n on the mean, that is z C on the sum."""
    up, p = CentralDp(clip=2.0, noise_multiplier=1.5)(
        zeros(n), torch.full((n,), 1 / n), cohort([1.0] * n)
    )
    assert p.tolist() == [1.0]
    assert float(flat(up).std()) == pytest.approx(3 / n, rel=5 / (2 * MANY) ** 0.5)


def test_the_server_clips_what_clients_did_not() -> None:
    """(3, 4) to (0.6, 0.8), (0, 0.5) stays: half the sum."""
    ups = {"w": torch.tensor([[3.0, 4.0], [0.0, 0.5]])}
    up, _ = CentralDp(clip=1.0, noise_multiplier=0.0)(
        ups, torch.tensor([0.5, 0.5]), cohort([1.0, 1.0])
    )
    assert up["w"].tolist() == [pytest.approx([0.3, 0.65])]


def test_every_leaf_round_and_client_has_noise_of_its_own() -> None:
    ups, p = zeros(2), torch.tensor([0.5, 0.5])
    now, later = (
        flat(
            CentralDp(clip=1.0, noise_multiplier=1.0)(
                ups, p, cohort([1.0, 1.0])._replace(key=rng.key(k))
            )[0]
        )
        for k in (1, 2)
    )
    half = MANY // 2
    for a, b in ((now, later), (now[:half], now[half:])):
        assert abs(float(torch.corrcoef(torch.stack([a, b]))[0, 1])) < 5 / half**0.5
    again = flat(
        CentralDp(clip=1.0, noise_multiplier=1.0)(
            ups, p, cohort([1.0, 1.0])._replace(key=rng.key(1))
        )[0]
    )
    assert torch.equal(now, again)
