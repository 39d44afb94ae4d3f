"""Every network has the layers of its paper: parameters, buffers, head and output shape."""

from typing import NamedTuple

import pytest
import torch

from unalike.models import MODELS


class Case(NamedTuple):
    """A network with its published size; ``buffers`` are running statistics and counters."""

    name: str
    shape: tuple[int, ...]
    classes: int
    parameters: int
    head: int
    buffers: tuple[int, int] = (0, 0)
    settings: dict[str, object] = {}
    output: tuple[int, ...] | None = None


CASES = [
    Case("two_nn", (1, 28, 28), 10, 238_800, 200 * 200 + 2_000),
    Case("mcmahan_2nn", (1, 28, 28), 10, 199_210, 2_010),
    Case("mlp", (784,), 10, 199_210, 2_010, settings={"hidden": [200, 200]}),
    Case(
        "mlp",
        (1, 28, 28),
        10,
        238_800,
        42_000,
        settings={"hidden": [200, 200, 200], "head_layers": 2, "bias": False},
    ),
    Case("fedep_mlp", (1, 28, 28), 10, 235_146, 1_290),
    Case("lg_mlp", (1, 28, 28), 10, 633_226, 99_978),
    Case("logistic", (15,), 1, 16, 16),
    Case("logistic", (15,), 2, 32, 32),
    Case("two_cnn", (1, 28, 28), 10, 721_200, 669_200),
    Case("two_cnn", (3, 28, 28), 10, 722_800, 669_200),
    Case("mcmahan_cnn", (1, 28, 28), 10, 1_663_370, 1_606_144 + 5_130),
    Case("mcmahan_cnn", (3, 28, 28), 10, 1_664_970, 1_606_144 + 5_130),
    Case("lg_cnn", (3, 32, 32), 10, 64_102, 64_102 - 2_872),
    Case("feddisco_cnn", (3, 32, 32), 10, 62_006, 62_006 - 2_872),
    Case("feddisco_cnn", (1, 28, 28), 10, 44_426, 44_426 - 2_572),
    Case("mnist_cnn", (1, 28, 28), 10, 21_840, 16_560),
    Case("fmnist_cnn", (1, 28, 28), 10, 29_034, 15_690, (96, 2)),
    Case("cifar_cnn", (3, 32, 32), 10, 551_466, 262_272 + 1_290, (896, 6)),
    Case("vgg9", (1, 28, 28), 62, 1_718_416, 131_072 + 256 * 62),
    Case("resnet9", (3, 32, 32), 100, 5_054_784, 131_072 + 25_600),
    Case("resnet10", (1, 32, 32), 10, 4_979_914, 81_930),
    Case("resnet10", (3, 32, 32), 10, 4_981_066, 81_930, settings={"spectral": True}),
    Case("resnet10", (3, 64, 64), 7, 5_128_519, 7 * 32_768 + 7),
    Case("resnet10", (1, 64, 64), 11, 5_258_443, 11 * 32_768 + 11),
    Case("mobilenet", (3, 64, 64), 200, 364_480, 131_072 + 51_200),
    Case("mobilenet_small", (3, 32, 32), 10, 136_778, 2_570, (2_944, 11)),
    Case("stacked_lstm", (80,), 100, 821_024, 25_600),
    Case("stacked_lstm", (80,), 80, 815_744, 20_480),
    Case("stacked_lstm", (80,), 80, 819_920, 20_560, settings={"bias": True}),
    Case(
        "stacked_lstm",
        (10,),
        10_000,
        5_565_328,
        2_570_000,
        settings={"embedding": 200, "bias": True, "every_step": True},
        output=(2, 10, 10_000),
    ),
    Case("m5", (1, 16_000), 35, 150_819, 8_995, (1_024, 4)),
    Case("leaf_cnn", (3, 84, 84), 1, 29_569, 801),
    Case("leaf_cnn", (3, 84, 84), 1, 29_569, 801, settings={"pool_padding": 1}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.name}-{c.parameters}")
def test_size_and_output(case: Case) -> None:
    """Counts are printed in the papers or follow from their code; none is computed here."""
    net = MODELS[case.name](**case.settings).build(case.shape, case.classes).eval()

    sizes = {name: p.numel() for name, p in net.named_parameters()}
    counters = [b.numel() for n, b in net.named_buffers() if n.endswith("num_batches_tracked")]
    statistics = sum(b.numel() for b in net.buffers()) - sum(counters)

    assert sum(sizes.values()) == case.parameters
    assert sum(size for name, size in sizes.items() if name.startswith(net.head)) == case.head
    assert (statistics, sum(counters)) == case.buffers
    assert all(name.startswith(("features.", "classifier.")) for name in sizes)

    symbols = case.name == "stacked_lstm"
    x = torch.zeros(2, *case.shape, dtype=torch.int64 if symbols else torch.float32)
    with torch.no_grad():
        assert net(x).shape == (case.output or (2, case.classes))


def test_every_network_has_a_case() -> None:
    """A network added to the table must bring its published size."""
    assert {case.name for case in CASES} == {n for n, m in MODELS.items() if not m.task}


def test_autoencoder_size() -> None:
    """Encoder and decoder of the beta-VAE for 784 pixels and two latent variables."""
    net = MODELS["vae"]().build((1, 28, 28), 10)

    assert sum(p.numel() for p in net.encoder.parameters()) == 534_276
    assert sum(p.numel() for p in net.decoder.parameters()) == 534_544
    assert sum(p.numel() for p in net.parameters()) == 1_068_820
    assert sum(p.numel() for n, p in net.named_parameters() if n.startswith(net.head)) == 534_544
