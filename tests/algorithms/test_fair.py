"""What all rules that follow losses have in common; each has a file of its own beside this one."""

import pytest
import torch
from federations import (
    Quadratic,
    at,
    cohort,
    composed,
    distance,
    network_task,
    play,
    scalars,
)
from weighing import LENGTHS, plain, weigh

from unalike.algorithms.afl import Afl
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.fedmgda import FedMgda
from unalike.algorithms.propfair import PropFair
from unalike.algorithms.qfedavg import QFedAvg
from unalike.algorithms.scaffold import Scaffold
from unalike.algorithms.term import Term
from unalike.cohort import Cohort
from unalike.errors import ConfigError
from unalike.parts.mixing.base import Memoryless, Weighed
from unalike.parts.optim import Sgd
from unalike.recipe import Recipe


@pytest.mark.parametrize("losses", [[0.0] * 3, [1e-30] * 3, [1e30] * 3, [0.0, 1.0, 700.0]])
def test_extreme_losses_give_finite_weights(losses: list[float]) -> None:
    for rule in (
        Afl(rate=1.0),
        Term(tilt=10.0),
        PropFair(baseline=2.0),
        QFedAvg(q=5.0, lipschitz=10.0),
        QFedAvg(q=0.1, lipschitz=10.0),
    ):
        p = weigh(rule, loss=losses, sqnorm=LENGTHS)
        assert torch.isfinite(p).all()
        assert (p >= 0).all()
        assert float(p.sum()) > 0


def test_one_client_has_all_the_weight() -> None:
    for rule in (Afl(), Term(), PropFair()):
        assert plain(weigh(rule, 1, loss=[0.7])) == [1.0]
    assert plain(weigh(FedMgda(lr=0.5), 1, gram=[[4.0]])) == pytest.approx([0.25])


def test_on_data_they_were_made_for() -> None:
    """A small client far from the others: fair rules end with a lower worst loss than FedAvg."""
    data, worst = scalars([0.0, 0.5, 1.0, 8.0], [20, 20, 20, 2]), {}
    for name in ("fedavg", "afl", "qfedavg", "term", "propfair", "aaggff_s"):
        settings = {"baseline": 40.0} if name == "propfair" else {}
        recipe = composed(Quadratic(), data, (name, settings), opt=Sgd(0.3))
        w = play(recipe, data, 40, at(w=0.0), batch_size=20).trace()[-1]
        worst[name] = max(0.5 * (w - c) ** 2 for c in (0.0, 0.5, 1.0, 8.0))
    assert all(loss < worst["fedavg"] - 0.1 for name, loss in worst.items() if name != "fedavg")


# -- beside other methods ------------------------------------------------------------------------

FAIR = ["aaggff_d", "aaggff_s", "afl", "fedmgda", "propfair", "qfedavg", "term"]


@pytest.mark.parametrize("rule", FAIR)
def test_fair_rules_beside_scaffold_are_refused_with_the_reason(rule: str) -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=r"one fixed mean .* that change from round to round"):
        composed(task, data, "scaffold", rule)


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
    scaffold, fedavg = Scaffold(Quadratic(), 2, Sgd(0.3)), FedAvg(Quadratic(), Sgd(0.3))
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
