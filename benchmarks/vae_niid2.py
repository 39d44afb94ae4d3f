"""Latent-space weights on NIID-2 Fashion-MNIST: does weighting by a VAE's latents help the VAE?

    UNALIKE_DATA=FOLDER python benchmarks/vae_niid2.py --device cuda --seeds 5 --out vae.jsonl

Six clients: five with two classes each, one unbiased. Stage one is FedAvg (alpha = 0); its final
encoder measures every client once; stage two starts afresh with the fixed weights, for each alpha.
25 rounds, 10 epochs, batches of 64, Adam 1e-3, beta 10; inputs standardised although the decoder
ends in a sigmoid, and the test loss is R + KL with a sampled z: only so are losses comparable with
the published ones (FedAvg 478, alpha 0.9 447 after 25 rounds). Needs torch, numpy, scipy,
pydantic, safetensors.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from unalike.engine.course import Course
from unalike.engine.evaluation.server import Evaluator
from unalike.parts.participation.schedule import Plan, Schedule
from unalike.recipe import Stage
from unalike.run.configuration.config import Config, parse
from unalike.run.experiment.build import assemble, federation, tests
from unalike.run.experiment.live import Experiment
from unalike.run.experiment.task import task
from unalike.run.rounds import Step, rounds


def settings(chosen: argparse.Namespace, seed: int, method: dict) -> Config:
    clients = {"niid2": {"name": "niid2"}, "niid1": {"name": "niid1"}}[chosen.partition]
    return parse(
        {
            "seed": seed,
            "rounds": chosen.rounds,
            "data": {"name": chosen.data, "normalise": True},
            "partition": clients,
            "split": {"validation": 0.0, "test": 0.0},  # the test set is the dataset's own
            "model": {"name": "vae", "beta": chosen.beta, "init": chosen.init},
            "method": method,
            "local": {
                "epochs": chosen.epochs,
                "batch_size": chosen.batch_size,
                "optimizer": "adam",
                "lr": chosen.lr,
            },
            "evaluation": {"every": 1},
            "engine": {"kind": chosen.engine, "device": chosen.device, "tf32": chosen.tf32},
        }
    )


def weights(chosen: argparse.Namespace, alpha: float, encoder: Path) -> dict:
    """The method of stage two: weights from the distances that an encoder measures."""
    return {
        "name": "latent_disco",
        "a": alpha,
        "b": chosen.b,
        "embed": chosen.embed,
        "on_all_zero": chosen.on_all_zero,
        "encoder": str(encoder),
    }


@dataclass(frozen=True)
class Heard:
    """A schedule in which clients without a weight answer with what they were sent."""

    schedule: Schedule
    weighted: tuple[bool, ...]

    def plan(self, t: int, span: range, n: int, key: torch.Tensor) -> Plan:
        """As the schedule has it, but for their epochs."""
        plan = self.schedule.plan(t, span, n, key)
        return plan._replace(epochs=plan.epochs * torch.tensor(self.weighted)[plan.ids])


def heard(made: Experiment, chosen: argparse.Namespace, alpha: float) -> Experiment:
    """Only clients with a weight compute: what the others find would be multiplied by zero."""
    recipe, sizes = made.recipe, made.simulation.clients.sizes
    distances = made.simulation.survey(recipe.mixing.survey)["latent"][:, 0]
    weighted = sizes / sizes.sum() - alpha * distances + chosen.b > 0
    if not weighted.any():  # then sizes decide
        return made
    schedule = Heard(recipe.schedule, tuple(weighted.tolist()))
    before, seed = made.course, made.config.seed
    stages = (Stage(replace(recipe, schedule=schedule), before.rounds),)
    course = Course(stages, before.transport, seed, before.guard, before.w)
    judge = Evaluator(course, tests(made.federation, made.simulation.device), seed)
    return replace(made, course=course, evaluator=judge)


def run(made: Experiment, see: Callable[[Step], None] = lambda step: None) -> tuple[dict, dict]:
    """(what is recorded, the final model); ``see`` is told of every round and may end the run."""
    begun, losses, sent, notes = time.perf_counter(), [], 0, 0
    for step in rounds(made):
        record = step.record
        found = record["metrics"]["global"]
        losses.append({name: round(found[name]["mean"], 4) for name in found})
        sent += sum(record[k] for k in ("bytes_down", "bytes_up", "bytes_across"))
        notes += bool(record["notes"])
        if sys.stderr.isatty():
            print(f"\rround {step.round}: {losses[-1]['loss']:.2f} ", end="", file=sys.stderr)
        see(step)
    distances = step.progress.state.survey.get("latent")
    line = {
        "weights": record["weights"],
        "nonzero": sum(w > 0 for w in record["weights"]),
        "fallback_rounds": notes,
        "d": None if distances is None else [round(float(d), 6) for d in distances[:, 0]],
        "loss": [x["loss"] for x in losses],
        "last": losses[-1],
        "bytes": sent,
        "seconds": round(time.perf_counter() - begun, 1),
    }
    return line, made.course.model(step.progress)


def stage_one(
    made: Experiment, place: Path, see: Callable[[Step], None] = lambda step: None
) -> dict:
    """Plain averaging; its encoder stays in a file, from which other alphas can follow."""
    if place.exists():
        with safe_open(place, "pt") as kept:
            return json.loads(kept.metadata()["line"])
    line, model = run(made, see)
    encoder = {k: v.cpu().contiguous() for k, v in model.items() if k.startswith("encoder.")}
    save_file(encoder, place, {"line": json.dumps(line)})
    return line


def options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", default="vae_niid2.jsonl", help="JSON lines, one a run; appended")
    options.add_argument("--data", default="fashion_mnist", choices=["fashion_mnist", "mnist"])
    options.add_argument("--partition", default="niid2", choices=["niid2", "niid1"])
    options.add_argument("--alphas", type=float, nargs="+", default=[0.0, 0.1, 0.5, 0.9])
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--first-seed", type=int, default=0)
    options.add_argument("--rounds", type=int, default=25)
    options.add_argument("--epochs", type=float, default=10.0)
    options.add_argument("--batch-size", type=int, default=64)
    options.add_argument("--lr", type=float, default=1e-3)
    options.add_argument("--beta", type=float, default=10.0)
    options.add_argument("--b", type=float, default=0.0)
    options.add_argument("--embed", default="sample", choices=["sample", "mean"])
    options.add_argument("--on-all-zero", default="size", choices=["size", "one_hot_min_d"])
    options.add_argument(
        "--heard", action="store_true", help="compute only the clients that have a weight"
    )
    options.add_argument("--keep", help="folder for encoders of stage one, used again if there")
    options.add_argument("--init", default="torch", choices=["torch", "glorot"])
    options.add_argument("--tf32", action="store_true", help="products of three digits on a GPU")
    options.add_argument("--device", default="cpu")
    options.add_argument("--engine", default="auto", choices=["auto", "sequential", "vectorized"])
    return options


def main() -> None:
    chosen, lines = options().parse_args(), list[dict]()
    with Path(chosen.out).open("a") as out, tempfile.TemporaryDirectory() as elsewhere:
        for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds):
            config = settings(chosen, seed, {"name": "fedavg"})
            data = federation(config)
            learned = task(config, data.examples)
            name = f"{chosen.data}-{chosen.partition}-{seed}.safetensors"
            encoder = Path(chosen.keep or elsewhere) / name
            first = stage_one(assemble(config, data, learned), encoder)
            for alpha in chosen.alphas:
                again = first
                if alpha > 0:
                    config = settings(chosen, seed, weights(chosen, alpha, encoder))
                    made = assemble(config, data, learned)
                    again, _ = run(heard(made, chosen, alpha) if chosen.heard else made)
                stages = first["bytes"] * (alpha > 0) + again["bytes"]
                about = {"data": chosen.data, "partition": chosen.partition, "beta": chosen.beta}
                line = {**about, "seed": seed, "alpha": alpha, **again, "bytes_of_stages": stages}
                print(json.dumps(line), file=out, flush=True)
                lines.append(line)
                print(
                    f"seed {seed} alpha {alpha:g}: loss {line['loss'][0]:.2f} -> "
                    f"{line['loss'][-1]:.2f}, {line['nonzero']} clients with a weight, "
                    f"{line['seconds']} s",
                    flush=True,
                )
    conclude(lines, chosen)


def conclude(lines: list[dict], chosen: argparse.Namespace) -> None:
    """Means over seeds, and against alpha = 0 seed by seed."""
    base = {line["seed"]: line["loss"] for line in lines if line["alpha"] == 0}
    for alpha in chosen.alphas:
        some = [line for line in lines if line["alpha"] == alpha]
        first, last = ([line["loss"][i] for line in some] for i in (0, -1))
        spread = statistics.stdev(last) if len(last) > 1 else 0.0
        gains = [1 - line["loss"][-1] / base[line["seed"]][-1] for line in some if base]
        gain = f", {100 * statistics.mean(gains):+.2f} % lower than FedAvg" if gains else ""
        print(
            f"alpha {alpha:g}: loss {statistics.mean(first):.2f} -> {statistics.mean(last):.2f} "
            f"± {spread:.2f} over {len(some)} seeds{gain}"
        )
    print(f"torch {torch.__version__} on {chosen.device}; lines in {chosen.out}")


if __name__ == "__main__":
    main()
