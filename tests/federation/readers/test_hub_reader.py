import sys

import numpy as np
import pytest
from PIL import Image

from unalike.errors import DataError
from unalike.federation.readers import from_hub, read_hub
from unalike.federation.readers import hub as hub_reader

datasets = pytest.importorskip("datasets", reason="the extra 'hub' is not installed")


def pictures():
    kinds = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog", "emu"]),
            "who": datasets.Value("string"),
        }
    )
    images = [Image.fromarray(np.full((3, 4), value, np.uint8)) for value in (0, 255, 51)]
    rows = {"image": images, "label": [0, 2, 0], "who": ["b", "a", "b"]}
    return datasets.Dataset.from_dict(rows, features=kinds)


def test_images_keep_the_class_names_of_the_hub():
    examples = from_hub(pictures(), test=pictures(), client="who")
    assert examples.x.shape == (3, 1, 3, 4)
    assert examples.x[:, 0, 0, 0].tolist() == pytest.approx([0, 1, 0.2])
    assert examples.classes == 3
    assert examples.class_names == ("cat", "dog", "emu")
    assert examples.y.tolist() == [0, 2, 0]
    assert examples.groups.tolist() == [1, 0, 1]
    assert len(examples.test_x) == 3


def test_tables_saved_to_disk(tmp_path):
    table = datasets.Dataset.from_dict(
        {"a": [1.0, 2.0, None], "b": ["x", "y", "x"], "y": [0, 1, 0]}
    )
    datasets.DatasetDict({"train": table, "held": table}).save_to_disk(str(tmp_path))
    examples = read_hub(str(tmp_path), label="y", test_split="held", missing="impute")
    assert examples.x.tolist() == [[1, 1, 0], [2, 0, 1], [1.5, 1, 0]]
    assert examples.test_y.tolist() == [0, 1, 0]


def test_splits_and_columns_that_are_not_there(tmp_path, one_sentence):
    pictures().save_to_disk(str(tmp_path))
    with one_sentence(DataError, "'test'", "train"):
        read_hub(str(tmp_path), test_split="test")
    with one_sentence(DataError, "'target'", "image, label, who"):
        read_hub(str(tmp_path), label="target")


def test_offline_is_said_at_once_and_once(monkeypatch, one_sentence):
    monkeypatch.setattr(hub_reader, "_resolves", lambda: False)
    with one_sentence(DataError, "cannot be reached", "someone/something"):
        read_hub("someone/something")


def test_other_hub_errors_keep_their_reason(monkeypatch, one_sentence):
    def fail(*_):
        raise ValueError("Config name is missing.\nPlease pick one")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with one_sentence(DataError, "someone/something", "Config name is missing"):
        read_hub("someone/something")


def test_without_the_library_the_command_that_installs_it(monkeypatch, one_sentence):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with one_sentence(DataError, "unalike[hub]"):
        read_hub("someone/something")
