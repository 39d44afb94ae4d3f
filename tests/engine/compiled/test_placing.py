"""A traced step made cheaper: counted, since seconds depend on the machine."""

from typing import Any

import pytest
import torch
from federations import CLASSES, composed, distance, federation, network_task, play, sampled
from torch import Tensor, fx, nn

from unalike import rng
from unalike.batches import Batches
from unalike.draws import alone, draw
from unalike.engine.compiled import scripted
from unalike.engine.compiled import traced as tracing
from unalike.engine.compiled.rewriting import Rewritten, Step, rewritten
from unalike.engine.compiled.traced import Traced
from unalike.network import Network
from unalike.parts.descent import Loss, descend
from unalike.parts.optim import Sgd
from unalike.tasks import MultiClass, Task


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Rewritten]:
    """Every step that is made cheaper from here on, and none that was made before."""
    found: list[Rewritten] = []

    def kept(step: Step) -> Rewritten:
        found.append(rewritten(step))
        return found[-1]

    monkeypatch.setattr(tracing, "PROGRAMS", tracing.Programs())
    monkeypatch.setattr(scripted, "rewritten", kept)
    return found


def descended(task: Task, steps: int, traced: Traced | None) -> Any:
    """Plain training on minibatches of four."""
    n = torch.tensor([4 * steps])
    g = torch.Generator().manual_seed(0)
    x = torch.rand(4 * steps, 1, 4, 4, generator=g)
    y = torch.randint(0, CLASSES, (4 * steps,), generator=g)
    drawn = draw(
        torch.arange(4 * steps),
        n,
        torch.zeros_like(n),
        budget=n,
        epochs=torch.ones(1, dtype=torch.float64),
        batch_size=4,
        keys=rng.key(0)[None],
    )
    ((own, extent),) = alone(drawn)
    data = Batches(x, y, own, rng.key(1), extent, repeat=traced)
    w = task.split(task.network.given())
    return descend(Loss(task), Sgd(0.1), *w, data, torch.tensor(1.0)).theta


def taking(step: fx.GraphModule) -> list[str]:
    """The operations of a step whose results are neither in places nor in memory of others."""
    views = "aten.t", "aten.view", "aten.expand"
    called = (n for n in step.graph.nodes if str(n.target).startswith("aten."))
    names = (str(n.target) for n in called if not _in_places(n))
    return [name for name in names if not name.endswith("_") and name not in views]


def _in_places(node: fx.Node) -> bool:
    given = (x.args[0] for x in node.kwargs.values() if isinstance(x, fx.Node))
    return any(isinstance(x, fx.Node) and x.name == "places" for x in given)


def perceptron() -> Task:
    layers = nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, CLASSES)
    return MultiClass(Network(nn.Sequential(*layers)))


def test_a_step_of_a_perceptron_takes_no_memory(steps: list[Rewritten]) -> None:
    """What it computes is written over what the step before left, or over the weights."""
    task = perceptron()
    whole = descended(task, 5, Traced())
    torch.testing.assert_close(whole, descended(task, 5, None), rtol=1e-5, atol=1e-6)
    (made,) = steps
    assert taking(made.step) == []
    assert len(made.places) <= 16  # of two dozen results


class Sequence(nn.Module):
    """A recurrent network in plain operations, so that it can be traced."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length, self.cell, self.head = length, nn.RNNCell(16, 32), nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits after seeing the same image again and again."""
        h = x.new_zeros(len(x), 32)
        for _ in range(self.length):
            h = self.cell(x.flatten(1), h)
        return self.head(h)


def test_gradients_of_all_moments_are_one_product(steps: list[Rewritten]) -> None:
    """A moment more costs its two products forward and one back, and not two for the weights."""
    products = []
    for length in (6, 7):
        task = MultiClass(Network(Sequence(length)))
        whole = descended(task, 3, Traced())
        torch.testing.assert_close(whole, descended(task, 3, None), rtol=1e-5, atol=1e-6)
        names = [str(n.target) for n in steps.pop().step.graph.nodes]
        products.append(sum(n in ("aten.mm", "aten.addmm", "aten.addmm_") for n in names))
    assert products[1] - products[0] <= 3


class Flat(nn.Module):
    """Wants what its convolution gives in the order of its axes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.head(self.conv(x).relu().view(len(x), -1))


def test_convolutions_have_their_channels_last(steps: list[Rewritten]) -> None:
    """Where the module allows it; else they are traced as they are."""
    task, data = network_task("conv")
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    turned = play(recipe, data, 2, traced=True, workers=2).x
    assert distance(turned, play(recipe, data, 2, engine="sequential").x) < 1e-6
    layers = [n for s in steps for n in s.step.graph.nodes if str(n.target) == "aten.convolution"]
    last = torch.channels_last
    assert layers
    assert all(n.meta["val"].is_contiguous(memory_format=last) for n in layers)
    plain = MultiClass(Network(Flat()))
    recipe = composed(plain, federation(), "fedavg", **sampled(1.0))
    whole = play(recipe, federation(), 2, traced=True, workers=2)
    assert not whole.loop.transport.traced.refusals
    assert distance(whole.x, play(recipe, federation(), 2, engine="sequential").x) < 1e-6
