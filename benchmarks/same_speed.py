"""How often FedAvg is faster than itself: curves of real runs on digits, under independent seeds.

python benchmarks/same_speed.py --out curves.json           trains them; continues what is there
python benchmarks/same_speed.py --out curves.json --table   judges 1,000 comparisons of each size

As in ``same_method.py``, but of every run the whole curve is kept, so that a comparison also says
how soon each copy reaches 95 % of the baseline's best. Scores and speeds are corrected each by
themselves; a cell has how often scores are claimed to differ, how often speeds are, and how often
either is. Bytes are rounds here, since every copy sends as much in each.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from false_alarms import AT_ONCE, SEED, SPLIT, anything, table

from unalike.compare.statistics.claims import claims
from unalike.compare.statistics.differences import Design
from unalike.compare.statistics.reuse import Reuse, resplit
from unalike.compare.statistics.speed import speeds, target

CONDITIONS = {
    "Dirichlet 0.3": {"name": "dirichlet", "alpha": 0.3, "min_size": 10},
    "iid": {"name": "iid"},
}
RUNS, ROUNDS, COMPARISONS = 200, 20, 1_000
COPIES = {1: "one copy", 8: "eight copies"}
RULES = {"these rows": Reuse(), "fresh rows": resplit(*SPLIT)}
COLUMNS = {**{name: [i] for i, name in enumerate(CONDITIONS)}, "both": [0, 1]}


def curve(partition: dict[str, object], seed: int) -> list[float]:
    """Mean accuracy on clients' own test rows after every round."""
    from unalike.run.configuration.config import parse
    from unalike.run.experiment.build import experiment  # judging needs neither

    made = experiment(
        parse(
            {
                "rounds": ROUNDS,
                "seed": seed,
                "partition": {**partition, "clients": 10},
                "model": {"name": "mlp", "hidden": [32]},
                "local": {"lr": 0.2, "batch_size": 32},
                "participation": {"fraction": 0.5},
                "engine": {"workers": 1},
            }
        )
    )
    state, out = made.loop.begin(made.w), []
    for t in range(ROUNDS):
        state, _ = made.loop.advance(state, t)
        out.append(round(float(made.evaluator(state).spread["local"]["accuracy"]["mean"]), 4))
    return out


def train(out: Path, seconds: float) -> None:
    """Runs until there are enough, or time is up."""
    found = json.loads(out.read_text()) if out.is_file() else [[] for _ in CONDITIONS]
    begun = time.time()
    while min(map(len, found)) < RUNS and time.time() - begun < seconds:
        i = min(range(len(found)), key=lambda i: len(found[i]))
        seed = 50_000 * i + len(found[i])  # conditions share no seeds either
        found[i].append(curve(list(CONDITIONS.values())[i], seed))
    out.write_text(json.dumps(found) + "\n")
    print([len(f) for f in found])


def to_target(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rounds until the target or in all, whether it was reached); the first method is the base.

    Args:
        runs: Curves, shape (..., K, n, rounds).
    """
    goals = np.vectorize(target)(runs[..., :1, :, :].max(-1))[..., None]
    there = runs >= goals
    reached = there.any(-1)
    return np.where(reached, there.argmax(-1) + 1, runs.shape[-1]).astype(float), reached


def errors(runs: np.ndarray, copies: int, seeds: int, reuse: Reuse) -> str:
    """Of a hundred comparisons, those that claim something: of scores / of speeds / of either."""
    rng, c = np.random.default_rng(SEED), len(runs)
    one = (1 + copies) * seeds  # runs of a comparison
    each = runs.shape[1] // one
    drawn = [runs[:, rng.permutation(runs.shape[1])] for _ in range(-(-COMPARISONS // each))]
    whole = [x[:, : each * one].reshape(c, each, 1 + copies, seeds, -1) for x in drawn]
    x = np.concatenate(whole, 1)[:, :COMPARISONS].swapaxes(0, 1)
    design, said = Design(reuse=(reuse,) * c), list[np.ndarray]()
    for i in range(0, len(x), AT_ONCE):
        some = x[i : i + AT_ONCE]
        scores = anything(claims(some[..., -1], 0, design=design))
        outcome = speeds(*to_target(some), 0, design).outcome
        faster = np.isin(outcome, ["win", "loss"]).any((-1, -2))
        said.append(np.stack([scores, faster, scores | faster]))
    return " / ".join(f"{100 * f:.1f}" for f in np.concatenate(said, 1).mean(1))


def line(runs: np.ndarray, copies: int, seeds: int, rule: str) -> list[str]:
    """The cells of a line."""
    return [errors(runs[chosen], copies, seeds, RULES[rule]) for chosen in COLUMNS.values()]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", required=True, help="JSON, the curves of each condition")
    options.add_argument("--seconds", type=float, default=1e9, help="begin no run after them")
    options.add_argument("--table", action="store_true", help="judge what is there")
    chosen = options.parse_args()
    if not chosen.table:
        return train(Path(chosen.out), chosen.seconds)
    runs = np.array([some[:RUNS] for some in json.loads(Path(chosen.out).read_text())])
    rows = {
        f"{counted}, {n} seeds, for {rule}": line(runs, copies, n, rule)
        for copies, counted in COPIES.items()
        for n in (5, 20)
        for rule in RULES
    }
    print("## same_speed\n")
    table("scores / speeds / either", list(COLUMNS), rows)
    return None


if __name__ == "__main__":
    main()
