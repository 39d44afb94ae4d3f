"""Every rule for the weights beside another objective, another algorithm and other servers.

Each pair runs and gives a finite model that the rule had a hand in, or is refused in one sentence
that names both and gives a reason.
"""

import re

import pytest
import torch
from federations import (
    Data,
    Named,
    Quadratic,
    at,
    cohort,
    composed,
    distance,
    federation,
    network_task,
    play,
    scalars,
)

from unalike import tree
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.fednova import Nova
from unalike.algorithms.scaffold import Scaffold
from unalike.algorithms.table import METHODS
from unalike.cohort import Cohort
from unalike.errors import ConfigError
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.mixing.base import Memoryless, Weighed
from unalike.parts.optim import Sgd
from unalike.recipe import Recipe
from unalike.tasks import Autoencoding, Task

RULES = sorted(name for name, method in METHODS.items() if method.slot == "weights")
BESIDE = [
    *("fedprox", "propfair_loss", "scaffold", "fednova"),
    *("fedadam", "fedyogi", "fedadagrad", "fedavgm"),
]
FAIR = ["aaggff_d", "aaggff_s", "afl", "fedmgda", "propfair", "qfedavg", "term"]


def made_for(rule: str) -> tuple[Task, Data, Named]:
    """A task and data the rule can work with, and its settings."""
    if rule == "latent_disco":
        module = MODELS["vae"](hidden=[6], latent=2).build((1, 4, 4), 1)
        return Autoencoding(Network(module)), federation(), (rule, {"refresh": "every"})
    return *network_task("dense"), rule


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("rule", RULES)
def test_runs_or_is_refused_with_a_reason(rule: str, beside: str) -> None:
    task, data, named = made_for(rule)
    parts, refusals = {"opt": Sgd(0.01)}, []
    for pair in ((named, beside), (beside, named)):  # the order must not matter
        try:
            recipe = composed(task, data, *pair, **parts)
        except ConfigError as error:
            refusals.append(str(error))
            continue
        rule_alone = composed(task, data, named, **parts).mixing
        mixing = recipe.mixing
        assert (mixing.rule if isinstance(mixing, Nova) else mixing) == rule_alone
        played = play(recipe, data, 2)
        assert all(torch.isfinite(x).all() for x in tree.leaves(played.x))
        assert all((done.weights >= 0).all() and done.weights.sum() > 0 for done in played.rounds)
    if not refusals:
        plain = play(composed(task, data, beside, **parts), data, 2)
        assert distance(plain.x, played.x) > 1e-9, "the rule had no say"
        return
    assert len(refusals) == 2
    for said in refusals:
        assert f"'{beside}'" in said
        assert re.fullmatch(r"[^.]+\.", said), "one sentence"


@pytest.mark.parametrize("rule", FAIR)
def test_fair_rules_beside_scaffold_are_refused_with_the_reason(rule: str) -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=r"control variates .* that change with the round"):
        composed(task, data, "scaffold", rule)


def test_a_common_direction_is_not_left_to_another_server() -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=r"'fedmgda' .* 'fedadam': another step .* may raise"):
        composed(task, data, "fedmgda", "fedadam")


@pytest.mark.parametrize("rule", [r for r in FAIR if r != "fedmgda"])
@pytest.mark.parametrize("server", ["fedadam", "fedyogi", "fedadagrad"])
def test_fair_rules_run_beside_an_objective_and_a_server(rule: str, server: str) -> None:
    task, data = network_task("dense")
    recipe = composed(task, data, "fedprox", rule, server)
    assert distance(play(recipe, data, 1).x, play(composed(task, data, rule), data, 1).x) > 1e-9


class Given(Memoryless):
    """Weights that never change, and are said to be fixed or not."""

    def __init__(self, fixed: bool) -> None:
        self.known = fixed

    @property
    def fixed(self) -> bool:
        return self.known

    def weights(self, state: tuple[()], cohort: Cohort) -> Weighed:
        return Weighed(torch.tensor([0.95, 0.05], dtype=torch.float64), state)


def test_the_reason_holds_scaffold_forgets_weights_that_are_not_fixed() -> None:
    """Minima 0 and 10 with weights 0.95 and 0.05 should meet at 0.5; SCAFFOLD goes to 5.

    Unless the weights are known for all clients: then its control variates have them, too.
    """
    data = scalars([0.0, 10.0])
    scaffold, fedavg = Scaffold(Quadratic(), 2, 0.3), FedAvg(Quadratic(), Sgd(0.3))
    ends = [
        play(Recipe(algorithm, Given(fixed)), data, 80, at(w=4.0)).trace()[-1]
        for algorithm, fixed in ((scaffold, False), (scaffold, True), (fedavg, False))
    ]
    assert ends == pytest.approx([5.0, 0.5, 0.5], abs=1e-5)


def test_weights_that_sum_to_one() -> None:
    """What a server may take for granted of these rules, and of which it may not."""
    stats = {"loss": [0.5, 1.0, 2.0], "sqnorm": [0.1, 0.2, 0.3]}
    task, data = network_task("dense")
    data = data._replace(rows=scalars([0.0] * 3).rows)
    gram = torch.diag(torch.tensor([0.1, 0.2, 0.3])).tolist()
    total = {}
    for rule in FAIR:
        mixing = composed(task, data, rule).mixing
        c = cohort([10, 20, 30], steps=[1, 2, 3], gram=gram, **stats)  # type: ignore[arg-type]
        total[rule] = float(mixing.weights(mixing.init(3), c)[0].sum())
    assert {rule for rule, s in total.items() if abs(s - 1) > 1e-9} == {"fedmgda", "qfedavg"}
