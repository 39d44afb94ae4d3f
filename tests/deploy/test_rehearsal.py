"""Mistakes in a recipe are said before a site has come, if they show whatever the data are."""

from typing import Any

import pytest

from unalike.deploy.serving import refuse
from unalike.errors import ConfigError
from unalike.run.configuration.config import parse

MASKED = {"deploy": {"secure_aggregation": True}}
WRONG: dict[str, dict[str, Any]] = {
    "both set the weights; keep one": {"method": "afl", "plus": ["term"]},
    "participation.number is 7 but there are only 3": {"participation": {"number": 7}},
    "faults.min_replies is 5 but only 3": {"faults": {"min_replies": 5}},
    "needs every loss in every round": {
        "method": "aaggff_s",
        "participation": {"fraction": 0.5},
    },
    "looks at every single update": {"method": "median", **MASKED},
    "has several coordinators, and none coordinates them": {
        "topology": {"name": "clusters", "servers": 2}
    },
    "topology 'ring' has none; start 'unalike peer'": {"topology": "ring"},
}
# Each needs data of another shape: tables, images, text, classes, numbers.
FINE: tuple[dict[str, Any], ...] = (
    {"model": "logistic"},
    {"model": "lg_cnn"},
    {"model": "stacked_lstm"},
    {"model": "mlp", "method": "fedevg"},
    {"model": "mlp", "evaluation": {"select": "rmse"}},
    {"model": "mlp", "evaluation": {"select": "auroc"}},
    {"method": "scaffold", **MASKED},
)


@pytest.mark.parametrize("why", WRONG)
def test_what_no_data_could_change_is_said_at_once(why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        refuse(parse({"rounds": 3, **WRONG[why]}), ("north", "south", "west"))


@pytest.mark.parametrize("recipe", FINE, ids=lambda r: "-".join(map(str, r.values())))
def test_what_depends_on_the_data_waits_for_them(recipe: dict[str, Any]) -> None:
    refuse(parse({"rounds": 3, **recipe}), ("north", "south", "west"))
