"""What clients cost that are registered and take no part: the same run with more and more of them.

    python benchmarks/million.py [--clients 1000 1000000] [--cohort 100]
    python benchmarks/million.py --clients 1000 100000 --method superfed_mm --states disk

Five random examples a client, a perceptron, `unalike run` as a user calls it, each in a process of
its own. Printed: seconds to the first round, seconds a round (median), mebibytes beyond the data,
and what the run folder takes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

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
# Beside the run: when the first round began, and the most memory there was.
RUN = """
import resource, sys, time
begun = time.perf_counter()
from unalike.engine.loop import Loop
advance, first = Loop.advance, []
def timed(self, *given):
    first.append(time.perf_counter() - begun)
    return advance(self, *given)
Loop.advance = timed
from unalike.cli.main import script
sys.argv = ["unalike", "run", sys.argv[1]]
try:
    script()
finally:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"measured {first[0]:.2f} {peak:.0f}")
"""


def measured(
    clients: int, cohort: int, rounds: int, method: str, states: str, place: Path
) -> dict[str, float | int | str]:
    draw, n = np.random.default_rng(0), clients * EACH
    data, folder, file = place / f"{clients}.npz", place / f"run-{clients}", place / "run.toml"
    x = draw.random((n, FEATURES), dtype=np.float32)
    np.savez(data, x=x, y=draw.integers(0, CLASSES, n))
    chosen = {"rounds": rounds, "method": method, "states": states}
    file.write_text(
        CONFIG.format(data=data, clients=clients, cohort=cohort, folder=folder, **chosen)
    )
    called = [sys.executable, "-c", RUN, str(file)]
    said = subprocess.run(called, text=True, capture_output=True, check=True).stdout
    start, peak = map(float, said.splitlines()[-1].split()[1:])
    times = [json.loads(t)["seconds"] for t in (folder / "timing.jsonl").read_text().splitlines()]
    data_mb = (x.nbytes + 8 * n) / 2**20
    return {
        "clients": clients,
        "cohort": cohort,
        "method": method,
        "states": states,
        "start_s": start,
        "round_s": round(statistics.median(times[1:-1]), 4),
        "data_mb": round(data_mb),
        "beyond_data_mb": round(peak - data_mb),
        "folder_mb": round(sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 2**20),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clients", type=int, nargs="+", default=[1000, 1_000_000])
    options.add_argument("--cohort", type=int, default=100)
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--method", default="fedavg")
    options.add_argument("--states", choices=["memory", "disk"], default="memory")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        for clients in asked.clients:
            kind = asked.cohort, asked.rounds, asked.method, asked.states
            found = measured(clients, *kind, Path(place))
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
