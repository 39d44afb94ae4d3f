"""What all rules that follow losses have in common; each has a file of its own beside this one."""

import pytest
import torch
from federations import Quadratic, at, composed, play, scalars
from weighing import LENGTHS, plain, weigh

from unalike.algorithms.afl import Afl
from unalike.algorithms.fedmgda import FedMgda
from unalike.algorithms.propfair import PropFair
from unalike.algorithms.qfedavg import QFedAvg
from unalike.algorithms.term import Term
from unalike.parts.optim import Sgd


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
