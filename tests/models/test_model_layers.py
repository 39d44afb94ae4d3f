"""Layers do what the papers say: activations, switches and the order of operations."""

import pytest
import torch
from torch import nn

from unalike.models import MODELS

LETTERS = {
    nn.Conv1d: "C",
    nn.Conv2d: "C",
    nn.BatchNorm1d: "N",
    nn.BatchNorm2d: "N",
    nn.GroupNorm: "N",
    nn.MaxPool1d: "P",
    nn.MaxPool2d: "P",
    nn.AdaptiveAvgPool1d: "A",
    nn.AdaptiveAvgPool2d: "A",
    nn.Dropout2d: "D",
    nn.Flatten: "F",
    nn.Identity: "I",
    nn.Linear: "L",
    nn.ReLU: "R",
    nn.SiLU: "S",
}


@pytest.mark.parametrize(
    ("name", "body", "head"),
    [
        ("logistic", "F", "L"),
        ("two_nn", "FLRLR", "LRL"),
        ("mcmahan_2nn", "FLRLR", "L"),
        ("fedep_mlp", "FLRLR", "L"),
        ("lg_mlp", "FLRLR", "LRLRL"),
        ("two_cnn", "CRPCRPF", "LRLRL"),
        ("mcmahan_cnn", "CRPCRPF", "LRL"),
        ("lg_cnn", "CRPCRPF", "LRLRL"),
        ("feddisco_cnn", "CRPCRPF", "LRLRL"),
        ("mnist_cnn", "CPRCDPRF", "LRL"),
        ("fmnist_cnn", "CNRPCNRPF", "L"),
        ("cifar_cnn", 3 * "CNRCNRP" + "F", "LRL"),
        ("vgg9", "CRPCRPCRCRPCRCRPF", "LRL"),
        ("leaf_cnn", 4 * "CNPR" + "AF", "L"),
        ("m5", 4 * "CNRP" + "AF", "L"),
        ("mobilenet", "CNR" + 4 * "CNRCNR" + "AF", "LRL"),
        ("mobilenet_small", "CNR" + 5 * "CNRCNR" + "AF", "L"),
        ("resnet9", "CNRP" + "CNRCNIR" + 3 * "CNRCNCNR" + "AF", "LRL"),
        ("resnet10", "CNS" + "CNSCNI" + 3 * "CNSCNCN" + "NSF", "L"),
    ],
)
def test_order_of_layers(name: str, body: str, head: str) -> None:
    """Convolution, normalisation, rectifier, pooling and linear layers as published."""
    net = MODELS[name]().build((1, 2_000) if name == "m5" else (1, 48, 48), 10)

    def letters(part: nn.Module) -> str:
        return "".join(LETTERS[type(m)] for m in part.modules() if not list(m.children()))

    assert (letters(net.features), letters(net.classifier)) == (body, head)


def test_perceptron_by_hand() -> None:
    """A ReLU follows every layer but the last, also at the border of body and head."""
    torch.manual_seed(0)
    net = MODELS["mlp"](hidden=[4, 3], head_layers=2).build((2, 3), 2)
    (w1, b1, w2, b2, w3, b3) = (p.detach() for p in net.parameters())
    x = torch.randn(5, 2, 3)

    h = (x.reshape(5, 6) @ w1.T + b1).clamp(min=0)
    expected = (h @ w2.T + b2).clamp(min=0) @ w3.T + b3

    torch.testing.assert_close(net(x), expected)
    assert [n for n, _ in net.named_parameters() if not n.startswith(net.head)] == [
        "features.1.weight",
        "features.1.bias",
    ]


@pytest.mark.parametrize(
    ("name", "settings", "shape", "sizes"),
    [
        ("two_cnn", {}, (1, 28, 28), [26, 14, 12, 7]),
        ("mcmahan_cnn", {}, (1, 28, 28), [26, 14, 12, 7]),
        ("lg_cnn", {}, (3, 32, 32), [28, 14, 10, 5]),
        ("feddisco_cnn", {}, (1, 28, 28), [24, 12, 8, 4]),
        ("mnist_cnn", {}, (1, 28, 28), [24, 12, 8, 4]),
        ("fmnist_cnn", {}, (1, 28, 28), [28, 14, 14, 7]),
        ("cifar_cnn", {}, (3, 32, 32), [32, 32, 16, 16, 16, 8, 8, 8, 4]),
        ("vgg9", {}, (1, 28, 28), [28, 14, 14, 7, 7, 7, 3, 3, 3, 1]),
        ("leaf_cnn", {}, (3, 84, 84), [84, 42, 42, 21, 21, 10, 10, 5]),
        ("leaf_cnn", {"pool_padding": 1}, (3, 84, 84), [84, 43, 43, 22, 22, 12, 12, 7]),
        # Blocks run their two convolutions before the shortcut's.
        ("resnet9", {}, (3, 32, 32), [16, 8, 8, 8, 8, 8, 8, 4, 4, 4, 2, 2, 2]),
        ("resnet10", {}, (1, 32, 32), [32, 32, 32, 16, 16, 16, 8, 8, 8, 4, 4, 4]),
        ("mobilenet", {}, (3, 64, 64), [32, 30, 30, 14, 14, 6, 6, 4, 4]),
        ("mobilenet_small", {}, (3, 32, 32), [32, 32, 32, 16, 16, 16, 16, 8, 8, 8, 8]),
        ("m5", {}, (1, 16_000), [3981, 995, 995, 248, 248, 62, 62, 15]),
    ],
)
def test_sizes_after_convolutions_and_poolings(
    name: str, settings: dict[str, object], shape: tuple[int, ...], sizes: list[int]
) -> None:
    """Strides and paddings, which the number of parameters does not show."""
    net = MODELS[name](**settings).build(shape, 10).eval()
    seen: list[int] = []
    for module in net.modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.MaxPool1d | nn.MaxPool2d):
            module.register_forward_hook(lambda _m, _x, y: seen.append(y.shape[-1]))
    with torch.no_grad():
        net(torch.zeros(2, *shape))
    assert seen == sizes


@pytest.mark.parametrize("name", ["lg_mlp", "mnist_cnn", "fmnist_cnn", "cifar_cnn"])
def test_double_softmax(name: str) -> None:
    """The switch turns logits into probabilities and leaves the parameters alone."""
    torch.manual_seed(0)
    model = MODELS[name]
    plain = model().build((1, 28, 28), 10).eval()
    twice = model(double_softmax=True).build((1, 28, 28), 10).eval()
    twice.load_state_dict(plain.state_dict())
    x = torch.randn(2, 1, 28, 28)

    torch.testing.assert_close(twice(x), plain(x).softmax(-1))


@pytest.mark.parametrize("name", ["fmnist_cnn", "cifar_cnn"])
def test_order_of_normalisation(name: str) -> None:
    """By default a normalisation follows its convolution, with the switch the ReLU."""
    for after in (False, True):
        layers = list(MODELS[name](bn_after_relu=after).build((1, 28, 28), 10).features)
        for i, layer in enumerate(layers):
            if isinstance(layer, nn.BatchNorm2d):
                assert isinstance(layers[i - 1], nn.ReLU if after else nn.Conv2d)
                assert isinstance(layers[i + 1], nn.ReLU) is not after


def test_hidden_relu_of_cifar_cnn() -> None:
    """Without the ReLU the head is affine, as in the toolkit's code."""
    torch.manual_seed(0)
    a, b = torch.randn(2, 3, 8)
    for relu, affine in ((True, False), (False, True)):
        head = MODELS["cifar_cnn"](hidden_relu=relu).build((1, 8, 8), 10).classifier
        x, y = a.repeat(1, 16), b.repeat(1, 16)
        middle = (head(x) + head(y)) / 2
        assert torch.allclose(head((x + y) / 2), middle, atol=1e-5) is affine


def test_channel_dropout_of_mnist_cnn() -> None:
    """Half of the feature maps are dropped, as whole maps."""
    net = MODELS["mnist_cnn"]().build((1, 28, 28), 10)
    (dropout,) = (m for m in net.modules() if isinstance(m, nn.Dropout2d))
    assert dropout.p == 0.5


def test_first_block_of_resnet9() -> None:
    """If a block's last normalisation is zeroed, only the shortcut remains."""
    x = torch.rand(2, 64, 4, 4)
    for skip in (True, False):
        block = MODELS["resnet9"](skip_first=skip).build((3, 32, 32), 10).features[4]
        nn.init.zeros_(block.body[-1].weight)
        torch.testing.assert_close(block(x), x if skip else torch.zeros_like(x))


def test_switch_of_resnet9_keeps_names() -> None:
    """Checkpoints with and without the first shortcut are interchangeable."""
    with_skip, without = (
        MODELS["resnet9"](skip_first=skip).build((3, 32, 32), 10) for skip in (True, False)
    )
    assert with_skip.state_dict().keys() == without.state_dict().keys()


def test_block_of_resnet10_has_no_activation_after_the_sum() -> None:
    """Negative values pass an identity block whose body is zeroed."""
    block = MODELS["resnet10"](width=8).build((3, 8, 8), 10).features[3]
    nn.init.zeros_(block.body[-1].weight)
    x = torch.randn(2, 8, 4, 4)
    torch.testing.assert_close(block(x), x)


@pytest.mark.parametrize(("name", "kind"), [("silu", nn.SiLU), ("relu", nn.ReLU)])
def test_activation_of_resnet10(name: str, kind: type[nn.Module]) -> None:
    """One after the first layer, one in every block, one before the head."""
    net = MODELS["resnet10"](activation=name).build((3, 32, 32), 10)
    kinds = [type(m) for m in net.modules() if isinstance(m, nn.SiLU | nn.ReLU)]
    assert kinds == [kind] * 6


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("leaf_cnn", [32, 16, 8, 4]),
        # 16 at first, half the kernels in blocks and shortcuts, 64 before the head.
        ("resnet10", [16, 32, 32, 64, 64, 64, 128, 128, 128, 256, 256, 256, 64]),
    ],
)
def test_groups_of_normalisation(name: str, groups: list[int]) -> None:
    """The number of groups, which the number of parameters does not show."""
    net = MODELS[name]().build((3, 32, 32), 10)
    assert [m.num_groups for m in net.modules() if isinstance(m, nn.GroupNorm)] == groups


@pytest.mark.parametrize("name", ["resnet9", "mobilenet"])
def test_batch_statistics_only(name: str) -> None:
    """Without running statistics training and evaluation agree."""
    torch.manual_seed(0)
    net = MODELS[name]().build((1, 37, 37), 2)
    x = torch.randn(3, 1, 37, 37)
    torch.testing.assert_close(net.train()(x), net.eval()(x))


def test_last_step_of_stacked_lstm() -> None:
    """The prediction after the last step is the last of those after every step."""
    torch.manual_seed(0)
    model = MODELS["stacked_lstm"]
    last = model(hidden=5).build((6,), 7)
    every = model(hidden=5, every_step=True).build((6,), 7)
    every.load_state_dict(last.state_dict())
    x = torch.randint(7, (3, 6))
    other = torch.cat([x[:, :-1], (x[:, -1:] + 1) % 7], 1)

    torch.testing.assert_close(every(x)[:, -1], last(x))
    torch.testing.assert_close(every(x)[:, :-1], every(other)[:, :-1])  # no look ahead
    assert not torch.allclose(last(x), last(other))
