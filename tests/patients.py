"""A hospital's table as it comes, and runs on it."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import unalike

HOSPITALS = ("east", "north", "south", "west")
NET = """
from torch import nn

class Model(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(shape[0], 8), nn.BatchNorm1d(8), nn.ReLU())
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(self.body(x))
"""


def patients(rows: int = 240) -> pl.DataFrame:
    """A table with numbers, text, truth values and gaps; three classes, four hospitals."""
    rng = np.random.default_rng(3)
    age, job = rng.normal(50, 15, rows), rng.choice(["clerk", "smith", "cook"], rows)
    where = rng.choice(HOSPITALS, rows)
    pressure = rng.normal(120, 20, rows) + 10 * (job == "smith")
    risk = (age - 50) / 15 + (pressure - 120) / 20 + 0.5 * (where == "north")
    label = np.digitize(risk + 0.3 * rng.normal(size=rows), [-0.5, 0.7])
    return pl.DataFrame(
        {
            "age": [None if i % 17 == 0 else v for i, v in enumerate(age)],
            "job": [None if i % 23 == 0 else v for i, v in enumerate(job)],
            "smokes": rng.random(rows) > 0.5,
            "pressure": pressure,
            "hospital": where,
            "risk": np.array(["high", "low", "middle"])[label],
        }
    )


def run(place: Path, table: pl.DataFrame, **raw: Any) -> Path:
    """A run on the table in a folder of its own; the folder is then moved."""
    place.mkdir(parents=True, exist_ok=True)
    table.write_csv(place / "patients.csv")
    data = {"name": "files", "path": str(place / "patients.csv"), "label": "risk"}
    data |= {"client": "hospital", "missing": "impute", **raw.pop("data", {})}
    model = raw.pop("model", {"name": "mlp", "hidden": [8]})
    settings = {"rounds": 4, "data": data, "partition": "natural", "model": model, **raw}
    settings["run"] = {"folder": str(place / "run"), **settings.get("run", {})}
    unalike.start(unalike.parse(settings))
    (place / "elsewhere").mkdir()
    return Path(shutil.move(place / "run", place / "elsewhere" / "moved"))
