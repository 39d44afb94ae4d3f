"""Metropolis weights where links go one way, and what would make them move the mean."""

from typing import Any

import pytest

from unalike.errors import ConfigError
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment

GRAPH = {"name": "exponential"}
RAW: dict[str, Any] = {
    "rounds": 2,
    "data": {"name": "digits"},
    "partition": {"name": "iid", "clients": 8},
    "model": {"name": "mlp", "hidden": []},
    "topology": {**GRAPH, "weights": "metropolis"},
}


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"topology": {**RAW["topology"], "link_loss": 0.1}}, "leave topology.link_loss out"),
        ({"participation": {"fraction": 0.5}}, "leave participation out"),
        ({"faults": {"drop": 0.1}}, "leave faults out"),
        ({"clock": {"kind": "simulated", "deadline": 5.0}}, "leave clock.deadline out"),
        (
            {"topology": GRAPH, "method": {"name": "scaffold"}, "faults": {"drop": 0.1}},
            "leave faults out",
        ),
    ],
)
def test_gaps_are_refused(more: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        experiment(parse({**RAW, **more}))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"topology": GRAPH, "method": {"name": "scaffold"}},
        {"topology": {**GRAPH, "link_loss": 0.1}},  # by the method's rule
        {"topology": {"name": "ring", "weights": "metropolis", "link_loss": 0.1}},
    ],
)
def test_everything_else_is_not(more: dict[str, Any]) -> None:
    assert experiment(parse({**RAW, **more}))
