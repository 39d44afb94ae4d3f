"""Modules as pure functions: initial weights, dropout, batch normalisation, what is refused."""

import copy

import pytest
import torch
from federations import conv, lstm, same
from torch import nn
from torch.func import vmap

from unalike import rng
from unalike.errors import ConfigError
from unalike.models.recurrent import LSTM
from unalike.network import Network

EVERY = torch.ones(200, dtype=torch.bool)


class WithConstants(nn.Module):
    """A parameter of one's own and buffers that are no statistics."""

    def __init__(self) -> None:
        """Positions and a mask, as attention layers keep them."""
        super().__init__()
        self.scale = nn.Parameter(torch.full((4,), 2.0))
        self.register_buffer("positions", torch.arange(4))
        self.register_buffer("mask", torch.tensor([True, True, False, True]))
        self.register_buffer("mean", torch.tensor(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Uses all of them."""
        return (x - self.mean) * self.scale * self.mask + self.positions


def test_initial_weights_by_layer() -> None:
    """Glorot-normal matrices and kernels, zero biases, identity normalisation."""
    net = nn.Sequential(
        nn.Conv2d(20, 30, 3), nn.BatchNorm2d(30), nn.Linear(300, 200), nn.Embedding(500, 8)
    )
    w = Network(net).init(rng.key(0))
    kernel = (2 / (20 * 9 + 30 * 9)) ** 0.5
    assert float(w["0.weight"].std()) == pytest.approx(kernel, rel=0.05)
    assert float(w["2.weight"].std()) == pytest.approx((2 / 500) ** 0.5, rel=0.05)
    assert float(w["3.weight"].std()) == pytest.approx(1, rel=0.05)
    assert not w["0.bias"].any()
    assert not w["2.bias"].any()
    assert bool((w["1.weight"] == 1).all())
    assert not w["1.running_mean"].any()


def test_torch_s_start_has_pytorch_s_bounds() -> None:
    """U(+-1/sqrt F) for the F inputs of a unit, biases too, as layers come out of PyTorch."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        last = nn.ConvTranspose2d(8, 40, 2)
        net = nn.Sequential(nn.Conv2d(20, 30, 3), nn.BatchNorm2d(30), nn.Linear(300, 200), last)
    w = Network(net, start="torch").init(rng.key(0))
    for layer, bound in {"0": (20 * 9) ** -0.5, "2": 300**-0.5, "3": (40 * 4) ** -0.5}.items():
        for leaf in ("weight", "bias"):
            ours, theirs = w[f"{layer}.{leaf}"], net.get_parameter(f"{layer}.{leaf}")
            for found in (ours, theirs):
                assert 0.9 * bound < float(found.detach().abs().max()) <= bound
        assert float(w[f"{layer}.weight"].std()) == pytest.approx(bound / 3**0.5, rel=0.05)
    assert bool((w["1.weight"] == 1).all())
    again = Network(net, start="torch")
    assert same(again.init(rng.key(0)), w)
    assert same(again.part("2").init(rng.key(3)), Network(net[2], start="torch").init(rng.key(3)))


@pytest.mark.parametrize("layer", [nn.LSTM(3, 25), LSTM(3, 25)])
def test_recurrent_weights_are_uniform(layer: nn.Module) -> None:
    """In +-1/sqrt(H), biases too."""
    for leaf in Network(layer).init(rng.key(0)).values():
        assert float(leaf.abs().max()) <= 0.2
        assert float(leaf.abs().max()) > 0.15


def test_initial_weights_depend_on_the_key_alone() -> None:
    """Not on how the module came, nor on a global generator; layers draw apart."""
    a, b = Network(conv()), Network(conv())
    assert not same(a.given(), b.given())
    assert same(a.init(rng.key(1)), b.init(rng.key(1)))
    assert not same(a.init(rng.key(1)), a.init(rng.key(2)))
    net = Network(nn.Sequential(nn.Linear(9, 9), nn.Linear(9, 9)))
    w = net.init(rng.key(0))
    assert not torch.equal(w["0.weight"], w["1.weight"])


def test_double_precision_stays_double() -> None:
    """Weights, biases and statistics."""
    w = Network(conv().double()).init(rng.key(0))
    assert {v.dtype for v in w.values()} == {torch.float64}


def test_given_weights_are_those_of_the_module() -> None:
    """A pre-trained module keeps what it knows, statistics included."""
    net = conv()
    net[1].running_mean.fill_(3.0)
    given = Network(net).given()
    want = {k: v for k, v in net.state_dict().items() if "num_batches" not in k}
    assert same(given, want)
    given["6.bias"].fill_(7.0)
    assert not bool((net[6].bias == 7).any())


def test_evaluation_equals_the_module() -> None:
    """For the same weights."""
    net = conv().eval()
    x = torch.rand(5, 1, 4, 4)
    network = Network(net)
    assert torch.allclose(network.eval(network.given(), x), net(x), atol=1e-6)


def test_the_module_itself_is_never_changed() -> None:
    """Neither by training calls nor by evaluation."""
    net = conv()
    before = copy.deepcopy(net.state_dict())
    network = Network(net)
    w = network.given()
    held = dict(w)
    network.train(w, torch.rand(200, 1, 4, 4), rng.key(0), EVERY)
    network.eval(w, torch.rand(5, 1, 4, 4))
    assert same(dict(net.state_dict()), dict(before))
    assert all(w[k] is held[k] for k in w)


def test_running_statistics_follow_pytorch() -> None:
    """With a momentum, and as a plain mean over all batches."""
    for momentum in (0.1, None):
        theirs = nn.BatchNorm2d(3, momentum=momentum)
        network = Network(theirs)
        w, x = network.given(), torch.rand(3, 200, 3, 2, 2)
        theirs.train()
        for batch in x:
            out, buffers = network.train(w, batch, rng.key(0), EVERY)
            w |= buffers
            assert torch.allclose(out, theirs(batch), atol=1e-5)
        assert torch.allclose(w["running_mean"], theirs.running_mean, atol=1e-6)
        assert torch.allclose(w["running_var"], theirs.running_var, atol=1e-6)


def test_a_mean_over_batches_goes_on_where_the_module_was() -> None:
    """The count of batches seen is part of a pre-trained module."""
    theirs = nn.BatchNorm1d(2, momentum=None)
    theirs.train()
    for _ in range(3):
        theirs(torch.rand(10, 2))
    network = Network(theirs)
    x = torch.rand(200, 2) + 5
    _, buffers = network.train(network.given(), x, rng.key(0), EVERY)
    theirs(x)
    assert torch.allclose(buffers["running_mean"], theirs.running_mean, atol=1e-5)


def test_without_tracking_there_are_no_buffers() -> None:
    """Batch statistics are used for judging too; padding does not count."""
    network = Network(nn.Sequential(nn.BatchNorm1d(3)), track_statistics=False)
    assert network.buffers == ()
    x = torch.rand(8, 3)
    real = torch.arange(8) < 5
    got = network.eval(network.given(), x, real)[:5]
    assert torch.allclose(got, network.eval(network.given(), x[:5]), atol=1e-6)
    assert torch.allclose(got.mean(0), torch.zeros(3), atol=1e-5)


def test_batch_normalisation_without_scale() -> None:
    """affine=False."""
    theirs = nn.BatchNorm1d(3, affine=False)
    network = Network(theirs)
    assert network.weights == ()
    x = torch.rand(200, 3)
    out, _ = network.train(network.given(), x, rng.key(0), EVERY)
    assert torch.allclose(out, theirs(x), atol=1e-5)


def test_buffers_that_are_no_statistics_do_not_travel() -> None:
    """Integers and masks are constants; a float may be learned by averaging."""
    network = Network(WithConstants())
    assert network.weights == ("scale",)
    assert network.buffers == ("mean",)
    assert network.given().keys() == network.init(rng.key(0)).keys() == {"scale", "mean"}
    assert bool((network.init(rng.key(0))["scale"] == 2).all())
    x = torch.rand(3, 4)
    assert torch.allclose(network.eval(network.given(), x), WithConstants()(x))
    out, buffers = network.train(network.given(), x, rng.key(0), EVERY[:3])
    assert torch.allclose(out, WithConstants()(x))
    assert buffers.keys() == {"mean"}


@pytest.mark.parametrize("layer", [nn.Dropout(0.4), nn.Dropout2d(0.4)])
def test_dropout(layer: nn.Module) -> None:
    """Kept entries are scaled up; whole maps are dropped together; none when judging."""
    network = Network(nn.Sequential(layer))
    x = torch.ones(200, 30, 2, 2)
    out, _ = network.train({}, x, rng.key(1), EVERY)
    assert float(out.mean()) == pytest.approx(1, abs=0.03)
    kept = out[out != 0]
    assert torch.allclose(kept, torch.full_like(kept, 1 / 0.6))
    together = bool((out.flatten(2).std(2) == 0).all())
    assert together == isinstance(layer, nn.Dropout2d)
    assert torch.equal(network.eval({}, x), x)


def test_dropout_is_the_same_on_the_real_rows_of_a_padded_batch() -> None:
    """The first rows see the same noise, however many follow."""
    network = Network(nn.Sequential(nn.Dropout(0.5)))
    x = torch.ones(200, 7)
    short, _ = network.train({}, x[:9], rng.key(3), EVERY[:9])
    long, _ = network.train({}, x, rng.key(3), EVERY)
    assert torch.equal(short, long[:9])


def test_a_cohort_of_networks() -> None:
    """Stacked weights, statistics and keys under vmap; the LSTM too."""
    for module, x in ((conv(), torch.rand(4, 6, 1, 4, 4)), (lstm(), torch.randint(6, (4, 6, 2)))):
        network = Network(module.double())
        x = x.double() if x.is_floating_point() else x
        keys = rng.fold_in(rng.key(0), torch.arange(4))
        w = vmap(network.init)(keys)
        real = torch.arange(6) < torch.tensor([[6], [3], [1], [5]])
        together = vmap(network.train)(w, x, keys, real)
        for i in range(4):
            n = int(real[i].sum())
            mine = {k: v[i] for k, v in w.items()}
            out, buffers = network.train(mine, x[i, :n], keys[i], real[i, :n])
            assert torch.allclose(together[0][i, :n], out, atol=1e-9)
            assert all(torch.allclose(together[1][k][i], v, atol=1e-9) for k, v in buffers.items())


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.AlphaDropout(0.1), "AlphaDropout, which has no keyed form"),
        (nn.InstanceNorm2d(3, track_running_stats=True), "InstanceNorm2d with running statistics"),
        (nn.LSTM(2, 2, 2, dropout=0.1), "LSTM with dropout inside"),
    ],
)
def test_modules_that_cannot_be_made_pure_are_refused(module: nn.Module, message: str) -> None:
    """With what to write instead."""
    with pytest.raises(ConfigError, match=message):
        Network(nn.Sequential(module))


def test_instance_normalisation_without_statistics_is_fine() -> None:
    """It has nothing to change."""
    network = Network(nn.InstanceNorm2d(3))
    x = torch.rand(4, 3, 5, 5)
    assert torch.allclose(network.eval({}, x), nn.InstanceNorm2d(3)(x), atol=1e-6)
