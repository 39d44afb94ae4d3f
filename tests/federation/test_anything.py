"""Whatever a program holds becomes the same examples."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

import unalike
from unalike.errors import ConfigError, DataError, unknown
from unalike.federation.anything import examples_of

RNG = np.random.default_rng(0)
X, Y = RNG.normal(10, 5, size=(60, 2)), np.arange(60) % 2
WHO = np.array(["north", "south", "west"])[np.arange(60) % 3]
TABLE = {"a": X[:, 0], "b": X[:, 1], "label": Y, "who": WHO}


class Pairs(Dataset):
    """As PyTorch's users write them."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = torch.from_numpy(x), y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return self.x[i], int(self.y[i])


class Bare(Dataset):
    """Rows without labels."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> int:
        return i


def test_all_of_them_agree(tmp_path) -> None:
    """With clients of their own, scaled alike, also by a file and the command's settings."""
    pl.DataFrame(TABLE).write_csv(tmp_path / "t.csv")
    own = {name: name == WHO for name in ("north", "south", "west")}
    made = [
        unalike.federate((X, Y, WHO)),
        unalike.federate(pd.DataFrame(TABLE), client="who"),
        unalike.federate(pl.DataFrame(TABLE), client="who"),
        unalike.federate(unalike.dataset("files", path=str(tmp_path / "t.csv"), client="who")),
    ]
    for other in made[1:]:
        torch.testing.assert_close(other.examples.x, made[0].examples.x)
        assert np.array_equal(other.owner, made[0].owner)
        assert np.array_equal(other.part, made[0].part)
        assert other.names == made[0].names
    assert made[0].examples.x[torch.from_numpy(made[0].part == 0)].mean(0).abs().max() < 1e-6
    both = torch.from_numpy(X), torch.from_numpy(Y)
    apart = [
        unalike.federate({name: (X[at], Y[at]) for name, at in own.items()}),
        unalike.federate({name: Pairs(X[at], Y[at]) for name, at in own.items()}),
        unalike.federate(
            {name: TensorDataset(both[0][at], both[1][at]) for name, at in own.items()}
        ),
    ]
    for other in apart:
        assert sorted(other.names) == sorted(made[0].names)
        assert other.counts.sum() == made[0].counts.sum()
        torch.testing.assert_close(other.examples.x, apart[0].examples.x)


def test_names_and_tables_stand_for_partitioners() -> None:
    one = unalike.federate((X, Y), "iid", seed=2)
    other = unalike.federate((X, Y), unalike.partitioner("iid"), seed=2)
    assert np.array_equal(one.owner, other.owner)
    three = unalike.federate(Pairs(X, Y), {"name": "iid", "clients": 3})
    assert three.n_clients == 3
    digits = unalike.federate("digits", "iid", shifts=["rotation"], validation=0.2)
    assert digits.n_clients == 10


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (3, "data must be a named dataset"),
        ({}, "must name at least one client"),
        ([1, 2, 3], "data must be a named dataset"),
        (Bare(), r"must give pairs \(x, y\), got int at 0"),
        ({"a": (np.zeros((2, 3)), [0, 1]), "b": (np.zeros((2, 2)), [0, 1])}, "make them equal"),
        (np.zeros((3, 2)), "data must be a named dataset"),
    ],
)
def test_anything_else_is_refused_in_one_sentence(data: object, words: str) -> None:
    with pytest.raises((DataError, ConfigError), match=words):
        examples_of(data)


def test_mistakes_of_names() -> None:
    with pytest.raises(ConfigError, match="unknown partition 'idd': did you mean 'iid'"):
        unalike.federate((X, Y), "idd")
    with pytest.raises(ConfigError, match="'partition' must be a name"):
        unalike.federate((X, Y), 3)
    with pytest.raises(DataError, match="no natural clients"):
        unalike.federate((X, Y))


def test_rows_and_clients_by_name() -> None:
    made = unalike.federate((X, Y, WHO))
    assert torch.equal(made.rows("test").order, made.rows(2).order)
    assert made.names[made.number("south")] == "south"
    with pytest.raises(ConfigError, match="unknown part 'tests': did you mean 'test'"):
        made.rows("tests")
    with pytest.raises(ConfigError, match="unknown client 'soth': did you mean 'south'"):
        made.number("soth")


def test_the_nearest_name_is_found_whatever_its_capitals() -> None:
    said = str(unknown("client", "Wset", ["Ost", "West", "north"]))
    assert said == "unknown client 'Wset': did you mean 'West'? valid names are Ost, West, north."
