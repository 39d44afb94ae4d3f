"""The runs behind docs/results: comparison files worked off by processes on a GPU and on cores.

    UNALIKE_DATA=FOLDER python benchmarks/evidence.py benchmarks/evidence/*.toml \
        --gpu 6 --cpu 8 --out records.jsonl

A file is what ``unalike compare FILE`` takes, and a cell of it is the same run here as there. Here
one process after the other takes the next cell of any file, whatever it is about, seed by seed, so
that what is finished when time is up is balanced; instead of a folder it leaves one line. A file
that says ``device = "cpu"`` in its [engine] waits for a core, the others for the GPU. ``--vae``
adds the runs of ``vae_niid2.py``, which train each federation's first stage once for all weights.
``--short docs/results/runs.jsonl`` afterwards keeps of the lines what the tables need.
"""

import argparse
import gc
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import zlib
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SPREAD = ("mean", "std", "weighted_mean", "worst10", "min", "max", "gini")
KEPT = ("accuracy", "loss", "auroc", "ece", "mce", "f1", "adversary", "fooled")


def digits(value: Any, places: int = 5) -> Any:
    """Numbers with as many places as a table could need."""
    if isinstance(value, float):
        return round(value, places)
    if isinstance(value, dict):
        return {k: digits(v, places) for k, v in value.items()}
    return [digits(v, places) for v in value] if isinstance(value, list) else value


def line(records: list[dict[str, Any]], last: dict[str, Any], clients: dict[str, Any]) -> dict:
    """What is kept of a run: curves of the mean, everything of the last round, the ledger."""
    judged = [r for r in records if r["metrics"]]
    main = next(m for m in ("accuracy", "loss") if m in next(iter(judged[-1]["metrics"].values())))
    sections = list(judged[-1]["metrics"])
    curve: dict[str, list[Any]] = {"round": [r["round"] for r in judged]}
    for s in sections:
        found = [r["metrics"].get(s, {}).get(main, {}).get("mean") for r in judged]
        curve[s] = digits(found, 4 if main == "accuracy" else 3)
    keep = {
        s: {
            m: {k: v for k, v in of.items() if k in SPREAD}
            for m, of in judged[-1]["metrics"][s].items()
            if m in KEPT
        }
        for s in sections
    }
    return {
        "curve": curve,
        "last": digits(keep),
        "selected": last["selected"] and last["selected"]["round"],
        **{k: last[k] for k in ("bytes_down", "bytes_up", "bytes_across", "parameters_all")},
        "weights": digits(records[-1]["weights"]) if len(records[-1]["weights"]) <= 20 else None,
        "clients": digits(clients, 4),
        **{k: digits(judged[-1][k]) for k in ("fidelity", "consensus") if k in judged[-1]},
    }


def place(data: str) -> str:
    """The file of a stored dataset."""
    return f"{json.loads(data)['name']}-{zlib.crc32(data.encode()):08x}.pickle"


@lru_cache(maxsize=3)
def examples(data: str, folder: str) -> Any:
    """A dataset; where its reader's packages are missing, as another machine has stored it."""
    from unalike.run.build import chosen
    from unalike.run.config import Named

    raw, stored = json.loads(data), Path(folder) / place(data)
    if folder and stored.is_file():
        return pickle.loads(stored.read_bytes())
    return chosen("data", Named(name=raw.pop("name"), settings=raw)).load()


def federation(config: Any, folder: str) -> Any:
    """As ``unalike.run.build`` makes it, around a dataset that is read once."""
    from unalike.federation.build import federate
    from unalike.run.build import chosen

    return federate(
        examples(json.dumps(config.resolved()["data"], sort_keys=True), folder),
        chosen("partition", config.partition),
        [chosen("shift", s) for s in config.shift],
        validation=config.split.validation,
        test=config.split.test,
        new_clients=config.split.new_clients,
        seed=config.seed,
    )


def run(config: Any, folder: str) -> dict[str, Any]:
    """One cell, in memory."""
    from unalike.run.build import assemble, task
    from unalike.run.rounds import conclusion, rounds

    dealt = federation(config, folder)
    made = assemble(config, dealt, task(config, dealt.examples))
    records, clients = [], {}
    for step in rounds(made):
        records.append(step.record)
        if step.clients is not None and dealt.n_clients <= 20:
            clients = {
                s: [float(v) for v in of["accuracy"]]
                for s, of in step.clients.items()
                if isinstance(of, dict) and "accuracy" in of
            }
    if any(clients.values()) and dealt.marks:
        clients["marks"] = [", ".join(words) for words in dealt.marks]
    return line(records, conclusion(made, records), clients)


def vae(job: dict[str, Any], device: str) -> list[dict[str, Any]]:
    """All weights of one federation of the VAE."""
    import tempfile

    import vae_niid2

    from unalike.run.build import assemble, task

    names = ("data", "partition", "seeds", "first_seed", "out", "init", "rounds", "epochs")
    values = {n: job[n] for n in names if n in job}
    chosen = vae_niid2.options().parse_args([])
    for name, value in {**values, "device": device, "tf32": device != "cpu"}.items():
        setattr(chosen, name, value)
    config = vae_niid2.settings(chosen, job["seed"], {"name": "fedavg"})
    dealt = federation(config, "")
    learned, lines = task(config, dealt.examples), []
    with tempfile.TemporaryDirectory() as place:
        encoder = Path(place) / "encoder.safetensors"
        first = vae_niid2.stage_one(assemble(config, dealt, learned), encoder)
        for alpha in job["alphas"]:
            again = first
            if alpha:
                method = vae_niid2.weights(chosen, alpha, encoder)
                config = vae_niid2.settings(chosen, job["seed"], method)
                again, _ = vae_niid2.run(assemble(config, dealt, learned))
            lines.append({"alpha": alpha, **digits(again, 4)})
    return lines


def work(device: str, folder: str) -> None:
    """A process that answers jobs, one a line, until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr
    import torch

    torch.set_num_threads(1)
    sys.path.insert(0, str(HERE))
    from unalike.compare.spec import load

    loaded = lru_cache(maxsize=None)(lambda path: {c.id: c for c in load(path).cells})
    for text in sys.stdin:
        job, begun = json.loads(text), time.perf_counter()
        try:
            if job["file"] == "vae":
                found: Any = {"alphas": vae(job, device)}
            else:
                cell = loaded(job["file"])[job["cell"]]
                engine = replace_engine(cell.config, device)
                found = run(engine, folder)
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}"[:500]}
        gc.collect()
        if device != "cpu":
            torch.cuda.empty_cache()
        found["seconds"] = round(time.perf_counter() - begun, 1)
        print(json.dumps(found), file=answers, flush=True)


def replace_engine(config: Any, device: str) -> Any:
    """The same run on this process's device."""
    return config.model_copy(
        update={"engine": config.engine.model_copy(update={"device": device, "workers": 1})}
    )


class Queue:
    """Jobs in the order of their seeds; one that needs a file that is not there yet waits."""

    def __init__(self, jobs: list[dict[str, Any]], data: Path, until: float) -> None:
        """``until`` is the time by which the last job is to be finished."""
        self.jobs, self.data, self.until = jobs, data, until
        self.lock, self.took = threading.Lock(), dict[str, float]()

    def take(self, gpu: bool) -> dict[str, Any] | None:
        """The next job for a GPU, or for a core."""
        with self.lock:
            for i, job in enumerate(self.jobs):
                if job["gpu"] != gpu or not all((self.data / n).is_file() for n in job["needs"]):
                    continue
                if time.time() + self.took.get(job["kind"], 0.0) < self.until:
                    return self.jobs.pop(i)
        return None

    def done(self, job: dict[str, Any], seconds: float) -> None:
        """What a job of its kind takes is what the next will take."""
        with self.lock:
            self.took[job["kind"]] = max(self.took.get(job["kind"], 0.0), 1.05 * seconds)


def jobs_of(files: list[str], seeds: int, vaes: list[str]) -> list[dict[str, Any]]:
    """All cells, seed by seed; within a seed in the order of the files."""
    from unalike.compare.spec import load

    found = []
    for place, path in enumerate(files):
        cells = load(path).cells
        order = {seed: i for i, seed in enumerate(dict.fromkeys(c.seed for c in cells))}
        for number, c in enumerate(cells):
            needs = {"cifar10": ["cifar10_train.npz", "cifar10_test.npz"]}
            needs |= {n: [f"{n}.npz"] for n in ("mnist", "fashion_mnist")}
            about = {"file": path, "cell": c.id, "label": c.label, "condition": c.condition}
            found.append(
                {
                    **about,
                    "seed": c.seed,
                    "gpu": c.config.engine.device != "cpu",
                    "needs": needs.get(c.config.data.name, []),
                    "kind": f"{path} {c.condition} {c.label}",
                    "order": (5 * order[c.seed] // len(order), place, number),
                }
            )
    for kind, seed in product(vaes, range(seeds)):
        data, partition, init, some = kind.split(":")
        alphas = [float(a) for a in some.split(",")]
        about = {"file": "vae", "data": data, "partition": partition, "init": init}
        found.append(
            {
                **about,
                "alphas": alphas,
                "cell": f"{kind}:{seed}",
                "seed": seed,
                "gpu": True,
                "needs": [f"{data}.npz"],
                "kind": f"vae {kind}",
                "order": (0 if kind == vaes[0] else seed, -1, seed),
            }
        )
    return sorted(found, key=lambda job: job["order"])


def serve(queue: Queue, device: str, folder: str, write: Any) -> None:
    """Feeds one process."""
    command = [sys.executable, __file__, "--worker", device, "--examples", folder]
    process = None
    while True:
        job = queue.take(device != "cpu")
        if job is None:
            if not any(j["gpu"] == (device != "cpu") for j in queue.jobs):
                break
            if time.time() > queue.until - 5:
                break
            time.sleep(1)
            continue
        if process is None or process.poll() is not None:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        found = json.loads(answer) if answer else {"failed": "the process ended", "seconds": 0.0}
        queue.done(job, found["seconds"])
        about = {k: v for k, v in job.items() if k not in ("order", "needs", "kind", "gpu")}
        write({**about, "on": device, **found})
    if process is not None:
        process.stdin.close()
        process.wait()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("files", nargs="*", help="comparisons")
    options.add_argument("--gpu", type=int, default=0, help="processes that share the GPU")
    options.add_argument("--cpu", type=int, default=1, help="processes with a core each")
    options.add_argument("--vae", nargs="*", default=[], help="such as mnist:niid1:torch:0,0.9")
    options.add_argument("--seeds", type=int, default=5, help="of --vae")
    options.add_argument("--seconds", type=float, default=1e9, help="no job ends after them")
    options.add_argument("--out", default="evidence.jsonl", help="JSON lines, one a run; appended")
    options.add_argument("--short", help="only write there what tables need of the lines of --out")
    options.add_argument("--examples", default="", help="folder of stored datasets")
    options.add_argument("--store", nargs="*", help="only store these datasets there")
    options.add_argument("--worker", default="", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.worker:
        return work(chosen.worker, chosen.examples)
    if chosen.short:
        return shorten(Path(chosen.out), Path(chosen.short))
    if chosen.store is not None:
        return store(chosen.files, chosen.store, Path(chosen.examples))
    data = Path(os.environ.get("UNALIKE_DATA", "."))
    jobs, out = jobs_of(chosen.files, chosen.seeds, chosen.vae), Path(chosen.out)
    if out.is_file():
        lines = [json.loads(text) for text in out.read_text().splitlines()]
        known = {(x["file"], x["cell"]) for x in lines if "failed" not in x}
        jobs = [j for j in jobs if (j["file"], j["cell"]) not in known]
    queue, lock = Queue(jobs, data, time.time() + chosen.seconds), threading.Lock()
    total, begun = len(jobs), time.time()
    print(f"{total} jobs", flush=True)

    def write(found: dict[str, Any]) -> None:
        with lock, out.open("a") as file:
            file.write(json.dumps(found) + "\n")
            file.flush()
            what = found.get("failed", "")
            print(
                f"{time.time() - begun:.0f} s, {len(queue.jobs)} left: {Path(found['file']).stem} "
                f"{found['cell']} on {found['on']} in {found['seconds']} s {what}",
                flush=True,
            )

    devices = ["cuda"] * chosen.gpu + ["cpu"] * chosen.cpu
    threads = [
        threading.Thread(target=serve, args=(queue, d, chosen.examples, write)) for d in devices
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{len(queue.jobs)} of {total} jobs were not begun", flush=True)


def shorten(raw: Path, place: Path) -> None:
    """One short line a run, sorted."""
    lines = []
    for text in raw.read_text().splitlines():
        whole = json.loads(text)
        if "failed" in whole:
            continue
        about = {"file": Path(whole["file"]).stem, "seed": whole["seed"], "on": whole["on"]}
        if whole["file"] == "vae":
            about |= {k: whole[k] for k in ("data", "partition", "init")}
            names = ("alpha", "loss", "nonzero", "fallback_rounds", "d")
            lines += [{**about, **{k: a[k] for k in names}} for a in whole["alphas"]]
            continue
        about |= {k: whole[k] for k in ("condition", "label", "bytes_up", "bytes_down")}
        last = {
            s: {
                m: {k: of[m][k] for k in ("mean", "weighted_mean", "min") if k in of[m]}
                for m in ("accuracy", "auroc", "adversary", "fooled")
                if m in of
            }
            for s, of in whole["last"].items()
        }
        if about["file"].startswith("fedep"):
            about["clients"] = {
                k: v for k, v in whole["clients"].items() if k in ("local", "marks")
            }
        if about["file"] not in ("berka", "heart", "lg-fair"):  # whose tables have no curves
            last = {s: {"accuracy": of["accuracy"]} for s, of in last.items()}
            about["curve"] = {k: v for k, v in whole["curve"].items() if k != "validation"}
        lines.append({**about, "last": last})
    lines.sort(key=lambda x: json.dumps([x["file"], x.get("condition"), x.get("label"), x["seed"]]))
    place.write_text("".join(json.dumps(x) + "\n" for x in lines))


def store(files: list[str], names: list[str], folder: Path) -> None:
    """Datasets of the files, for a machine that cannot read them itself."""
    from unalike.compare.spec import load

    folder.mkdir(parents=True, exist_ok=True)
    for path in files:
        for cell in load(path).cells:
            data = json.dumps(cell.config.resolved()["data"], sort_keys=True)
            if cell.config.data.name in names and not (folder / place(data)).exists():
                (folder / place(data)).write_bytes(pickle.dumps(examples(data, "")))


if __name__ == "__main__":
    main()
