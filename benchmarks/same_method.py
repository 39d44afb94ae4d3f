"""How often FedAvg is told apart from itself: real runs on digits, under independent seeds.

python benchmarks/same_method.py --out runs.json           trains them; continues what is there
python benchmarks/same_method.py --out runs.json --table   judges 1,000 comparisons of each size

Every condition is another partition of the digits, and every run a seed of its own. A comparison
of FedAvg with one or with eight copies of itself draws its runs from the 180 of each condition,
none of them twice, and is judged by the very function that judges comparisons, for these rows and
for fresh ones. It errs if it claims anything at all.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from false_alarms import SEED, SPLIT, alarms, table

from unalike.compare.statistics.differences import Design
from unalike.compare.statistics.reuse import Reuse, resplit

CONDITIONS = [
    {"name": "iid"},
    *({"name": "dirichlet", "alpha": a, "min_size": 5} for a in (0.1, 0.3, 1.0, 10.0)),
    *({"name": "limit_label", "t": 2, "f": f} for f in (0.3, 0.6, 0.9)),
    {"name": "shards"},
]
RUNS, COMPARISONS = 180, 1_000
COPIES = {1: "one copy", 8: "eight copies"}
RULES = {"these rows": Reuse(), "fresh rows": resplit(*SPLIT)}


def accuracy(partition: dict[str, object], seed: int) -> float:
    """Mean accuracy on clients' own test rows after a short run."""
    from unalike.run.configuration.config import parse
    from unalike.run.experiment.build import experiment  # judging needs neither

    made = experiment(
        parse(
            {
                "rounds": 3,
                "seed": seed,
                "partition": {**partition, "clients": 5},
                "model": {"name": "logistic"},
                "local": {"lr": 0.2, "batch_size": 64},
                "engine": {"workers": 1},
            }
        )
    )
    state = made.loop.begin(made.w)
    for t in range(made.config.rounds):
        state, _ = made.loop.advance(state, t)
    return float(made.evaluator(state).spread["local"]["accuracy"]["mean"])


def train(out: Path, seconds: float) -> None:
    """Runs until there are enough, or time is up."""
    found = json.loads(out.read_text()) if out.is_file() else [[] for _ in CONDITIONS]
    begun = time.time()
    while min(map(len, found)) < RUNS and time.time() - begun < seconds:
        i = min(range(len(found)), key=lambda i: len(found[i]))
        seed = 10_000 * i + len(found[i])  # conditions share no seeds either
        found[i].append(round(accuracy(CONDITIONS[i], seed), 6))
    out.write_text(json.dumps(found))
    print([len(f) for f in found])


def error(runs: np.ndarray, conditions: int, copies: int, seeds: int, reuse: Reuse) -> float:
    """The share of comparisons that claim something, in per cent."""
    rng = np.random.default_rng(SEED)
    one = (1 + copies) * seeds  # runs of a comparison
    each = runs.shape[1] // one
    drawn = [rng.permuted(runs[:conditions], axis=1) for _ in range(-(-COMPARISONS // each))]
    whole = [x[:, : each * one].reshape(conditions, each, 1 + copies, seeds) for x in drawn]
    x = np.concatenate(whole, 1)[:, :COMPARISONS].transpose(1, 0, 2, 3)
    return alarms(x, Design(reuse=(reuse,) * conditions))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", required=True, help="JSON, the runs of each condition")
    options.add_argument("--seconds", type=float, default=1e9, help="begin no run after them")
    options.add_argument("--table", action="store_true", help="judge what is there")
    chosen = options.parse_args()
    if not chosen.table:
        return train(Path(chosen.out), chosen.seconds)
    runs = np.array([some[:RUNS] for some in json.loads(Path(chosen.out).read_text())])
    rows = {
        f"{counted}, {n} seeds, for {rule}": [
            f"{error(runs, c, copies, n, reuse):.1f}" for c in range(1, 10)
        ]
        for copies, counted in COPIES.items()
        for n in (5, 20)
        for rule, reuse in RULES.items()
    }
    print("## same_method\n")
    table("FedAvg against itself, conditions", [str(c) for c in range(1, 10)], rows)
    return None


if __name__ == "__main__":
    main()
