"""pfl-research's CIFAR-10 benchmark on one GPU: seconds per round and in all, and accuracy.

    UNALIKE_DATA=FOLDER python benchmarks/pfl_cifar.py [--rounds 1500] [--precision tf32]
    UNALIKE_DATA=FOLDER python benchmarks/peers/pfl_cifar_.py [--rounds 1500]     (pfl-research)

Its ``benchmarks/image_classification``, ``cifar10_iid``: 1,000 users of 50 images, 50 of them a
round, one epoch in batches of 10, learning rate 0.1, evaluation on 10,000 images every 10 rounds.
With ``--random`` images are drawn, for a machine without the data: speed does not depend on them.
"""

import argparse
import json
import statistics
import time

import torch
from gpu_rounds import WORK, Rounds

from unalike.engine.evaluation.judging import outputs
from unalike.federation.datasets import DATASETS


def images() -> tuple[torch.Tensor, ...]:
    """Training images and labels, then those for testing; every channel about zero."""
    found = DATASETS["cifar10"]().load()
    assert found.test_x is not None, "CIFAR-10 has a test set of its own"
    mean, std = found.x.mean((0, 2, 3), keepdim=True), found.x.std((0, 2, 3), keepdim=True)
    return (found.x - mean) / std, found.y, (found.test_x - mean) / std, found.test_y


def shuffled(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """In the order in which users get their images."""
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return x[order], y[order]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=1500)
    options.add_argument("--every", type=int, default=10, help="rounds between evaluations")
    options.add_argument("--precision", default="tf32", choices=["ieee", "tf32", "bf16"])
    options.add_argument("--no-kernels", action="store_true", help="convolutions by cuDNN")
    options.add_argument("--device", default="cuda", help="cpu: for the accuracy alone")
    options.add_argument("--random", action="store_true", help="random images")
    chosen = options.parse_args()
    work, real = WORK["pfl cifar 50x5x10"], None
    x, y = torch.rand(10_000, *work.shape), torch.randint(0, 10, (10_000,))
    if not chosen.random:
        *real, x, y = images()
    begun = time.perf_counter()
    device = torch.device(chosen.device)
    how = {"precision": chosen.precision, "kernels": not chosen.no_kernels, "lr": 0.1}
    one = Rounds(work, **how, examples=real and shuffled(*real), device=device)
    x, y = x.to(device), y.to(device)
    owner, noise = torch.zeros(10_000, dtype=torch.long), x.new_zeros(10_000, 0)
    started = time.perf_counter()
    rounds, judged, curve = list[float](), list[float](), dict[int, float]()
    for t in range(chosen.rounds):
        before = time.perf_counter()
        one(t)
        rounds.append(time.perf_counter() - before)
        if (t + 1) % chosen.every == 0:
            model = one.loop.recipe.algorithm.model(one.state.servers[0], one.loop.noise)
            out = outputs(one.task, model, x, noise)
            found = one.task.judge(out, y, owner, 1)
            curve[t + 1] = round(float(found.metrics["accuracy"][0]), 4)
            judged.append(time.perf_counter() - before - rounds[-1])
    ended = time.perf_counter()
    line = {
        "side": "unalike",
        "rounds": chosen.rounds,
        "precision": chosen.precision,
        "kernels": not chosen.no_kernels,
        "start_s": round(started - begun, 2),
        "first_round_s": round(rounds[0], 2),
        "round_ms": round(statistics.median(rounds) * 1e3, 2),
        "evaluation_ms": round(statistics.median(judged) * 1e3, 2) if judged else None,
        "total_s": round(ended - started, 2),
        "accuracy": {t: v for t, v in curve.items() if t % 50 == 0},
        "GiB": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
