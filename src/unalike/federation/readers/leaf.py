"""Reads the JSON files that the LEAF benchmark's preprocessing writes, client by client."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unalike.errors import DataError


class LeafRows(NamedTuple):
    """Rows of all users together: inputs, labels and the user of each."""

    x: np.ndarray
    y: np.ndarray
    user: np.ndarray


def leaf_files(folder: Path) -> list[Path]:
    """The JSON files of LEAF's layout: data/train and data/test, or data/all_data."""
    for places in (("train", "test"), ("data/train", "data/test"), ("data/all_data",), ("",)):
        files = [path for place in places for path in sorted((folder / place).glob("*.json"))]
        if files:
            return files
    return []


def read_leaf(files: list[Path]) -> LeafRows:
    """All rows of the files; LEAF's train and test rows together, as both have every user."""
    x, y, user = [], [], []
    for path in files:
        try:
            users = json.loads(path.read_text(encoding="utf-8"))["user_data"]
            for name, data in users.items():
                # Arrays at once: nested lists of Python numbers take ten times the memory.
                x.append(np.asarray(data["x"]))
                y.append(np.asarray(data["y"]))
                user.append(np.full(len(y[-1]), name))
                if len(x[-1]) != len(y[-1]):
                    raise DataError(f"'{path}': user '{name}' has unequal numbers of x and y.")
        except (KeyError, TypeError, AttributeError, ValueError):
            raise DataError(f"'{path}' is not a LEAF file with 'user_data' of x and y.") from None
    return LeafRows(*(np.concatenate(part) for part in (x, y, user)))
