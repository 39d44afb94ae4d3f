import numpy as np
import polars as pl
import pytest
from PIL import Image

from unalike.errors import ConfigError, DataError
from unalike.federation.build import federate
from unalike.federation.datasets.own import Files
from unalike.federation.partition.iid import Iid
from unalike.federation.partition.natural import Natural

TABLE = pl.DataFrame({"a": [1.0, 3.0, 5.0], "town": ["x", "y", "x"], "sick": [0, 1, 0]})


def test_a_table_is_standardised_by_default(tmp_path):
    path = tmp_path / "mine.csv"
    TABLE.write_csv(path)
    mine = Files(path=str(path), label="sick", client="town")
    federation = federate(mine, Natural(), validation=0, test=0)
    scaled = federation.examples.x.flatten().tolist()
    assert scaled == pytest.approx([-1.2247449, 0, 1.2247449])
    examples = mine.load()
    assert examples.x.flatten().tolist() == [1, 3, 5]
    assert examples.group_names == ("x", "y")
    assert examples.name == "mine"
    raw = Files(path=str(path), label="sick", client="town", normalise="none")
    assert federate(raw, Natural()).examples.x.flatten().tolist() == [1, 3, 5]


def test_a_second_table_is_the_test_set(tmp_path):
    for name, rows in (("train", TABLE), ("test", TABLE.head(1))):
        rows.write_parquet(tmp_path / f"{name}.parquet")
    examples = Files(
        path=str(tmp_path / "train.parquet"),
        test_path=str(tmp_path / "test.parquet"),
        label="sick",
    ).load()
    assert examples.test_y.tolist() == [0]


def test_npz_files_and_image_folders(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 4, 4, 3), np.uint8), y=[0, 1], who=[1, 2])
    examples = Files(path=str(tmp_path / "d.npz"), client="who").load()
    assert examples.x.shape == (2, 3, 4, 4)
    assert examples.group_names == ("1", "2")
    for kind, value in (("cat", 0), ("dog", 255)):
        (tmp_path / "images" / kind).mkdir(parents=True)
        Image.new("L", (4, 4), value).save(tmp_path / "images" / kind / "1.png")
    folder = str(tmp_path / "images")
    assert Files(path=folder, size=2).load().x[:, 0, 0, 0].tolist() == [0, 1]
    scaled = federate(Files(path=folder, normalise="pooled"), Iid(clients=1), validation=0, test=0)
    assert scaled.examples.x[:, 0, 0, 0].tolist() == [-1, 1]


def test_settings_that_mean_nothing_are_refused(tmp_path, one_sentence):
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 2)), y=[0, 1])
    TABLE.write_csv(tmp_path / "t.csv")
    with one_sentence(ConfigError, "'label'", "d.npz"):
        Files(path=str(tmp_path / "d.npz"), label="y").load()
    with one_sentence(ConfigError, "'size'", "t.csv"):
        Files(path=str(tmp_path / "t.csv"), size=3).load()
    with one_sentence(ConfigError, "'missing'"):
        Files(path=str(tmp_path), missing="impute").load()
    with one_sentence(DataError, "nothing.csv"):
        Files(path=str(tmp_path / "nothing.csv")).load()
