"""Tables of docs/results/skew.md on how fast phase-shift converges."""

from collections.abc import Sequence

import numpy as np

from unalike.compare.statistics.paired import paired
from unalike.compare.statistics.speed import speeds, target
from writer.results import Line, difference, number, runs, spread, table

FILE = "phase-shift-rate"
FEDAVG, SERVER, ALL, LONGER = LABELS = (
    "FedAvg",
    "4 phases",
    "4 phases, had all uploaded",
    "FedAvg as 4",
)
EPOCHS = dict.fromkeys(LABELS, 8.0) | {LONGER: 12.8}  # of a round
DATA = ("Fashion-MNIST", "MNIST")
SHARES = (0.95, 0.99)  # of FedAvg's best, the target
SHOWN = (3, 8, 14, 15)  # rounds


def curve(run: Line) -> list[float]:
    """Accuracy in each round."""
    return list(run["curve"]["global"])


def sent(run: Line, rounds: int) -> float:
    """Bytes of so many rounds, up and down; of phases every quarter of the uploads."""
    of = len(curve(run))
    down, up = run["bytes_down"] / of, run["bytes_up"]
    if run["label"] not in (SERVER, ALL):
        return rounds * (down + up / of)
    last = 3 if run["label"] == ALL or rounds == of else 0  # in which the other groups upload
    return rounds * down + (rounds + last) * up / (of + 3)


def along() -> str:
    """Accuracy on the way, and its difference to FedAvg's."""
    rows = []
    for data in DATA:
        base = [curve(x) for x in runs(FILE, condition=data, label=FEDAVG)]
        told = [spread([c[r - 1] for c in base]) for r in SHOWN]
        rows.append([data, FEDAVG, *told, spread([float(np.mean(c)) for c in base])])
        for label in (SERVER, ALL):
            some = [curve(x) for x in runs(FILE, condition=data, label=label)]
            pairs = [([c[r - 1] for c in some], [c[r - 1] for c in base]) for r in SHOWN]
            pairs.append(([float(np.mean(c)) for c in some], [float(np.mean(c)) for c in base]))
            rows.append([data, label, *(difference(paired(*pair)) for pair in pairs)])
    head = ["data", "model", *(f"round {r}" for r in SHOWN), "mean of all 15"]
    return table(head, rows, left=2)


def until() -> str:
    """Epochs and bytes to a target, and their ratio to FedAvg's by the product's statistics."""
    rows = []
    for share in SHARES:
        rounds, reached, size = _spent(share)
        epochs = rounds * np.array([EPOCHS[label] for label in LABELS])[None, :, None]
        found = [speeds(used, reached, 0) for used in (epochs, size)]
        for i, data in enumerate(DATA):
            few = ["" if r.all() else f" ({int(r.sum())} of {r.size} do)" for r in reached[i]]
            for k, label in enumerate(LABELS):
                told = []
                for used, judged in zip((epochs, size / 1e6), found, strict=True):
                    told.append(number(float(used[i, k].mean()), 0) + few[k])
                    ends = judged.ratio[i, k], judged.low[i, k], judged.high[i, k]
                    told.append(_ratio(*ends) if k else "–")
                rows.append([data, f"{100 * share:.0f} %", label, *told])
    head = ["data", "of FedAvg's best", "model", "epochs", "ratio", "MB", "ratio of bytes"]
    return table(head, rows, left=3)


def _spent(share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rounds, whether they reached the target, bytes) by data, model and seed."""
    cells: list[list[Sequence[tuple[int, bool, float]]]] = []
    for data in DATA:
        base = runs(FILE, condition=data, label=FEDAVG)
        goals = {x["seed"]: target(max(curve(x)), share=share) for x in base}
        some = [runs(FILE, condition=data, label=label) for label in LABELS]
        cells.append([[_first(x, goals[x["seed"]]) for x in group] for group in some])
    rounds, reached, size = np.moveaxis(np.array(cells, float), -1, 0)
    return rounds, reached == 1, size


def _first(run: Line, goal: float) -> tuple[int, bool, float]:
    """The first round as good as the goal, or all."""
    there = [r for r, v in enumerate(curve(run), 1) if v >= goal]
    rounds = there[0] if there else len(curve(run))
    return rounds, bool(there), sent(run, rounds)


def _ratio(middle: float, low: float, high: float) -> str:
    """With its interval, which is open where a run missed the target; 1.00 is one."""
    marks = {(False, False): "", (False, True): "≥ ", (True, False): "≤ ", (True, True): "≈ "}
    bound = marks[bool(np.isnan(low)), bool(np.isnan(high))]
    told = [
        "…" if np.isnan(v) else number(v, 3 if 0 < abs(v - 1) < 0.005 else 2)
        for v in (middle, low, high)
    ]
    return f"{bound}{told[0]} [{told[1]}, {told[2]}]"
