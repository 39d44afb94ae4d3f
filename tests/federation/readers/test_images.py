import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unalike.errors import DataError
from unalike.federation.readers import read_images


def picture(path: Path, value: int, mode: str = "L", size: tuple[int, int] = (4, 3)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode in ("L", "I;16") else (value, 0, 255)).save(path)


def test_class_folders(tmp_path):
    picture(tmp_path / "dog" / "1.png", 0)
    picture(tmp_path / "cat" / "1.png", 255)
    picture(tmp_path / "cat" / "2.png", 51)
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    picture(tmp_path / ".cache" / "x.png", 9)
    examples = read_images(tmp_path)
    assert examples.class_names == ("cat", "dog")
    assert examples.x.shape == (3, 1, 3, 4)
    assert examples.x[:, 0, 0, 0].tolist() == pytest.approx([1, 0.2, 0])
    assert examples.y.tolist() == [0, 0, 1]
    assert examples.groups is None


def test_client_folders_that_hold_class_folders(tmp_path):
    picture(tmp_path / "ann" / "cat" / "1.png", 1)
    picture(tmp_path / "ann" / "dog" / "1.png", 2)
    picture(tmp_path / "bob" / "dog" / "1.png", 3)
    examples = read_images(tmp_path)
    assert examples.group_names == ("ann", "bob")
    assert examples.groups.tolist() == [0, 0, 1]
    assert examples.y.tolist() == [0, 1, 1]


@pytest.mark.parametrize("client", ["", "ann"])
def test_train_and_test_folders_give_a_test_set(tmp_path, client):
    for part, value in (("train", 10), ("test", 20)):
        picture(tmp_path / part / client / "cat" / "1.png", value)
        picture(tmp_path / part / client / "dog" / "1.png", value)
    examples = read_images(tmp_path)
    assert len(examples) == 2
    assert examples.test_y.tolist() == [0, 1]
    assert examples.test_x[0, 0, 0, 0] == pytest.approx(20 / 255)
    assert examples.group_names == ((client,) if client else ())


def test_colour_anywhere_makes_three_channels(tmp_path):
    picture(tmp_path / "cat" / "1.png", 51)
    picture(tmp_path / "dog" / "1.png", 51, "RGB")
    x = read_images(tmp_path).x
    assert x.shape == (2, 3, 3, 4)
    assert np.allclose(x[0, :, 0, 0], [0.2, 0.2, 0.2])
    assert np.allclose(x[1, :, 0, 0], [0.2, 0, 1])


def test_sizes_that_differ_need_a_size(tmp_path, one_sentence):
    picture(tmp_path / "cat" / "1.png", 51)
    picture(tmp_path / "dog" / "1.png", 51, size=(5, 5))
    with one_sentence(DataError, "5 x 5", "4 x 3", "1.png", "size"):
        read_images(tmp_path)
    assert read_images(tmp_path, size=8).x.shape == (2, 1, 8, 8)


def test_bad_folders(tmp_path, one_sentence):
    with one_sentence(DataError, "nowhere"):
        read_images(tmp_path / "nowhere")
    with one_sentence(DataError, "no images", "CLIENT/CLASS/image"):
        read_images(tmp_path)
    picture(tmp_path / "cat" / "1.png", 1)
    picture(tmp_path / "ann" / "cat" / "1.png", 1)
    with one_sentence(DataError, "1 and 2 folders down"):
        read_images(tmp_path)


def test_bad_images(tmp_path, one_sentence):
    picture(tmp_path / "cat" / "1.png", 1)
    (tmp_path / "cat" / "2.png").write_text("no image")
    with one_sentence(DataError, "2.png", "damaged"):
        read_images(tmp_path)
    picture(tmp_path / "cat" / "2.png", 1000, "I;16")
    with one_sentence(DataError, "2.png", "8 bits"):
        read_images(tmp_path)


def test_without_pillow_the_command_that_installs_it(tmp_path, monkeypatch, one_sentence):
    picture(tmp_path / "cat" / "1.png", 1)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with one_sentence(DataError, "PIL", "unalike[image]"):
        read_images(tmp_path)
