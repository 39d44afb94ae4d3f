"""Seconds of all rounds of short runs, beside a bare PyTorch loop with as many rounds.

    python benchmarks/short_runs.py [--only NAME ...] [--rounds 5 20 50 100] [--repeat 3]
        [--no-compiler]

What a user gets from ``unalike.train`` with default settings, tracing included, evaluation not.
Every run has a process of its own. Processor time, so that a busy machine does not matter; the bare
loop has one thread. What PyTorch imports for the first optimizer and the first gradient of many
models is loaded before, for both. Random data; medians.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import engines
import numpy as np
import torch
from engines import Options, Work
from torch.nn.functional import cross_entropy

import unalike
from unalike.engine.course import Course
from unalike.federation.data import TEST, TRAIN, Examples, Federation
from unalike.run.engines import choice

WORK = {
    "logistic-10": engines.WORK["logistic-10"],
    "dense-10": engines.WORK["dense-10"],
    "two": Work("logistic", (13,), 2, 32, 2, 32, 2),
    "table": Work("logistic", (8,), 5, 60, 5, 32, 2),
}
OPTIONS = Options("cpu", 1, "equal")


def bare(work: Work, rounds: int) -> float:
    """Of the loop, after one step of something else."""
    module = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(module.parameters(), engines.LR)
    cross_entropy(module(torch.rand(3, 2)), torch.tensor([0, 1, 1])).backward()
    optimizer.step()
    one = engines.bare(work, OPTIONS)
    begun = time.process_time()
    for t in range(rounds):
        one(t)
    return time.process_time() - begun


def ours(work: Work, rounds: int) -> float:
    """Of the rounds of a run, without their evaluation; every client has two rows for that."""
    x, y = engines.data(work)
    n, seen = work.clients, torch.arange(2 * work.clients) % len(y)
    owner = np.concatenate([np.repeat(np.arange(n), k) for k in (work.each, 2)])
    part = np.repeat([TRAIN, TEST], [len(y), len(seen)])
    examples = Examples(torch.cat([x, x[seen]]), torch.cat([y, y[seen]]), work.classes, work.kind)
    took, advance = list[float](), Course.advance

    def timed(*args: Any) -> Any:
        begun = time.process_time()
        out = advance(*args)
        took.append(time.process_time() - begun)
        return out

    Course.advance = timed  # type: ignore[method-assign]
    unalike.train(
        Federation(examples, owner, part, n),
        {"name": work.model, **work.settings},
        rounds=rounds,
        local={"lr": engines.LR, "batch_size": work.batch},
        participation={"number": work.cohort},
    )
    return sum(took)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", nargs="+", choices=WORK, default=list(WORK), metavar="NAME")
    options.add_argument("--rounds", nargs="+", type=int, default=[5, 20, 50, 100])
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--no-compiler", action="store_true")
    options.add_argument("--side", choices=["bare", "ours"], help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.side:
        if chosen.no_compiler:
            choice.compiler = lambda: None
        side = {"bare": bare, "ours": ours}[chosen.side]
        print(side(WORK[chosen.only[0]], chosen.rounds[0]))
        return
    more = ["--no-compiler"] if chosen.no_compiler else []
    for name in chosen.only:
        for rounds in chosen.rounds:
            took: dict[str, list[float]] = {"bare": [], "ours": []}
            for _ in range(chosen.repeat):
                for side in took:
                    how = ["--only", name, "--rounds", str(rounds), "--side", side, *more]
                    out = subprocess.check_output([sys.executable, __file__, *how], text=True)
                    took[side].append(float(out.split()[-1]))
            found = {side: round(statistics.median(s), 4) for side, s in took.items()}
            ratio = round(found["bare"] / found["ours"], 2)
            print(json.dumps({"work": name, "rounds": rounds, **found, "ratio": ratio}), flush=True)


if __name__ == "__main__":
    main()
