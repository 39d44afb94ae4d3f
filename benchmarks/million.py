"""What clients cost that are registered and take no part: the same run with more and more of them.

    python benchmarks/million.py [--clients 1000 1000000] [--cohort 100]
    python benchmarks/million.py --clients 1000 100000 --method superfed_mm --states disk

Five random examples a client, a perceptron, `unalike run` as a user calls it, each in a process of
its own. They take turns round by round, so that whatever else the machine does meets all of them.
Printed: seconds to the first round, seconds a round (median of those between the first and the
last, which is evaluated), how many times as long that is as with the fewest clients, mebibytes
beyond the data, and what the run folder takes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

EACH, FEATURES, CLASSES = 5, 16, 10
CONFIG = """
rounds = {rounds}
data = {{name = "files", path = "{data}"}}
partition = {{name = "iid", clients = {clients}}}
model = {{name = "mlp", hidden = [200, 200]}}
participation = {{number = {cohort}}}
local = {{epochs = 1, batch_size = 2, lr = 0.05}}
evaluation = {{every = {rounds}}}
method = {{name = "{method}"}}
engine = {{states = "{states}"}}
run = {{folder = "{folder}"}}
"""
# Beside the run: each round waits for a line.
RUN = """
import resource, sys, time
begun = time.perf_counter()
from unalike.engine.loop import Loop
advance, out = Loop.advance, sys.stdout
def timed(self, *given):
    print(f"ready {time.perf_counter() - begun:.3f}", file=out, flush=True)
    sys.stdin.readline()
    return advance(self, *given)
Loop.advance = timed
from unalike.cli.main import script
sys.argv = ["unalike", "run", sys.argv[1]]
try:
    script()
finally:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"most {peak:.0f}", file=out, flush=True)
"""


class Side:
    """A run with so many clients."""

    def __init__(self, clients: int, asked: argparse.Namespace, place: Path) -> None:
        draw, n = np.random.default_rng(0), clients * EACH
        data, file = place / f"{clients}.npz", place / f"{clients}.toml"
        self.clients, self.folder = clients, place / f"run-{clients}"
        x = draw.random((n, FEATURES), dtype=np.float32)
        np.savez(data, x=x, y=draw.integers(0, CLASSES, n))
        self.data_mb = (x.nbytes + 8 * n) / 2**20
        kind = {"rounds": asked.rounds, "method": asked.method, "states": asked.states}
        kind |= {"clients": clients, "cohort": asked.cohort}
        file.write_text(CONFIG.format(data=data, folder=self.folder, **kind))
        self.errors = place / f"{clients}.txt"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", RUN, str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.start, self.times = self.said("ready"), list[float]()

    def said(self, word: str) -> float:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(f"{word} "):
                return float(line.split()[1])
        raise RuntimeError(self.errors.read_text()[-2000:])

    def play(self, last: bool) -> None:
        """A round with its records, until the next one waits."""
        assert self.process.stdin is not None
        begun = time.perf_counter()
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        if not last:
            self.said("ready")
            self.times.append(time.perf_counter() - begun)

    def found(self) -> dict[str, Any]:
        """What there is to say once the run is over."""
        peak = self.said("most")
        self.process.wait()
        files = [f for f in self.folder.rglob("*") if f.is_file()]
        return {
            "start_s": round(self.start, 2),
            "round_s": round(statistics.median(self.times[1:]), 4),
            "data_mb": round(self.data_mb),
            "beyond_data_mb": round(peak - self.data_mb),
            "folder_mb": round(sum(f.stat().st_size for f in files) / 2**20),
        }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--clients", type=int, nargs="+", default=[1000, 1_000_000])
    options.add_argument("--cohort", type=int, default=100)
    options.add_argument("--rounds", type=int, default=22)
    options.add_argument("--method", default="fedavg")
    options.add_argument("--states", choices=["memory", "disk"], default="memory")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        sides = [Side(clients, asked, Path(place)) for clients in asked.clients]
        for t in range(asked.rounds):
            for side in sides:
                side.play(last=t == asked.rounds - 1)
        kind = {"cohort": asked.cohort, "method": asked.method, "states": asked.states}
        fewest = 0.0
        for side in sides:
            found = {"clients": side.clients, **kind, **side.found()}
            fewest = fewest or found["round_s"]
            ratio = {"times_fewest": round(found["round_s"] / fewest, 2)}
            print(json.dumps(found | ratio), flush=True)


if __name__ == "__main__":
    main()
