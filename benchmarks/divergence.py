"""How far FedAvg's weights are from those of pooled training, over skew and the length of rounds.

    UNALIKE_DATA=FOLDER python benchmarks/divergence.py --out docs/results/divergence.jsonl

The quantity of equation 4.1 of the thesis on EMD, which is Zhao et al.'s: the distance of the
averaged model from one that took as many steps from the same start on all rows together, in
lengths of that model. K = 20, 16 epochs in all, so 16 rounds of one, 4 of 4 or one of 16. A pooled
step sees K batches at once.
"""

import argparse
import json
from pathlib import Path

from evidence_jobs import federation
from evidence_lines import digits

from unalike.run.configuration.config import Config, parse
from unalike.run.experiment.build import Experiment, assemble, task
from unalike.run.rounds import Step, rounds

CLIENTS, EPOCHS, BATCH = 20, 16, 16
EMDS = {0.0: {"name": "iid", "clients": CLIENTS}}
EMDS |= {
    emd: {"name": "limit_label", "clients": CLIENTS, "t": 2, "f": emd / 1.6}
    for emd in (0.4, 0.8, 1.2, 1.6)
}


def config(emd: float, epochs: int, seed: int, method: str = "fedavg") -> Config:
    """One run of the study."""
    batch = BATCH * (CLIENTS if method == "pooled" else 1)
    return parse(
        {
            "seed": seed,
            "rounds": EPOCHS // epochs,
            "data": {"name": "fashion_mnist"},
            "model": {"name": "mlp", "init": "torch"},
            "partition": EMDS[emd],
            "split": {"validation": 0.0, "test": 0.8},
            "local": {"epochs": epochs, "batch_size": batch, "lr": 5e-3, "momentum": 0.9},
            "evaluation": {"every": EPOCHS // epochs},
            "method": {"name": method},
        }
    )


def made(chosen: Config) -> Experiment:
    """A run that has not begun."""
    dealt = federation(chosen, "")
    return assemble(chosen, dealt, task(chosen, dealt.examples))


def last(experiment: Experiment) -> Step:
    """The last round of a run."""
    *_, step = rounds(experiment)
    return step


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--out", default="divergence.jsonl", help="JSON lines; appended")
    asked = options.parse_args()
    for seed in range(asked.seeds):
        for emd in EMDS:
            for epochs in (1, 4, 16):
                # Pooled rows are those of this partition, and rounds as long: momentum starts anew.
                pooled = made(config(emd, epochs, seed, "pooled"))
                end = last(pooled).progress.state
                reference = pooled.recipe.algorithm.model(end.servers[0], pooled.course.judging)
                experiment = made(config(emd, epochs, seed))
                names = experiment.recipe.algorithm.task.network.weights
                experiment.reference = {n: reference[n] for n in names}
                record = last(experiment).record
                about = {"seed": seed, "emd": emd, "epochs": epochs}
                accuracy = record["metrics"]["global"]["accuracy"]["mean"]
                found = {"divergence": record["divergence"], "accuracy": accuracy}
                with Path(asked.out).open("a", encoding="utf-8") as file:
                    file.write(json.dumps({**about, **digits(found)}) + "\n")


if __name__ == "__main__":
    main()
