"""FedProto: the loss beside PyTorch written out, prototypes by hand, and where it trains alone."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from federations import (
    Data,
    Named,
    Played,
    composed,
    distance,
    federation,
    network_task,
    play,
    rows_of,
    same,
    sampled,
    state_of,
)
from torch import nn

from unalike import rng
from unalike.algorithms.fedproto import FedProto, Pulled, Up
from unalike.batches import Batch
from unalike.errors import ConfigError
from unalike.federation.data import Examples
from unalike.gradient import gradient
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.representation.cut import tapped
from unalike.parts.representation.prototypes import Prototypes
from unalike.parts.topology import Clusters, Ring
from unalike.tasks import Binary, MultiClass
from unalike.uploads import Stacked

ROWS = torch.tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0], [9.0, 9.0]], dtype=torch.float64)
LABELS = torch.tensor([0, 2, 0, 1])
REAL = torch.tensor([True, True, True, False])


def body_and_head(bias: bool = True) -> nn.Module:
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3, bias=bias)).double()
    net.head = ("2.",)  # type: ignore[assignment]
    return net


@pytest.mark.parametrize("pull", ["prototypes", "examples"])
def test_the_loss_and_its_gradient(pull: Any) -> None:
    """Three real rows of two classes and one of padding; the prototype of one class is unknown."""
    task = MultiClass(Network(body_and_head()))
    w = {k: v.double() for k, v in task.init(rng.key(1)).items()}
    known = torch.arange(12, dtype=torch.float64).reshape(3, 4) / 10
    given = Prototypes(known, torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64))
    pulled = Pulled(task, tapped(task.network, ("2.",)), 0.7, pull)
    found, _ = gradient(lambda w: pulled(w, {}, Batch(ROWS, LABELS, REAL, rng.key(0)), given), w)
    own = {k: v.clone().requires_grad_() for k, v in w.items()}
    z = torch.tanh(ROWS[:3] @ own["0.weight"].T + own["0.bias"])
    want = F.cross_entropy(z @ own["2.weight"].T + own["2.bias"], LABELS[:3])
    if pull == "prototypes":
        want = want + 0.7 * ((z[0] + z[2]) / 2 - known[0]).norm()
    else:  # nn.MSELoss with the rows of the unknown class as their own targets
        target = torch.stack([known[0], z[1].detach(), known[0]])
        want = want + 0.7 * nn.MSELoss()(z, target)
    want.backward()
    for name, leaf in own.items():
        torch.testing.assert_close(found[name], leaf.grad, atol=1e-10, rtol=1e-8)


def told(*clients: tuple[list[float], list[int]]) -> Stacked:
    """Uploads of prototypes of one number, from them and the examples behind each."""
    share = torch.tensor([[c / sum(n) for c in n] for _, n in clients], dtype=torch.float64)
    x = torch.tensor([p for p, _ in clients], dtype=torch.float64)
    return Stacked(Up((share * x)[..., None], share))


def test_the_mean_of_a_class_is_by_its_examples() -> None:
    """Class 0: (3 x 2 + 1 x 6) / 4 = 3; class 1 of the second alone; class 2 stays."""
    ups = told(([2.0, 0.0, 0.0], [3, 0, 0]), ([6.0, 5.0, 0.0], [1, 1, 0]))
    before = Prototypes(torch.tensor([[0.0], [0.0], [7.0]]).double(), torch.tensor([0.0, 0, 1]))
    algorithm = FedProto(MultiClass(Network(body_and_head())), None, "", (3, 1))  # type: ignore[arg-type]
    after = algorithm.server(before, ups, torch.tensor([3 / 5, 2 / 5]).double(), None)  # type: ignore[arg-type]
    assert after.x[:, 0].tolist() == pytest.approx([3.0, 5.0, 7.0])
    assert after.mass.tolist() == pytest.approx([4 / 5, 1 / 5, 1])


def test_servers_that_hear_each_other_come_to_the_mean_of_one() -> None:
    """Two servers of one client each, then half of each other: as one server of both."""
    one, other = ([2.0, 0.0, 4.0], [3, 0, 1]), ([6.0, 5.0, 8.0], [1, 2, 1])
    algorithm = FedProto(MultiClass(Network(body_and_head())), None, "", (3, 1))  # type: ignore[arg-type]
    blank = Prototypes(torch.zeros(3, 1).double(), torch.zeros(3).double())
    whole = torch.ones(1).double()
    each = [algorithm.server(blank, told(c), whole, None) for c in (one, other)]  # type: ignore[arg-type]
    both = algorithm.server(blank, told(one, other), torch.tensor([0.5, 0.5]).double(), None)  # type: ignore[arg-type]
    sent = [algorithm.tells(s) for s in each]
    mean = Up(*(sum(parts) / 2 for parts in zip(*sent, strict=True)))
    assert same(algorithm.hears(each[0], mean), both)


def run(*methods: Named, rounds: int = 3, network: str = "dense", **parts: Any) -> Played:
    task, data = network_task(network, torch.float64)
    recipe = composed(task, data, *methods, **{**sampled(1.0, 1.5), **parts})
    return play(recipe, data, rounds, engine="sequential", batch_size=16, traced=False)


@pytest.mark.parametrize("network", ["conv", "dense"])
def test_without_the_pull_it_is_training_alone(network: str) -> None:
    """Bit for bit, with momentum, dropout and running statistics."""
    parts = {"opt": Sgd(0.05, 0.9, 1e-3), "network": network, **sampled(0.5, 1.5)}
    one, other = (run(m, **parts) for m in (("fedproto", {"strength": 0.0}), "local_only"))
    assert one.kept[-1].keys() == other.kept[-1].keys()
    assert all(same(one.kept[-1][i], other.kept[-1][i]) for i in one.kept[-1])


def test_the_first_round_is_alone_and_later_ones_are_not() -> None:
    ours, alone = (run(m, rounds=2) for m in (("fedproto", {"strength": 2.0}), "local_only"))
    assert all(same(ours.kept[0][i], alone.kept[0][i]) for i in ours.kept[0])
    assert all(distance(ours.kept[1][i], alone.kept[1][i]) > 1e-4 for i in ours.kept[1])


def test_prototypes_are_those_of_the_trained_models() -> None:
    """After a round, from the models that clients keep, row by row."""
    task, data = network_task("dense", torch.float64)
    played = run("fedproto", rounds=1, **sampled(1.0, 1.0))
    x, y, order = data.examples.x, data.examples.y, data.rows
    sums, counts = torch.zeros(3, 6, dtype=torch.float64), torch.zeros(3)
    tap = tapped(task.network, task.network.head)
    for i in range(data.n_clients):
        own = {f"inner.{k}": v for k, v in state_of(played.simulation, i).items()}
        rows = order.of(i)
        _, z = tap.eval(own, x[rows])
        sums.index_add_(0, y[rows], z)
        counts += y[rows].bincount(minlength=3)
    torch.testing.assert_close(played.server.x, sums / counts[:, None])
    torch.testing.assert_close(played.server.mass, (counts / counts.sum()).double())


def test_the_nearest_prototype_judges() -> None:
    """Twelve rows by argmin of the distance, beside argmax of the changed head."""
    task, data = network_task("dense", torch.float64)
    played = run(("fedproto", {"judge": "prototypes"}), rounds=2)
    algorithm = played.simulation.recipe.algorithm
    mine = state_of(played.simulation, 2)
    judged = algorithm.personal(algorithm.broadcast(played.server), mine)
    tap, x = tapped(task.network, task.network.head), data.examples.x[:12]
    _, z = tap.eval({f"inner.{k}": v for k, v in mine.items()}, x)
    nearest = torch.cdist(z, played.server.x).argmin(1)
    assert torch.equal(task.logits(judged, x).argmax(1), nearest)


def test_bytes_are_those_of_the_prototypes() -> None:
    """Three classes, six numbers and one more each, eight bytes a number; two statistics up."""
    traffic = run("fedproto", rounds=1).rounds[0].traffic
    assert traffic.down == 6 * 3 * 7 * 8
    assert traffic.up == 6 * (3 * 7 * 8 + 2 * 4)


@pytest.mark.parametrize("topology", [Ring(), Clusters(2, 1)])
def test_clients_that_lack_a_class_hear_of_it(topology: Any) -> None:
    """Six clients of one class each; after two rounds a ring has three classes everywhere."""
    task, _ = network_task("dense", torch.float64)
    x, y = federation(dtype=torch.float64, sizes=[8] * 6).examples.x, torch.arange(6) % 3
    data = Data(Examples(x, y.repeat_interleave(8), 3), rows_of([8] * 6))
    recipe = composed(task, data, "fedproto", topology=topology)
    stack = play(recipe, data, 2, batch_size=8).states[-1].stack
    assert bool((stack.mass > 0).all())


def test_what_it_needs() -> None:
    data = federation((2,), dtype=torch.float64)
    with pytest.raises(ConfigError, match="one linear layer with a bias"):
        composed(
            MultiClass(Network(body_and_head(bias=False))),
            data,
            ("fedproto", {"judge": "prototypes"}),
        )
    with pytest.raises(ConfigError, match="no body before its head"):
        composed(MultiClass(Network(nn.Linear(2, 3))), data, "fedproto")
    with pytest.raises(ConfigError, match="needs a multi-class task"):
        composed(Binary(Network(body_and_head())), data, "fedproto")


@pytest.mark.parametrize("other", ["fedprox", "fedadam", "median", "topk", "ditto", "phase_shift"])
def test_what_has_no_place_beside_it(other: str) -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError):
        composed(task, data, "fedproto", other)
