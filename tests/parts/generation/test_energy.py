"""An energy's forms, the starts of its chains, and the loss of synthetic examples, by hand."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unalike import rng
from unalike.batches import Batch
from unalike.network import Network
from unalike.parts.generation.energy import Energy, Fit, Given
from unalike.parts.optim import Sgd
from unalike.tasks import MultiClass
from unalike.tree import Params

WEIGHT, BIAS = [[0.5, -1.0], [1.0, 0.25]], [0.1, -0.2]
POINT, LABEL = torch.tensor([[0.4, 0.7]], dtype=torch.float64), torch.tensor([1])


def linear(weight: list[list[float]], bias: list[float]) -> Params:
    return {"weight": torch.tensor(weight).double(), "bias": torch.tensor(bias).double()}


def energy(classes: int = 2, **settings: Any) -> Energy:
    task = MultiClass(Network(nn.Linear(2, classes).double()))
    settings = {"chain_noise": 0.0, "clip_pixels": False, **settings}
    return Energy(task, Sgd(1.0), **settings)


def test_marginal_energy() -> None:
    """Logits (-0.4, 0.375): E = -log(e^-0.4 + e^0.375), dE/dx the mean row under the softmax."""
    w = linear(WEIGHT, BIAS)
    found = energy(energy="marginal")
    assert found(w, POINT, LABEL).tolist() == pytest.approx([-0.753918], abs=1e-6)
    assert found(w, POINT, 1 - LABEL).tolist() == found(w, POINT, LABEL).tolist()
    assert found.slope(w, POINT, LABEL)[0].tolist() == pytest.approx(
        [-0.842300, 0.144249], abs=1e-6
    )


def test_with_one_class_the_marginal_energy_is_the_joint_one() -> None:
    w, y = linear([[0.5, -1.0]], [0.1]), torch.tensor([0])
    assert energy(1, energy="marginal")(w, POINT, y) == energy(1)(w, POINT, y)
    assert energy(1)(w, POINT, y).item() == pytest.approx(0.4)


# Four real examples and a set of as many, so that every step meets all of the set.
X = torch.tensor([[0.1, 0.9], [0.8, 0.3], [0.5, 0.5], [0.2, 0.4]], dtype=torch.float64)
Y = torch.tensor([0, 1, 0, 1])
SET = Given(
    torch.tensor([[0.3, 0.2], [0.6, 0.1], [0.9, 0.7], [0.4, 0.8]], dtype=torch.float64),
    torch.tensor([0, 0, 1, 1]),
    torch.tensor(1.0),
)


def batch(t: int) -> Batch:
    return Batch(X, Y, torch.ones(4, dtype=torch.bool), rng.fold_in(rng.key(5), t))


def after(e: Energy, steps: int) -> Fit:
    theta = linear(WEIGHT, BIAS)
    at = Fit(theta, {}, SET.x, e.opt.init(theta))
    for t in range(steps):
        at = e.step(at, batch(t), SET)
    return at


def by_hand(
    steps: int, start: str = "persistent", ce_on: str = "downloaded", form: str = "joint"
) -> tuple[Tensor, Tensor]:
    """(W, the working copy) of a linear classifier, with one Langevin step of size 1 and no noise.

    Nothing here comes from the code under test but the Gaussian numbers that noisy chains start at.
    """
    w = torch.tensor(WEIGHT, dtype=torch.float64, requires_grad=True)
    b = torch.tensor(BIAS, dtype=torch.float64, requires_grad=True)
    copy = SET.x

    def e(x: Tensor, y: Tensor) -> Tensor:
        f = x @ w.T + b
        return -(f.exp().sum(1).log() if form == "marginal" else f[torch.arange(len(y)), y])

    for t in range(steps):
        begin, y, order = copy, SET.y, None
        if start == "data":
            begin, y = X, Y
        if start == "noise":
            key = batch(t).key
            order = rng.permutation(rng.fold_in(key, 2), 4)
            begin, y = rng.normal(rng.fold_in(key, -1), 4, 2).double(), SET.y[order]
        begin = begin.detach().requires_grad_()
        (slope,) = torch.autograd.grad(e(begin, y).sum(), begin)
        end = (begin - slope).detach()
        judged = SET.x if ce_on == "downloaded" else copy
        loss = e(X, Y).mean() - e(end, y).mean() + F.cross_entropy(X @ w.T + b, Y)
        loss = loss + 0.5 * F.cross_entropy(judged @ w.T + b, SET.y)
        gw, gb = torch.autograd.grad(loss, (w, b))
        w, b = ((v - g).detach().requires_grad_() for v, g in ((w, gw), (b, gb)))
        copy = end if start == "persistent" else copy
    return w.detach(), copy


CASES: list[dict[str, str]] = [
    {},
    {"form": "marginal"},
    {"start": "data"},
    {"start": "noise"},
    {"ce_on": "updated"},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_three_steps_by_hand(case: dict[str, str]) -> None:
    names = {"form": "energy", "start": "chain_start", "ce_on": "ce_on"}
    settings: dict[str, Any] = {names[k]: v for k, v in case.items()}
    e = energy(synthetic_ce=0.5, clip_gradient=100.0, **settings)
    found, (w, copy) = after(e, 3), by_hand(3, **case)
    torch.testing.assert_close(found.theta["weight"], w)
    torch.testing.assert_close(found.refined, copy)
    if case:
        assert not torch.allclose(w, by_hand(3)[0], atol=1e-3)


def test_only_persistent_chains_change_the_copy() -> None:
    for start in ("data", "noise"):
        assert torch.equal(after(energy(chain_start=start), 2).refined, SET.x)
    assert not torch.equal(after(energy(), 1).refined, SET.x)


def test_in_the_first_step_the_updated_batch_is_the_downloaded_one() -> None:
    """And later, too, where no chain moves."""
    first = after(energy(ce_on="updated"), 1).theta["weight"]
    assert torch.equal(first, after(energy(), 1).theta["weight"])
    still: dict[str, Any] = {"chain_step": 0.0}
    later = after(energy(ce_on="updated", **still), 3).theta["weight"]
    assert torch.equal(later, after(energy(**still), 3).theta["weight"])


def test_chains_from_the_data_that_do_not_move_cancel_the_energies() -> None:
    """CD with R = 0 is the classifier alone: the energies of both sides are the same."""
    found = after(energy(chain_start="data", chain=0, synthetic_ce=0.0), 1).theta["weight"]
    w = torch.tensor(WEIGHT, dtype=torch.float64, requires_grad=True)
    b = torch.tensor(BIAS, dtype=torch.float64)
    (g,) = torch.autograd.grad(F.cross_entropy(X @ w.T + b, Y), w)
    torch.testing.assert_close(found, (w - g).detach())
