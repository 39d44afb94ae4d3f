"""Run folders written by hand: every record a run leaves, with made-up numbers and no training."""

from pathlib import Path
from typing import Any

import numpy as np

from unalike.compare import folder as comparison
from unalike.compare.spec import loads
from unalike.federation.skew import measure
from unalike.metrics.fairness import summarise as spread
from unalike.run.configuration.config import Config, parse
from unalike.run.configuration.evaluation import EvaluationSettings
from unalike.run.folder.records import dumps
from unalike.run.summary import summarise

CLIENTS, BINS = 12, 15


def config(folder: Path, **changes: Any) -> Config:
    return parse({"rounds": 6, "run": {"folder": str(folder)}, **changes})


def write_run(made: Config, rounds: int | None = None, quality: float = 0.8) -> Path:
    """A run that did so many of its rounds, which come to about this accuracy."""
    folder = Path(made.run.folder)
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([made.seed, sum(map(ord, made.method.name))])
    counts = rng.multinomial(60, rng.dirichlet(np.full(10, 0.3)), CLIENTS)
    (folder / "config.json").write_text(dumps(made.resolved()))
    (folder / "environment.json").write_text(
        dumps({"python": "3.11", "packages": {"torch": "2.13"}, "cuda": None})
    )
    data = {
        "skew": measure(counts).as_dict(),
        "counts": counts.tolist(),
        "classes": [f"class {c}" for c in range(10)],
        "clients": CLIENTS,
        "parameters": 4810,
        "engine": "vectorized",
        "survey_reveals": [],
    }
    (folder / "skew.json").write_text(dumps(data))
    records = [
        _append(folder, made, t, rng, quality) for t in range(1, (rounds or made.rounds) + 1)
    ]
    if rounds is None:
        done = summarise(records, EvaluationSettings(), "accuracy")
        (folder / "summary.json").write_text(dumps(done))
    return folder


def append_round(made: Config, t: int) -> None:
    """One more round at the end of a run's records."""
    _append(Path(made.run.folder), made, t, np.random.default_rng(t), 0.9)


def _append(
    folder: Path, made: Config, t: int, rng: np.random.Generator, quality: float
) -> dict[str, Any]:
    ids = np.sort(rng.choice(CLIENTS, 5, replace=False))
    mean = quality * (1 - 0.5**t)
    sections = {name: CLIENTS for name in ("validation", "local")} | {"global": 1}
    clients: dict[str, Any] = {}
    for section, n in sections.items():
        accuracy = np.clip(mean + rng.normal(0, 0.05, n), 0, 1)
        clients[section] = {
            "accuracy": accuracy.tolist(),
            "loss": (1.5 - accuracy).tolist(),
            "f1": accuracy.tolist(),
            "ece": np.full(n, 0.1).tolist(),
            "n": np.full(n, 12).tolist(),
        }
    confidence = (np.arange(BINS) + 0.5) / BINS
    bins = {
        "counts": [0, *range(1, BINS)],
        "accuracy": [None, *(confidence[1:] ** 2)],
        "confidence": [None, *confidence[1:]],
    }
    record = {
        "round": t,
        "clients": ids.tolist(),
        "weights": [0.2] * 5 if made.method.name == "fedavg" else rng.dirichlet(np.ones(5)),
        "rejected": {},
        "skipped": "",
        "notes": [],
        "bytes_down": 1000 * t,
        "bytes_up": 1000,
        "bytes_across": 0,
        "bytes_before": 0,
        "messages": 10,
        "samples": 300.0,
        "metrics": {
            section: {
                metric: spread(values, metrics["n"]).as_dict()
                for metric, values in metrics.items()
                if metric != "n"
            }
            for section, metrics in clients.items()
        },
    }
    line = {"round": t, **clients, "reliability": {s: bins for s in sections}}
    for name, value in (
        ("rounds.jsonl", record),
        ("clients.jsonl", line),
        ("timing.jsonl", {"round": t, "seconds": 0.5}),
    ):
        with (folder / name).open("a") as f:
            f.write(dumps(value) + "\n")
    return record


COMPARISON = """
rounds = 6
[compare]
title = "Two skews"
question = "Which method copes best?"
methods = [
  { name = "fedavg", label = "FedAvg" },
  { name = "fedprox", label = "FedProx" },
  { name = "scaffold", label = "SCAFFOLD" },
]
partitions = [{ name = "dirichlet", alpha = 0.1 }, { name = "dirichlet", alpha = 1.0 }]
seeds = 3
"""


def write_comparison(folder: Path, text: str = COMPARISON, finished: int | None = None) -> Path:
    """A comparison of which the first cells are finished."""
    made = comparison.create(loads(text, "skews"), folder, text)
    qualities = {"FedAvg": 0.7, "FedProx": 0.72, "SCAFFOLD": 0.9}
    for cell in made.cells[:finished]:
        write_run(cell.config, quality=qualities.get(cell.label, 0.8) + 0.001 * cell.seed)
    return folder
