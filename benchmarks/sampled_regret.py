"""AAggFF-D's regret over samples of the clients, beside corollary 3.1 of the dissertation.

    python benchmarks/sampled_regret.py --out docs/results/sampled-regret.jsonl

The corollary: if m = C K of K clients, drawn anew in every round, tell their responses in [0, C],
the regret of the decisions p_t against any fixed p is in expectation

    E[sum_t l_t(p_t) - l_t(p)] <= O(L sqrt(T log K)),   l_t(p) = -log(1 + <p, r_t>),   L = C

with all clients' responses r_t. Theorem 3.2, which it extends, has 2 for the constant. Responses
are given, whoever is sampled, so the rule gets them as they are and not from losses. A line is one
seed: its regret against the best fixed p of its own rounds, which is at least that of the claim.

even      uniform on [0, C], anew for every client and round
levels    uniform on [0, C] for each client, the same in every round
one       the first client's is C, the others' are 0
turns     halves of the clients have C in turn, the others 0
lightest  C for the client with the smallest weight, 0 for the others: it knows p_t, not the sample
two kinds as in "one" in 44 of 100 rounds; in the others the other way round
"""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from unalike import rng
from unalike.algorithms import aaggff_d
from unalike.cohort import Cohort
from unalike.parts.mixing.regret import regret

ROUNDS = (300, 3_000, 30_000)
SIZES = ((20, 1), (20, 2), (20, 10), (100, 10), (10, 8), (10, 10))  # clients, and how many answer
RARE = 11, 25  # in how many of how many rounds only the first client responds

Adversary = Callable[[int, Tensor], Tensor]  # round and decision -> responses in [0, 1]


def adversaries(K: int, draw: np.random.Generator) -> dict[str, Adversary]:
    """What clients respond, in parts of C."""
    levels, one = torch.from_numpy(draw.random(K)), torch.zeros(K, dtype=torch.float64)
    one[0] = 1.0
    half = (torch.arange(K) < K // 2).double()
    return {
        "even": lambda t, p: torch.from_numpy(draw.random(K)),
        "levels": lambda t, p: levels,
        "one": lambda t, p: one,
        "turns": lambda t, p: half if t % 2 else 1 - half,
        "lightest": lambda t, p: torch.nn.functional.one_hot(p.argmin(), K).double(),
        "two kinds": lambda t, p: one if t * RARE[0] % RARE[1] < RARE[0] else 1 - one,
    }


def play(K: int, m: int, name: str, seed: int, rounds: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The decision of each round and the responses that came after it."""
    draw, rule, C = np.random.default_rng((seed, K, m)), aaggff_d.AAggFFD(), m / K
    adversary, state, key = adversaries(K, draw)[name], rule.init(K), rng.stream(seed, "cohort")
    for t in range(rounds):
        r = C * adversary(t, state.p)
        yield state.p, r
        ids = torch.from_numpy(np.sort(draw.choice(K, m, replace=False)))
        some = {"examples": torch.ones(m), "loss": r[ids]}
        _, state, *_ = rule.weights(state, Cohort(t, ids, some, {}, torch.arange(K), key))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--rounds", type=int, nargs="+", default=ROUNDS)
    options.add_argument("--out", default="sampled-regret.jsonl", help="JSON lines; appended")
    asked = options.parse_args()
    torch.set_num_threads(1)
    told = mock.patch.object(aaggff_d, "respond", lambda losses, *_: losses)
    for seed in range(asked.seeds):
        for K, m in SIZES:
            for name in adversaries(K, np.random.default_rng(0)):
                with told:
                    played = list(play(K, m, name, seed, max(asked.rounds)))
                p, r = (torch.stack(column).numpy() for column in zip(*played, strict=True))
                found = {T: round(regret(r[:T], p[:T]), 4) for T in asked.rounds}
                about = {"seed": seed, "clients": K, "sampled": m, "responses": name}
                with Path(asked.out).open("a", encoding="utf-8") as file:
                    file.write(json.dumps({**about, "regret": found}) + "\n")


if __name__ == "__main__":
    main()
