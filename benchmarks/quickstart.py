"""The choices of the quickstart comparison, made on validation rows of seeds it does not use.

python benchmarks/quickstart.py

FedAvg's learning rate over a grid, then, at the best one, the momentum of FedAvgM: the validation
accuracy in per cent, mean over clients, both conditions and five seeds, of the round selected
among the first 10, 20, 30 and 40.
"""

import json
import tempfile
from pathlib import Path

import numpy as np

from unalike.compare.execution.conduct import conduct
from unalike.compare.execution.folder import create
from unalike.compare.presets import text
from unalike.compare.specification.spec import loads

RATES, MOMENTA = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0), (0.5, 0.7, 0.9)
ROUNDS, EVERY, SEEDS = (10, 20, 30, 40), 2, range(100, 105)  # the comparison has seeds 0 to 4
AT = 20  # the rounds of the preset


def curves(method: str, rate: float) -> np.ndarray:
    """Validation accuracy: condition and seed x evaluated round."""
    overrides = [
        f"rounds={ROUNDS[-1]}",
        f"local.lr={rate}",
        f"compare.methods=[{method}]",
        f"compare.seeds={list(SEEDS)}",
    ]
    made = loads(text("quickstart"), "quickstart", None, overrides)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "runs"
        placed = create(made, folder, "")
        conduct(placed, folder).check(folder)
        out = []
        for cell in placed.cells:
            lines = (folder / cell.folder / "rounds.jsonl").read_text().splitlines()
            records = [json.loads(line)["metrics"] for line in lines]
            out.append([m["validation"]["accuracy"]["mean"] for m in records if m])
    return 100 * np.array(out)


def selected(curve: np.ndarray) -> dict[int, float]:
    """Rounds -> the best validation accuracy so far, mean over runs."""
    best = np.maximum.accumulate(curve, 1).mean(0)
    return {n: float(best[n // EVERY - 1]) for n in ROUNDS}


def show(name: str, found: dict[int, float]) -> None:
    print(f"{name:16}", *(f"{accuracy:8.2f}" for accuracy in found.values()), flush=True)


if __name__ == "__main__":
    print(f"{'rounds':16}", *(f"{n:8}" for n in ROUNDS))
    by_rate = {}
    for rate in RATES:
        by_rate[rate] = selected(curves('"fedavg"', rate))
        show(f"lr {rate}", by_rate[rate])
    best = max(by_rate, key=lambda rate: by_rate[rate][AT])
    for momentum in MOMENTA:
        method = f'{{ name = "fedavgm", momentum = {momentum} }}'
        show(f"momentum {momentum}", selected(curves(method, best)))
