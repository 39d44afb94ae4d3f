"""What a network cannot take is refused in one sentence with its name and what it needs."""

import re
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from unalike.errors import ConfigError
from unalike.models import MODELS
from unalike.models.base import Convolutional
from unalike.models.dense import MLP
from unalike.settings import describe, summary

CONVOLUTIONAL = [name for name, model in MODELS.items() if issubclass(model, Convolutional)]


@pytest.mark.parametrize(
    ("name", "shape", "needs"),
    [
        ("two_cnn", (13,), "images (channels, height, width)"),
        ("two_cnn", (28, 28), "images (channels, height, width)"),
        ("vgg9", (1, 8, 8), "images (channels, height, width) of at least 16x16"),
        ("lg_cnn", (1, 8, 8), "images (channels, height, width) of at least 16x16"),
        ("cifar_cnn", (3, 8, 4), "images (channels, height, width) of at least 8x8"),
        ("mobilenet", (3, 32, 32), "images (channels, height, width) of at least 33x33"),
        ("m5", (16_000,), "audio (channels, samples)"),
        ("m5", (1, 500), "audio (channels, samples) of at least 1100"),
        ("stacked_lstm", (1, 28, 28), "sequences of tokens (length,)"),
        ("two_nn", (), "at least one feature, in an array of any shape"),
        ("logistic", (0,), "at least one feature, in an array of any shape"),
    ],
)
def test_wrong_shapes(name: str, shape: tuple[int, ...], needs: str) -> None:
    """The message names the model, the shape it got and the shape it needs."""
    with pytest.raises(ConfigError) as error:
        MODELS[name]().build(shape, 10)
    assert str(error.value) == f"{name} cannot take inputs of shape {shape}: it needs {needs}."


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_the_least_size_is_the_least(name: str) -> None:
    """The size that a refusal asks for works, and one pixel less does not."""
    model = MODELS[name]()
    places = model.axes - 1
    try:
        model.build((1, *[1] * places), 2)
    except ConfigError as error:
        least = int(re.search(r"at least (\d+)", str(error))[1])
        with pytest.raises(ConfigError):
            model.build((1, *[least - 1] * places), 2)
    else:
        least = 1
    net = model.build((1, *[least] * places), 2)
    assert net(torch.zeros(2, 1, *[least] * places)).shape == (2, 2)


@settings(max_examples=10, deadline=None)
@given(st.integers(16, 40), st.integers(16, 40), st.integers(1, 4), st.integers(1, 5))
def test_images_of_any_larger_size(height: int, width: int, channels: int, classes: int) -> None:
    """Body and head meet at the width that the image gives."""
    for name in ("feddisco_cnn", "mnist_cnn", "fmnist_cnn"):
        net = MODELS[name]().build((channels, height, width), classes)
        assert net(torch.zeros(2, channels, height, width)).shape == (2, classes)


def test_no_outputs() -> None:
    """Zero classes are refused before anything is built."""
    with pytest.raises(ConfigError, match="two_nn was asked for 0 outputs"):
        MODELS["two_nn"]().build((4,), 0)


@pytest.mark.parametrize("name", ["lg_mlp", "mnist_cnn", "fmnist_cnn", "cifar_cnn"])
def test_softmax_of_one_output(name: str) -> None:
    """A softmax over one logit would be constant."""
    with pytest.raises(ConfigError, match=rf"^{name} has one output, .* double_softmax = false\.$"):
        MODELS[name](double_softmax=True).build((1, 28, 28), 1)


def test_vocabulary_of_a_binary_task() -> None:
    """One output says nothing about the number of symbols."""
    with pytest.raises(ConfigError, match="set vocabulary to the number of tokens"):
        MODELS["stacked_lstm"]().build((5,), 1)
    net = MODELS["stacked_lstm"](vocabulary=9).build((5,), 1)
    assert net(torch.full((2, 5), 8)).shape == (2, 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden": [4, 0]}, "greater than 0"),
        ({"hidden": [4], "head_layers": 3}, "more than the 2 linear layers"),
        ({"widths": [4]}, "Extra inputs"),
        ({"bias": 1}, "valid boolean"),
    ],
)
def test_wrong_settings(wrong: dict[str, object], message: str) -> None:
    """Settings are refused when they are made."""
    with pytest.raises(ValidationError, match=message):
        MLP(**wrong)


def test_names_and_settings_without_torch() -> None:
    """Listing what can be configured does not wait for torch to be imported."""
    code = (
        "import sys; from unalike.models import MODELS; from unalike.settings import describe;"
        "[describe(m) for m in MODELS.values()]; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_model_describes_itself() -> None:
    """A line for the list, and a meaning for every setting."""
    assert {model.name for model in MODELS.values()} == set(MODELS)
    assert len({summary(model) for model in MODELS.values()}) == len(MODELS)
    assert all(setting.description for m in MODELS.values() for setting in describe(m))
