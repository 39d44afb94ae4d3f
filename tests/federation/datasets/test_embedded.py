"""Datasets that need no file, and what all datasets have in common."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from unalike.federation.build import federate
from unalike.federation.data import TRAIN
from unalike.federation.datasets import DATASETS
from unalike.federation.datasets.breast_cancer import BreastCancer
from unalike.federation.datasets.digits import Digits
from unalike.federation.partition.iid import Iid
from unalike.settings import describe, summary


def test_digits():
    examples = Digits().load()
    assert examples.x.shape == (1797, 1, 8, 8)
    assert (examples.x.min(), examples.x.max()) == (0, 1)
    assert np.bincount(examples.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_resized_and_normalised():
    federation = federate(Digits(size=16, normalise=True), Iid())
    assert federation.examples.x.shape == (1797, 1, 16, 16)
    x = federation.examples.x[torch.from_numpy(federation.part == TRAIN)]
    assert abs(x.mean()) < 1e-4
    assert x.std() == pytest.approx(1, abs=1e-3)


def test_breast_cancer():
    examples = BreastCancer().load()
    assert examples.x.shape == (569, 30)
    assert examples.kind == "binary"
    assert np.bincount(examples.y).tolist() == [212, 357]
    assert examples.class_names == ("malignant", "benign")
    assert examples.x[0, 0] == pytest.approx(17.99)  # the first tumour's mean radius
    federation = federate(BreastCancer(), Iid())
    x = federation.examples.x[torch.from_numpy(federation.part == TRAIN)]
    assert x.mean(0).abs().max() < 1e-4
    assert torch.allclose(x.std(0, correction=0), torch.ones(30), atol=1e-4)


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_describes_itself(name):
    cls = DATASETS[name]
    assert cls.title == name
    assert summary(cls).endswith((".", "..."))
    assert all(setting.description for setting in describe(cls))


@pytest.mark.parametrize("name", DATASETS)
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(ValidationError, match="colour"):
        DATASETS[name](colour="red")


def test_listing_the_datasets_loads_no_heavy_library():
    heavy = "{'torch', 'polars', 'pandas', 'sklearn', 'scipy', 'datasets', 'PIL'}"
    code = f"import sys, unalike.federation.datasets; sys.exit(str({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "set()"
