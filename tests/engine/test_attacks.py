"""Attackers: who they are, what they do, and that nobody else is touched."""

from typing import Any

import numpy as np
import pytest
import torch
from federations import CLASSES, Quadratic, at, composed, network_task, play, same, scalars
from pydantic import ValidationError

from unalike import rng
from unalike.algorithms.fedavg import FedAvg
from unalike.engine.attacks import (
    ATTACKS,
    Attack,
    AttackedTransport,
    LabelFlip,
    ModelReplacement,
    Noise,
    SignFlip,
)
from unalike.engine.loop import Loop
from unalike.engine.server.gather import Held
from unalike.engine.server.guard import Guard
from unalike.errors import ConfigError
from unalike.federation.data import Examples
from unalike.parts.mixing.examples import Uniform
from unalike.parts.optim import Sgd
from unalike.recipe import Recipe

FIVE = scalars([0.0, 1.0, 2.0, 3.0, 4.0])


def one_round(attack: Attack, liars: list[int], w: float = 10.0) -> float:
    """Five parabolas, one step of 0.5: honest updates are (m_k - w) / 2, and all weigh a fifth."""
    recipe = Recipe(FedAvg(Quadratic(), Sgd(0.5)), Uniform())
    simulation = play(recipe, FIVE, 0, at(w=w)).simulation
    transport = AttackedTransport(simulation, attack, torch.tensor(liars), 0)
    loop = Loop(recipe, transport, range(1), 0, Guard())
    state, _ = loop.advance(loop.begin(at(w=w)), 0)
    return float(state.servers[0].x["w"])


def test_sign_flip_by_hand() -> None:
    """Updates -5 -4.5 -4 -3.5 -3; the last sends +6: -11 / 5."""
    assert one_round(SignFlip(scale=2.0), [4]) == pytest.approx(10 - 11 / 5)


def test_model_replacement_by_hand() -> None:
    """One liar of five sends 5 x -3; two send 2.5 x -3.5 and 2.5 x -3."""
    assert one_round(ModelReplacement(), [4]) == pytest.approx(10 + (-17 - 15) / 5)
    assert one_round(ModelReplacement(), [3, 4]) == pytest.approx(10 + (-13.5 - 16.25) / 5)
    assert one_round(ModelReplacement(scale=10.0), [4]) == pytest.approx(10 + (-17 - 30) / 5)


def test_nobody_lies() -> None:
    assert one_round(Attack(), []) == pytest.approx(6.0)
    assert len(Attack().attackers(10, 0)) == 0


def answers(attack: Attack, liars: list[int], seed: int = 0, t: int = 0) -> Any:
    """The updates of all six clients as the server holds them."""
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg")
    simulation = play(recipe, data, 0, seed=seed).simulation
    transport = AttackedTransport(simulation, attack, torch.tensor(liars), seed)
    loop = Loop(recipe, transport, range(5), seed, Guard())
    state = loop.begin(simulation.w)
    plan = recipe.schedule.plan(t, range(5), data.n_clients, loop.cohorts)
    held = Held(recipe.channel, plan.ids)
    for part in transport.train(t, plan, loop.downs(state), loop.home):
        held.take(part)
    return held.uploads(plan.ids)(plan.ids).stack()


def test_the_honest_are_not_touched() -> None:
    honest, forged = answers(Attack(), []), answers(Noise(std=3.0), [1, 4])
    for a, b in zip(honest.delta.values(), forged.delta.values(), strict=True):
        for i in range(6):
            assert torch.equal(a[i], b[i]) == (i not in (1, 4))


def test_noise_has_the_given_size_and_is_each_attackers_own() -> None:
    forged = answers(Noise(std=3.0), [1, 4])
    lies = torch.cat([x.flatten(1)[[1, 4]] for x in forged.delta.values()], 1)
    assert float(lies.std()) == pytest.approx(3.0, rel=0.2)
    assert abs(float(torch.corrcoef(lies)[0, 1])) < 0.3


def test_forgeries_repeat_by_seed_and_change_by_round() -> None:
    first = answers(Noise(), [1, 4])
    assert same(first, answers(Noise(), [1, 4]))
    for other in (answers(Noise(), [1, 4], seed=1), answers(Noise(), [1, 4], t=1)):
        name = next(iter(first.delta))
        assert not torch.equal(first.delta[name][1], other.delta[name][1])
    alone = answers(Noise(), [4])
    assert torch.equal(first.delta[name][4], alone.delta[name][4])


@pytest.mark.parametrize("name", sorted(set(ATTACKS) - {"none"}))
def test_attackers_are_drawn_by_the_seed(name: str) -> None:
    attack = ATTACKS[name](share=0.3)
    drawn = [attack.attackers(50, seed).tolist() for seed in range(20)]
    assert drawn[0] == attack.attackers(50, 0).tolist()
    assert all(len(set(d)) == 15 and d == sorted(d) for d in drawn)
    assert len({tuple(d) for d in drawn}) == 20
    assert 5 < np.mean([len(set(d) & set(range(25))) for d in drawn]) < 10
    assert len(ATTACKS[name](number=7).attackers(50, 0)) == 7


def test_attackers_do_not_move_other_streams() -> None:
    """The same seed draws other things from another stream."""
    assert int(rng.stream(3, "attack")) != int(rng.stream(3, "faults"))


@pytest.mark.parametrize(
    ("settings", "n", "message"),
    [
        ({"share": 0.01}, 10, r"attack.share = 0.01 makes 0 of 10.*from 1 to 9"),
        ({"number": 10}, 10, r"attack.number = 10 makes 10 of 10"),
    ],
)
def test_impossible_numbers(settings: dict[str, Any], n: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SignFlip(**settings).attackers(n, 0)


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (SignFlip, {"share": 0.3, "number": 2}, "either share or number"),
        (LabelFlip, {"source": 1}, "both source and target"),
        (LabelFlip, {"source": 1, "target": 1}, "nothing would change"),
        (Noise, {"std": 0.0}, "greater than 0"),
    ],
)
def test_impossible_settings(cls: type[Attack], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        cls(**settings)


LABELS = torch.tensor([0, 1, 2, 2, 1, 0])
ROWS = torch.tensor([1, 2, 5])


def poisoned(attack: Attack, y: torch.Tensor = LABELS) -> list[Any]:
    return attack.poison(Examples(torch.zeros(6, 2), y, CLASSES), ROWS).y.tolist()


def test_labels_are_reversed_in_the_attackers_rows_only() -> None:
    assert poisoned(LabelFlip()) == [0, 1, 0, 2, 1, 2]
    assert poisoned(ModelReplacement()) == [0, 1, 0, 2, 1, 2]
    assert LABELS.tolist() == [0, 1, 2, 2, 1, 0]


def test_one_class_is_called_another() -> None:
    assert poisoned(LabelFlip(source=2, target=0)) == [0, 1, 0, 2, 1, 0]


def test_labels_of_sequences_are_reversed_step_by_step() -> None:
    y = torch.stack([LABELS, LABELS.flip(0)], 1)
    assert poisoned(LabelFlip(), y)[2] == [0, 0]
    assert poisoned(LabelFlip(), y)[3] == [2, 2]


def test_a_class_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match=r"class 7.*are 0 to 2"):
        poisoned(LabelFlip(source=0, target=7))


def test_updates_of_those_who_only_flip_labels_are_sent_as_they_are() -> None:
    assert same(answers(Attack(), []), answers(LabelFlip(), [1, 4]))
