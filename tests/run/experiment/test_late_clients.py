"""Clients that join late: who works when, what they see, and what is refused."""

from typing import Any

import numpy as np
import pytest
import torch

from unalike import rng
from unalike.errors import ConfigError
from unalike.federation.build import federate
from unalike.federation.datasets.digits import Digits
from unalike.federation.partition.iid import Iid
from unalike.federation.shift.rotation import Rotation
from unalike.parts.schedule import Late, Participation, Sampled
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.rounds import rounds


def ids(schedule: Sampled, t: int, n: int = 12) -> list[int]:
    return schedule.plan(t, range(20), n, rng.key(0)).ids.tolist()


@pytest.mark.parametrize(("others", "count"), [(0.0, 0), (0.1, 1), (0.5, 5), (None, 3)])
def test_late_clients_are_absent_then_always_there(others: float | None, count: int) -> None:
    """10 settled clients, of whom 3 in a round; then the last two and a share of the others."""
    schedule = Sampled(Participation(0.3), late=Late(2, 5, others))
    for t in range(5):
        assert len(ids(schedule, t)) == 3 == schedule.size(t, 12)
        assert max(ids(schedule, t)) < 10
    for t in range(5, 9):
        assert ids(schedule, t)[-2:] == [10, 11]
        assert len(ids(schedule, t)) == count + 2 == schedule.size(t, 12)
    assert len({tuple(ids(schedule, t)) for t in range(5)}) > 1


def test_before_they_join_it_is_the_federation_without_them() -> None:
    alone = Sampled(Participation(0.3))
    with_late = Sampled(Participation(0.3), late=Late(2, 5))
    assert all(ids(alone, t, 10) == ids(with_late, t, 12) for t in range(5))


BASE: dict[str, Any] = {
    "rounds": 3,
    "data": {"name": "digits"},
    "partition": {"name": "iid", "clients": 5},
    "shift": [{"name": "rotation", "angles": [90.0], "last": 1}],
    "participation": {"late": 1, "joins": 3, "others": 0.0},
}


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
def test_a_run_with_a_late_device(engine: str) -> None:
    """Sections settled and late are the two parts of local; alone, the late one changes it all."""
    one, two, three = rounds(experiment(parse({**BASE, "engine": {"kind": engine}})))
    assert [s.record["clients"] for s in (one, two, three)] == [[0, 1, 2, 3], [0, 1, 2, 3], [4]]
    assert three.clients is not None
    local = three.clients["local"]["accuracy"]
    assert three.clients["settled"]["accuracy"] == local[:4]
    assert three.clients["late"]["accuracy"] == local[4:]
    assert three.record["metrics"]["late"]["accuracy"]["clients"] == 1


def test_a_private_part_of_the_settled_stays_as_it_was() -> None:
    """LG-FedAvg: while the late device trains alone, the others' bodies do not move."""
    made = experiment(parse({**BASE, "method": {"name": "lg_fedavg"}}))
    before = None
    for step in rounds(made):
        if step.round == 2:
            before = made.simulation.states.get(torch.arange(5)).mine
    after = made.simulation.states.get(torch.arange(5)).mine
    assert before is not None
    for name, rows in before.items():
        assert torch.equal(rows[:4], after[name][:4])
        assert not torch.equal(rows[4], after[name][4])


def test_only_the_last_are_turned() -> None:
    data, dealt = Digits(), Iid(clients=5)
    plain = federate(data, dealt, new_clients=1)
    turned = federate(data, dealt, [Rotation(angles=[90.0], last=1)], new_clients=1)
    same = (plain.examples.x == turned.examples.x).flatten(1).all(1).numpy()
    assert np.array_equal(~same, plain.owner == 3)  # the last that trains, not the new one
    assert turned.marks == ((), (), (), ("turned by 90",), ())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"participation": {"late": 5, "joins": 2}}, "none would be there at the start"),
        ({"participation": {"late": 1, "joins": 9}}, "only 3 rounds"),
        ({"participation": {"joins": 3}}, "belong to late clients"),
        ({"participation": {"others": 0.1}}, "belong to late clients"),
        ({"method": {"name": "phase_shift", "phases": 5}}, "their own queue"),
        ({"method": {"name": "pooled"}}, "one client"),
        ({"topology": {"name": "ring"}}, "star"),
        ({"method": {"name": "dp", "delta": 0.01}}, "privacy is counted"),
    ],
)
def test_refusals(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        experiment(parse({**BASE, **change}))
