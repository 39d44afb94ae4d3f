import numpy as np
import torch

from unalike.errors import DataError
from unalike.federation.readers import from_arrays
from unalike.federation.readers.scaling import standardise

Y = np.arange(50) % 2


def test_channels_are_scaled_by_the_training_images():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (50, 4, 4, 3), np.uint8) // np.array([1, 2, 5], np.uint8)
    examples = from_arrays(pixels, Y, test=(pixels[:9], Y[:9]))
    scaled = standardise(examples)
    assert scaled.x.mean((0, 2, 3)).abs().max() < 1e-5
    assert torch.allclose(scaled.x.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5)
    assert torch.allclose(scaled.test_x, scaled.x[:9])


def test_an_empty_channel_stays_finite():
    assert standardise(from_arrays(np.zeros((50, 4, 4), np.uint8), Y)).x.abs().max() == 0


def test_sequences_are_refused(one_sentence):
    with one_sentence(DataError, "(4, 4)"):
        standardise(from_arrays(np.zeros((50, 4, 4)), Y))
