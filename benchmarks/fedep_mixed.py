"""FedEP where some clients are nearly iid and some are not: against FedAvg and SCAFFOLD.

    UNALIKE_DATA=FOLDER python benchmarks/fedep_mixed.py --device cuda --seeds 3 --out fedep.jsonl

Ten clients with equally many examples and label mixes from Dirichlet(50) and Dirichlet(5, 1 or 0.5)
in the ratios 2:8, 5:5 and 8:2; a perceptron 784-256-128-10; one server. Every method has the same
partition, start, rounds and epochs. Judged on the dataset's own test set (the balanced one) and on
each client's own test rows. Needs torch, numpy, scipy, pydantic.
"""

import argparse
import json
import statistics
import time
from itertools import product
from pathlib import Path

from unalike.run.configuration.config import Config, parse
from unalike.run.experiment.build import assemble, federation, task
from unalike.run.rounds import rounds

METHODS = {
    "fedavg": {"name": "fedavg"},
    "scaffold": {"name": "scaffold"},
    "fedep": {"name": "fedep", "mode": "floor"},
    "fedep-listing": {"name": "fedep", "mode": "listing"},
    "fedep-inverse": {"name": "fedep", "direction": "inverse"},
}
SPLITS = {"2:8": [2, 8], "5:5": [5, 5], "8:2": [8, 2]}
METRICS = ("accuracy", "precision", "recall", "f1", "loss")


def settings(
    chosen: argparse.Namespace, data: str, split: str, alpha: float, seed: int, method: str
) -> Config:
    plain = chosen.optimizer == "sgd" or method == "scaffold"  # which is derived for plain SGD
    return parse(
        {
            "seed": seed,
            "rounds": chosen.rounds,
            "data": {"name": data},
            "partition": {
                "name": "mixed",
                "clients": 10,
                "sizes": SPLITS[split],
                "alphas": [50.0, alpha],
            },
            "split": {"validation": 0.0, "test": chosen.test},
            "model": {"name": "fedep_mlp"},
            "method": METHODS[method],
            "local": {
                "epochs": chosen.epochs,
                "batch_size": chosen.batch_size,
                "optimizer": "sgd" if plain else "adam",
                "lr": chosen.lr if plain else 1e-3,
            },
            "engine": {"kind": chosen.engine, "device": chosen.device},
        }
    )


def run(made) -> dict:
    begun, curve, sent = time.perf_counter(), [], 0
    for step in rounds(made):
        record = step.record
        judged = record["metrics"]
        curve.append(
            {
                "global": round(judged["global"]["accuracy"]["mean"], 5),
                "local": round(judged["local"]["accuracy"]["mean"], 5),
                "local_std": round(judged["local"]["accuracy"]["std"], 5),
                "local_worst": round(judged["local"]["accuracy"]["worst10"], 5),
            }
        )
        sent += sum(record[k] for k in ("bytes_down", "bytes_up", "bytes_across"))
    last = {s: {m: round(judged[s][m]["mean"], 5) for m in METRICS} for s in ("global", "local")}
    return {
        "weights": [round(w, 6) for w in record["weights"]],
        "curve": {name: [point[name] for point in curve] for name in curve[0]},
        "last": last,
        "clients": [round(float(a), 5) for a in step.clients["local"]["accuracy"]],
        "marks": [", ".join(words) for words in made.federation.marks],  # whose accuracy that is
        "bytes": sent,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--out", default="fedep_mixed.jsonl", help="JSON lines, one a run; appended"
    )
    options.add_argument("--data", nargs="+", default=["mnist", "fashion_mnist"])
    options.add_argument("--splits", nargs="+", default=list(SPLITS), choices=list(SPLITS))
    options.add_argument("--alphas", type=float, nargs="+", default=[5.0, 1.0, 0.5])
    options.add_argument("--methods", nargs="+", default=list(METHODS)[:4], choices=list(METHODS))
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--first-seed", type=int, default=0)
    options.add_argument("--rounds", type=int, default=30)
    options.add_argument("--epochs", type=float, default=1.0)
    options.add_argument("--batch-size", type=int, default=32)
    options.add_argument("--optimizer", default="sgd", choices=["sgd", "adam"])
    options.add_argument("--lr", type=float, default=0.05, help="of SGD; Adam takes 1e-3")
    options.add_argument("--test", type=float, default=0.1, help="share of each client's own rows")
    options.add_argument("--device", default="cpu")
    options.add_argument("--engine", default="auto", choices=["auto", "sequential", "vectorized"])
    chosen = options.parse_args()
    lines = []
    with Path(chosen.out).open("a") as out:
        seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
        for data, split, alpha, seed in product(chosen.data, chosen.splits, chosen.alphas, seeds):
            dealt = None
            for method in chosen.methods:
                config = settings(chosen, data, split, alpha, seed, method)
                dealt = dealt or federation(config)
                made = assemble(config, dealt, task(config, dealt.examples))
                about = {"data": data, "split": split, "alpha": alpha, "seed": seed}
                line = {**about, "method": method, **run(made)}
                print(json.dumps(line), file=out, flush=True)
                lines.append(line)
                print(
                    f"{data} {split} alpha {alpha:g} seed {seed} {method}: global "
                    f"{line['last']['global']['accuracy']:.4f}, local "
                    f"{line['last']['local']['accuracy']:.4f}, {line['seconds']} s",
                    flush=True,
                )
    conclude(lines)


def conclude(lines: list[dict]) -> None:
    """Means over seeds, and the first round that has 95 % of FedAvg's best accuracy."""
    settings_ = sorted({(x["data"], x["split"], x["alpha"]) for x in lines})
    for data, split, alpha in settings_:
        here = [x for x in lines if (x["data"], x["split"], x["alpha"]) == (data, split, alpha)]
        goal = {
            x["seed"]: 0.95 * max(x["curve"]["global"]) for x in here if x["method"] == "fedavg"
        }
        for method in dict.fromkeys(x["method"] for x in here):
            some = [x for x in here if x["method"] == method]
            final = [x["last"]["global"]["accuracy"] for x in some]
            recall = statistics.mean(x["last"]["global"]["recall"] for x in some)
            f1 = statistics.mean(x["last"]["global"]["f1"] for x in some)
            worst = statistics.mean(x["curve"]["local_worst"][-1] for x in some)
            reached = [_first(x["curve"]["global"], goal.get(x["seed"])) for x in some]
            spread = statistics.stdev(final) if len(final) > 1 else 0.0
            print(
                f"{data} {split} alpha {alpha:g} {method}: accuracy {statistics.mean(final):.4f} "
                f"± {spread:.4f}, recall {recall:.4f}, F1 {f1:.4f}, worst client {worst:.4f}, "
                f"rounds to 95 % of FedAvg {reached}"
            )


def _first(curve: list[float], goal: float | None) -> int | None:
    if goal is None:
        return None
    return next((t + 1 for t, value in enumerate(curve) if value >= goal), None)


if __name__ == "__main__":
    main()
