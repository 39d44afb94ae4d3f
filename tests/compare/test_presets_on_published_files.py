"""Presets whose data nobody can fetch here, on small files in their published layouts."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unalike.compare.execution.conduct import preflight
from unalike.compare.presets import text
from unalike.compare.specification.settings import Budget
from unalike.compare.specification.spec import loads
from unalike.errors import DataError

RNG = np.random.default_rng(0)
LINE = "To be, or not to be, that is the question: whether 'tis nobler in the mind to su"


def cifar100(folder: Path) -> None:
    """The binary version as it unpacks: a coarse label, a fine one, 3,072 pixels."""
    folder = folder / "cifar-100-binary"
    folder.mkdir()
    for name, rows in (("train", 2_000), ("test", 20)):
        label = np.arange(rows) % 100
        pixels = RNG.integers(0, 256, (rows, 3_072), np.uint8)
        whole = np.concatenate([(label // 5)[:, None], label[:, None], pixels], 1)
        (folder / f"{name}.bin").write_bytes(whole.astype(np.uint8).tobytes())


def leaf(folder: Path, users: dict[str, dict[str, list]]) -> None:
    folder.mkdir(parents=True)
    (folder / "all_data_0.json").write_text(
        json.dumps({"users": list(users), "user_data": users}), encoding="utf-8"
    )


def femnist(folder: Path) -> None:
    rows = {"x": RNG.random((20, 784)).round(2).tolist(), "y": [n % 62 for n in range(20)]}
    leaf(folder / "femnist" / "data" / "train", {f"f{n:04}_00": rows for n in range(12)})


def shakespeare(folder: Path) -> None:
    rows = {"x": [LINE[n % 80 :] + LINE[: n % 80] for n in range(120)], "y": ["f"] * 120}
    roles = {f"THE_TRAGEDY_OF_HAMLET_{n}": rows for n in range(12)}
    leaf(folder / "shakespeare" / "data" / "train", roles)


def medmnist(folder: Path) -> None:
    for flag, classes, shape in (("dermamnist", 7, (64, 64, 3)), ("organcmnist", 11, (64, 64))):
        arrays = {}
        for part, rows in (("train", 2_200), ("val", 22), ("test", 22)):
            arrays[f"{part}_images"] = np.zeros((rows, *shape), np.uint8)
            arrays[f"{part}_labels"] = (np.arange(rows) % classes)[:, None]
        np.savez(folder / f"{flag}_64.npz", **arrays)


@pytest.mark.parametrize(
    ("name", "scale", "write"),
    [
        ("superfed-cifar100", "paper", cifar100),
        ("superfed-femnist", "paper", femnist),
        ("superfed-femnist", "small", femnist),
        ("superfed-shakespeare", "paper", shakespeare),
        ("superfed-shakespeare", "small", shakespeare),
        ("fedevg-medmnist", "paper", medmnist),
    ],
)
def test_it_builds_on_files_as_they_are_published(
    name: str,
    scale: str,
    write: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path)
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    made = loads(text(name), name, scale)
    one = [c for c in made.cells if c.seed == made.cells[0].seed]
    chosen = {made.conditions[0], made.conditions[-1]}
    preflight([c for c in one if c.condition in chosen], Budget("rounds"))


def test_where_the_files_go_is_said_as_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names as common as train.bin are looked for in the set's own folder alone."""
    cifar100(tmp_path)
    for file in (tmp_path / "cifar-100-binary").iterdir():
        file.rename(tmp_path / file.name)
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    cells = loads(text("superfed-cifar100"), "superfed-cifar100", "paper").cells
    with pytest.raises(DataError, match="folder cifar-100-binary with train"):
        preflight(cells[:1], Budget("rounds"))
