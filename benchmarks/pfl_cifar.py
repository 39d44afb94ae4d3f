"""pfl-research's CIFAR-10 benchmark on one GPU: seconds per round and in all.

    python benchmarks/pfl_cifar.py [--rounds 1500] [--precision tf32]

Its ``benchmarks/image_classification``, ``cifar10_iid``: 1,000 users of 50 images, 50 of them a
round, one epoch in batches of 10, learning rate 0.1, evaluation on 10,000 images every 10 rounds.
Images are random, so nothing is downloaded: speed does not depend on the pixels.
"""

import argparse
import json
import statistics
import time

import torch
from gpu_rounds import WORK, Rounds

from unalike.engine.judging import outputs


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=1500)
    options.add_argument("--every", type=int, default=10, help="rounds between evaluations")
    options.add_argument("--precision", default="tf32", choices=["ieee", "tf32", "bf16"])
    options.add_argument("--no-kernels", action="store_true", help="convolutions by cuDNN")
    chosen = options.parse_args()
    begun = time.perf_counter()
    work = WORK["pfl cifar 50x5x10"]
    one = Rounds(work, precision=chosen.precision, kernels=not chosen.no_kernels, lr=0.1)
    generator = torch.Generator("cuda").manual_seed(1)
    x = torch.rand(10_000, *work.shape, generator=generator, device="cuda")
    y = torch.randint(0, 10, (10_000,), generator=generator, device="cuda")
    owner, noise = torch.zeros(10_000, dtype=torch.long), x.new_zeros(10_000, 0)
    started = time.perf_counter()
    rounds, judged = list[float](), list[float]()
    for t in range(chosen.rounds):
        before = time.perf_counter()
        one(t)
        rounds.append(time.perf_counter() - before)
        if (t + 1) % chosen.every == 0:
            model = one.loop.recipe.algorithm.model(one.state.servers[0], one.loop.noise)
            out = outputs(one.task, model, x, noise)
            found = one.task.judge(out, y, owner, 1)
            judged.append(time.perf_counter() - before - rounds[-1])
    ended = time.perf_counter()
    line = {
        "rounds": chosen.rounds,
        "precision": chosen.precision,
        "kernels": not chosen.no_kernels,
        "start_s": round(started - begun, 2),
        "first_round_s": round(rounds[0], 2),
        "round_ms": round(statistics.median(rounds) * 1e3, 2),
        "evaluation_ms": round(statistics.median(judged) * 1e3, 2) if judged else None,
        "total_s": round(ended - started, 2),
        "accuracy": round(float(found.metrics["accuracy"][0]), 3) if judged else None,
        "GiB": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
