"""Client optimizers against PyTorch's, step by step on the same gradients."""

from typing import Any

import pytest
import torch

from unalike.parts.optim import Adam, Sgd

CASES: dict[str, tuple[Any, Any]] = {
    "sgd": (Sgd(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "momentum": (Sgd(0.1, 0.9), lambda p: torch.optim.SGD(p, 0.1, 0.9)),
    "decay": (Sgd(0.1, 0.5, 0.2), lambda p: torch.optim.SGD(p, 0.1, 0.5, weight_decay=0.2)),
    "nesterov": (
        Sgd(0.1, 0.9, 0.2, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.2, nesterov=True),
    ),
    "adam": (Adam(0.1), lambda p: torch.optim.Adam(p, 0.1)),
    "adam_decay": (
        Adam(0.1, 0.5, 0.9, 1e-3, 0.3),
        lambda p: torch.optim.Adam(p, 0.1, (0.5, 0.9), 1e-3, 0.3),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_thirty_steps(name: str) -> None:
    """In double precision, the factor of the schedule, too."""
    ours, theirs = CASES[name]
    draw = torch.Generator().manual_seed(0)
    w = {"a": torch.randn(3, 2, generator=draw).double(), "b": torch.zeros(()).double()}
    parameters = {k: torch.nn.Parameter(v.clone()) for k, v in w.items()}
    opt, state = theirs(parameters.values()), ours.init(w)
    for _ in range(30):
        g = {k: torch.randn(v.shape, generator=draw).double() for k, v in w.items()}
        for k, p in parameters.items():
            p.grad = g[k]
        opt.step()
        w, state = ours.update(g, state, w, torch.tensor(1.0).double())
    for k, p in parameters.items():
        assert torch.allclose(w[k], p.detach(), rtol=1e-12, atol=1e-13)


def test_the_rate_scales_the_step() -> None:
    """By a number or by a tensor; momentum is not scaled."""
    w, g = {"w": torch.tensor(1.0)}, {"w": torch.tensor(2.0)}
    for half in (0.5, torch.tensor(0.5)):
        new, _ = Sgd(0.1).update(g, {}, w, half)
        assert float(new["w"]) == pytest.approx(0.9)
        _, m = Sgd(0.1, 0.9).update(g, Sgd(0.1, 0.9).init(w), w, half)
        assert float(m["w"]) == 2.0


def test_plain_sgd_has_no_state() -> None:
    """Nothing to stack, to store or to send."""
    assert Sgd(0.1).init({"w": torch.zeros(3)}) == {}
