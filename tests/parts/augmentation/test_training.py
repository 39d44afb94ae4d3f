"""Training augmentation: what it does to rows, by another program; both engines draw it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from federations import composed, distance, network_task, play

from unalike import rng
from unalike.errors import ConfigError
from unalike.parts.augmentation.training import (
    AUGMENTATIONS,
    Audio,
    Augmented,
    Images,
    Numbers,
    Text,
    moved,
)
from unalike.parts.augmentation.transform import ClassBalance
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.rounds import rounds

KEY = rng.key(3)


def test_a_crop_is_a_cut_of_the_padded_picture():
    """Every picture is one of the 25 cuts of itself with a border of 2, and all of them come up."""
    x = torch.rand(400, 3, 6, 5)
    out = Images(crop=2, flip=False)(x, KEY)
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)))
    seen = set()
    for i in range(len(x)):
        cuts = [(r, c) for r in range(5) for c in range(5)]
        same = [
            (r, c)
            for r, c in cuts
            if np.array_equal(padded[i, :, r : r + 6, c : c + 5], out[i].numpy())
        ]
        assert same
        seen.update(same)
    assert len(seen) == 25


def test_half_of_the_pictures_are_mirrored():
    x = torch.rand(400, 1, 4, 4)
    out = Images(crop=0)(x, KEY)
    flipped = (out == x.flip(3)).all((1, 2, 3))
    assert ((out == x).all((1, 2, 3)) ^ flipped).all()
    assert 0.42 < float(flipped.float().mean()) < 0.58


def test_pictures_are_turned_within_the_limit():
    """The direction of a dot from the middle, by the centre of its light."""
    x = torch.zeros(400, 1, 65, 65)
    x[:, :, 30:35, 55:60] = 1.0  # to the right of the middle
    out = Images(crop=0, flip=False, rotation=20.0)(x, KEY)[:, 0].numpy()
    place = np.arange(65) - 32
    down, across = (out * place[:, None]).sum((1, 2)), (out * place).sum((1, 2))
    angle = np.degrees(np.arctan2(down, across))
    assert abs(angle).max() <= 20.5
    assert angle.std() == pytest.approx(20 / np.sqrt(3), rel=0.08)  # of a uniform draw
    assert np.hypot(down, across) / out.sum((1, 2)) == pytest.approx(25, abs=0.3)


@pytest.mark.parametrize("channels", [1, 3])
def test_jitter_keeps_what_is_grey_and_even(channels):
    """Of a picture of one value brightness is left: contrast and saturation have nothing to do."""
    x = torch.full((200, channels, 3, 3), 0.5)
    out = Images(crop=0, flip=False, jitter=0.2)(x, KEY)
    flat = out.flatten(1)
    torch.testing.assert_close(flat, flat[:, :1].expand_as(flat))
    assert float(flat.min()) >= 0.4 - 1e-6
    assert float(flat.max()) <= 0.6 + 1e-6
    assert float(flat.std()) > 0.03


def test_symbols_come_from_the_same_example():
    x = torch.arange(40).reshape(4, 10).repeat(100, 1)
    out = Text(drop=0.3)(x, KEY)
    changed = out != x
    assert float(changed.float().mean()) == pytest.approx(0.3 * 0.9, abs=0.02)
    assert (out // 10 == x // 10).all()


def test_sounds_move():
    x = torch.zeros(300, 1, 100)
    x[:, :, 50] = 1.0
    out = Audio(shift=0.1, gain=0.0, noise=0.0)(x, KEY)
    place = out[:, 0].argmax(1)
    assert (out.sum((1, 2)) == 1).all()
    assert int(place.min()) == 40
    assert int(place.max()) == 60


def test_noise_has_its_strength():
    out = Numbers(noise=0.5)(torch.zeros(2000, 3), KEY)
    assert float(out.std()) == pytest.approx(0.5, rel=0.03)


def test_moved_far_is_empty():
    assert not moved(torch.ones(2, 3), torch.tensor([5, -5]), 1).any()


@pytest.mark.parametrize("engine", ["images", "with fedaug"])
def test_both_engines_agree(engine):
    task, data = network_task("conv", torch.float64)
    recipe = composed(task, data, *([("fedaug", {"target": 0.1})] if "fedaug" in engine else []))
    how = Images(crop=1, rotation=20.0, jitter=0.3, noise=0.1)
    recipe = replace(recipe, transform=Augmented(how, recipe.transform))
    one, all_ = (play(recipe, data, 2, engine=e) for e in ("sequential", "vectorized"))
    assert distance(one.states[-1], all_.states[-1]) < 1e-9


def test_beside_fedaug_both_act():
    """Four and one are brought to an EMD of 0.1 by 4 / 0.55 - 4 = 3.27, so three of the second."""
    both = Augmented(Images(crop=1), ClassBalance(0.1))
    labels = np.array([0, 0, 0, 0, 1])
    assert len(both.repeats(labels, 2, KEY)) == 2
    assert len(Augmented(Images()).repeats(labels, 2, KEY)) == 0
    assert both.effect(np.array([[4, 1]]))["unaltered"] == pytest.approx(5 / 7)
    x, none = torch.rand(6, 1, 4, 4), torch.zeros(6, dtype=torch.bool)
    torch.testing.assert_close(
        both.apply(x, none, KEY), Augmented(Images(crop=1)).apply(x, none, KEY)
    )


def small(**raw):
    return {"partition": {"name": "iid", "clients": 4}, "rounds": 2, **raw}


def test_from_a_configuration():
    """It changes the training and not what is judged before any."""
    plain, other = (
        [s.record for s in rounds(experiment(parse(small(**raw))))]
        for raw in ({}, {"augment": {"name": "images", "crop": 1, "flip": False}})
    )
    assert plain[-1]["metrics"] != other[-1]["metrics"]
    assert plain[-1]["samples"] == other[-1]["samples"]


@pytest.mark.parametrize("name", sorted(AUGMENTATIONS.keys() - {"none", "images", "numbers"}))
def test_what_does_not_fit_the_data(name):
    message = rf"augment.name = '{name}' alters .* the shape \(1, 8, 8\) of float32; use another"
    with pytest.raises(ConfigError, match=message):
        experiment(parse(small(augment=name)))
