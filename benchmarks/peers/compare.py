"""Seconds a round of unalike and its peers, side by side: they take turns round by round.

    python benchmarks/peers/compare.py --make FOLDER        (environments of the peers, once)
    python benchmarks/peers/compare.py --envs FOLDER [--work W1 W3] [--sizes equal dirichlet]

W1: 100 clients of 600 examples, 10 a round; W3: 1,000 of 60, 100 a round; TwoNN, batches of 10, one
epoch, evaluation off. Printed for each peer: the median of the rounds after the first two, how many
times as fast as the bare loop that is, the most memory, and the seconds from start to ready.
Flower is timed alone, after the others: its actors would wait busily.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
OLD = ["numpy==1.26.4", "scipy==1.11.4", "ml_dtypes==0.2.0", "optax==0.1.5", "chex==0.1.7"]
OLD += ["dm-haiku==0.0.10", "flax<0.7.3", "orbax-checkpoint<0.4"]  # of FedJAX's time
PEERS = {  # script, and what its environment holds beside NumPy
    "bare": ("bare.py", None),
    "unalike": ("unalike_.py", None),
    "pfl-research": ("pfl_.py", ["torch==2.13.0", "pfl[pytorch]==0.6.0"]),
    "FedLab": ("fedlab_.py", ["torch==2.13.0", "fedlab==1.3.0"]),
    "BlazeFL": ("blazefl_.py", ["torch==2.13.0", "blazefl[contrib]==2.0.3"]),
    "JAX by hand": ("jax_.py", ["jax==0.10.2", "jaxlib"]),
    "FedJAX": ("fedjax_.py", ["fedjax==0.0.17", "jax==0.4.13", "jaxlib==0.4.13", *OLD]),
    "Flower": ("flower_.py", ["torch==2.13.0", "flwr[simulation]==1.41.0"]),
}
FOLDERS = {"pfl-research": "pfl", "FedLab": "fedlab", "JAX by hand": "jax", "Flower": "flower"}
FOLDERS |= {"BlazeFL": "blazefl", "FedJAX": "fedjax"}
PYTHON = {"BlazeFL": "python3.12"}  # where the one that runs this is too old, or too new


def make(folder: Path) -> None:
    """One environment for each peer, because their requirements exclude one another."""
    for name, (_, packages) in PEERS.items():
        if packages:
            at = folder / FOLDERS[name]
            python = PYTHON.get(name, sys.executable)
            subprocess.run([python, "-m", "venv", str(at)], check=True)
            subprocess.run([at / "bin" / "pip", "install", "-q", "numpy", *packages], check=True)


class Side:
    """A peer's process."""

    def __init__(self, name: str, folder: Path, work: str, sizes: str) -> None:
        script, packages = PEERS[name]
        python = str(folder / FOLDERS[name] / "bin" / "python") if packages else sys.executable
        begun = time.perf_counter()
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [python, str(HERE / script), work, sizes],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.said()
        self.ready, self.times, self.mb = time.perf_counter() - begun, list[float](), 0

    def said(self) -> dict[str, float]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)  # type: ignore[no-any-return]
        raise RuntimeError(f"a peer ended with status {self.process.wait()}")

    def play(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        found = self.said()
        self.times.append(found["seconds"])
        self.mb = int(found["mb"])

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measured(work: str, sizes: str, names: list[str], folder: Path, rounds: int) -> None:
    sides = {name: Side(name, folder, work, sizes) for name in names if name != "Flower"}
    for _ in range(rounds + 2):
        for side in sides.values():
            side.play()
    for side in sides.values():
        side.end()
    if "Flower" in names:
        sides["Flower"] = alone = Side("Flower", folder, work, sizes)
        for _ in range(rounds + 2):
            alone.play()
        alone.end()
    bare = statistics.median(sides["bare"].times[2:])
    for name, side in sides.items():
        seconds = statistics.median(side.times[2:])
        found = {"work": work, "sizes": sizes, "peer": name, "round_s": round(seconds, 4)}
        found |= {"times_bare": round(bare / seconds, 2), "mb": side.mb}
        print(json.dumps(found | {"ready_s": round(side.ready, 1)}), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--make", type=Path)
    options.add_argument("--envs", type=Path)
    options.add_argument("--work", nargs="+", default=["W1", "W3"])
    options.add_argument("--sizes", nargs="+", default=["equal", "dirichlet"])
    options.add_argument("--only", nargs="+", default=list(PEERS))
    options.add_argument("--rounds", type=int, default=7)
    asked = options.parse_args()
    if asked.make:
        make(asked.make)
        return
    names = [n for n in PEERS if n in {"bare", *asked.only}]
    for work in asked.work:
        for sizes in asked.sizes:
            measured(work, sizes, names, asked.envs or Path(), asked.rounds)


if __name__ == "__main__":
    main()
