"""Seconds a round of unalike and its peers, side by side: they take turns round by round.

    python benchmarks/peers/compare.py --make FOLDER        (environments of the peers, once)
    python benchmarks/peers/compare.py --envs FOLDER [--work W1 W2 W3 W4] [--sizes equal dirichlet]

W1: 100 clients of 600 examples, 10 a round, TwoNN, batches of 10; W2: McMahan's CNN, 100 of 200,
10 a round, batches of 50; W3: W1's network, 1,000 of 60, 100 a round; W4: an LSTM over 80
characters, 100 of 40, 10 a round, batches of 10. One epoch of SGD, evaluation off, the same first
weights. Printed for each peer: the median of the rounds after the first two, how many times as fast
as the bare loop that is, the most memory of all its processes, the seconds from the command until
it was ready for the first round, how long that one took, and by how much the loss fell, relative to
the bare loop: a peer that trains something else is an error.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
OLD = ["numpy==1.26.4", "scipy==1.11.4", "ml_dtypes==0.2.0", "optax==0.1.5", "chex==0.1.7"]
OLD += ["dm-haiku==0.0.10", "flax<0.7.3", "orbax-checkpoint<0.4"]  # of FedJAX's time
PEERS: dict[str, tuple[str, str, list[str]]] = {
    # script, folder of its environment, and what that holds beside NumPy
    "bare": ("bare.py", "", []),
    "unalike": ("unalike_.py", "", []),
    "pfl-research": ("pfl_.py", "pfl", ["torch==2.13.0", "pfl[pytorch]==0.6.0"]),
    "FedLab": ("fedlab_.py", "fedlab", ["torch==2.13.0", "fedlab==1.3.0"]),
    "BlazeFL": ("blazefl_.py", "blazefl", ["torch==2.13.0", "blazefl[contrib]==2.0.3"]),
    "JAX by hand": ("jax_.py", "jax", ["jax==0.10.2", "jaxlib==0.10.2"]),
    "FedJAX": ("fedjax_.py", "fedjax", ["fedjax==0.0.17", "jax==0.4.13", "jaxlib==0.4.13", *OLD]),
    "Flower": ("flower_.py", "flower", ["torch==2.13.0", "flwr[simulation]==1.41.0"]),
}
MODES = {  # ways to use two cores, of peers where none is always the fastest
    "FedLab": ("one process", "two processes"),
    "BlazeFL": ("one process", "two processes"),
    "JAX by hand": ("together", "in turn"),
    "FedJAX": ("jit", "pmap"),
    "Flower": ("run_simulation", "start_simulation"),
}
PYTHON = {"BlazeFL": "python3.12"}  # where the one that runs this is too old
WARM_UP = 2
ALIKE = 0.67, 1.5  # how far the loss may fall, as a share of the bare loop's: cohorts differ


def make(folder: Path, names: list[str]) -> None:
    """One environment for each peer, because their requirements exclude one another."""
    for name in names:
        _, at, packages = PEERS[name]
        if packages:
            python = PYTHON.get(name, sys.executable)
            subprocess.run([python, "-m", "venv", str(folder / at)], check=True)
            pip = folder / at / "bin" / "pip"
            subprocess.run([pip, "install", "-q", "numpy", *packages], check=True)


class Side:
    """A peer's process."""

    def __init__(
        self, name: str, mode: str, folder: Path, work: str, sizes: str, scratch: Path
    ) -> None:
        script, at, _ = PEERS[name]
        python = str(folder / at / "bin" / "python") if at else sys.executable
        self.name, self.mode = name, mode
        self.saved, self.errors = (scratch / f"{name} {mode}.{end}" for end in ("npz", "txt"))
        begun = time.perf_counter()
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [python, str(HERE / script), work, sizes],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MODE": mode},
            )
        self.said()
        self.ready, self.times, self.mb = time.perf_counter() - begun, list[float](), 0.0

    def said(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)  # type: ignore[no-any-return]
        why = self.errors.read_text()[-3000:]
        raise RuntimeError(f"{self.name} ended with status {self.process.wait()}:\n{why}")

    def asked(self, what: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.said()

    def play(self) -> None:
        self.times.append(self.asked("round")["seconds"])
        self.mb = max(self.mb, most_memory(self.process.pid))

    def end(self) -> list[np.ndarray]:
        """Its weights, once it has ended."""
        self.asked(f"save {self.saved}")
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        with np.load(self.saved) as found:
            return [found[name] for name in found.files]


def most_memory(root: int) -> float:
    """Mebibytes: the most that a process and those it started had, each at its own peak."""
    found, parents = dict[int, float](), dict[int, int]()
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        pid = int(lines["Pid"])
        parents[pid] = int(lines["PPid"])
        found[pid] = int(lines.get("VmHWM", "0 kB").split()[0]) / 1024
    mine = {root}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(found.get(pid, 0.0) for pid in mine)


def judge(work: str) -> Callable[[list[np.ndarray] | None], float]:
    """From weights, or the first ones, to the loss of a thousand examples by bare's network."""
    import torch
    from networks import load, network
    from torch.nn.functional import cross_entropy
    from workload import WORK, data

    module = network(WORK[work])
    x, y = (torch.from_numpy(a[:1000]) for a in data(WORK[work]))

    def loss(weights: list[np.ndarray] | None) -> float:
        if weights is not None:
            load(module, weights)
        with torch.no_grad():
            return float(cross_entropy(module(x), y))

    return loss


def measured(work: str, sizes: str, names: list[str], folder: Path, rounds: int) -> list[str]:
    kinds = [(name, mode) for name in names for mode in MODES.get(name, ("",))]
    with tempfile.TemporaryDirectory() as scratch:
        sides = [Side(*kind, folder, work, sizes, Path(scratch)) for kind in kinds]
        for _ in range(WARM_UP + rounds):
            for side in sides:
                side.play()
        loss = judge(work)
        before = loss(None)
        fell = [before - loss(side.end()) for side in sides]
    seconds = [statistics.median(side.times[WARM_UP:]) for side in sides]
    wrong = []
    for side, s, f in zip(sides, seconds, fell, strict=True):
        found = {"work": work, "sizes": sizes, "peer": side.name, "mode": side.mode}
        found |= {"round_s": round(s, 4), "times_bare": round(seconds[0] / s, 2)}
        found |= {"mb": round(side.mb), "ready_s": round(side.ready, 1)}
        found |= {"first_s": round(side.times[0], 2), "fell": round(f / fell[0], 3)}
        print(json.dumps(found), flush=True)
        if not ALIKE[0] < f / fell[0] < ALIKE[1]:
            wrong.append(f"{work} {sizes} {side.name} {side.mode}: {f / fell[0]:.2f}")
    return wrong


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--make", type=Path, metavar="FOLDER")
    options.add_argument("--envs", type=Path, default=Path(), metavar="FOLDER")
    options.add_argument("--work", nargs="+", default=["W1", "W2", "W3", "W4"])
    options.add_argument("--sizes", nargs="+", default=["equal", "dirichlet"])
    options.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS), metavar="PEER")
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    if asked.make:
        make(asked.make, asked.only)
        return
    names = [n for n in PEERS if n in {"bare", *asked.only}]
    wrong = list[str]()
    for work in asked.work:
        for sizes in asked.sizes:
            wrong += measured(work, sizes, names, asked.envs, asked.rounds)
    if wrong:
        raise SystemExit(f"loss fell by another amount than the bare loop's: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
