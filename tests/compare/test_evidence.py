"""benchmarks/evidence.py: runs that are stopped and continued, their order, and what is said."""

import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from watched import BENCHMARKS, Asked, jobs

evidence, queue, state = (
    importlib.import_module(name) for name in ("evidence", "evidence_queue", "evidence_state")
)

SETTINGS = """
rounds = {rounds}
data = {{ name = "digits" }}
partition = {{ name = "dirichlet", clients = 6, alpha = 0.5, min_size = 30 }}
model = {{ name = "mlp", hidden = [8] }}
local = {{ epochs = {epochs}, batch_size = 32, lr = 0.1 }}
participation = {{ number = 4 }}
evaluation = {{ every = 5 }}
engine = {{ kind = "vectorized", traced = false }}

[compare]
methods = {methods}
partitions = [{{ label = "digits" }}]
seeds = 2
"""
CLOSE = 2e-4  # of numbers with four and five places, after rounds in single precision


def written(folder, name="alone", rounds=12, epochs=0.5, methods=("scaffold",)):
    """A comparison with two seeds; a client of SCAFFOLD keeps something between rounds."""
    path = folder / f"{name}.toml"
    path.write_text(SETTINGS.format(rounds=rounds, epochs=epochs, methods=json.dumps(methods)))
    return path


def configs(path):
    """The settings of both seeds, as a worker on a core has them."""
    from unalike.compare.specification.spec import load

    return [jobs.replace_engine(cell.config, "cpu") for cell in load(path).cells]


def play(path, folder=None, runs=(0, 1), **how):
    """(what is kept of each run, what was seen of them)."""
    chosen = [configs(path)[i] for i in runs]
    states = [str(folder / str(i)) if folder else "" for i in runs]
    watch = Asked(**how)
    watch.begin(len(chosen))
    return jobs.run(chosen, states, "", watch), watch.seen


def numbers(found):
    """Every number in a line, by its place."""
    if isinstance(found, dict):
        pairs = found.items()
    elif isinstance(found, list):
        pairs = enumerate(found)
    else:
        return {"": found}
    return {f"{k}/{rest}": x for k, of in pairs for rest, x in numbers(of).items()}


def close(found, other):
    """Equal to single precision."""
    assert numbers(found) == pytest.approx(numbers(other), abs=CLOSE)


def test_a_run_that_was_stopped_gives_the_same_line(tmp_path):
    path = written(tmp_path, methods=["scaffold"])
    [whole], _ = play(path, runs=[0])
    [stopped], _ = play(path, tmp_path / "st", runs=[0], stop={0: 5})
    assert stopped == {"stopped": 5}
    assert state.rounds_in(tmp_path / "st" / "0") == 5
    [found], seen = play(path, tmp_path / "st", runs=[0])
    assert [done for _, done in seen] == list(range(5, 13)), "no round is played twice"
    assert found == whole
    assert found["curve"]["round"] == [5, 10, 12], "those before the stop, too"


def test_its_records_are_the_same_to_the_bit(tmp_path):
    """A line rounds; what it is made from does not."""
    path, kept = written(tmp_path), []
    for folder, stops in (("one", [None]), ("two", [3, 8, None])):
        for stop in stops:
            play(path, tmp_path / folder, runs=[0], stop={0: stop})
        kept.append((tmp_path / folder / "0" / "rounds.jsonl").read_bytes())
    assert kept[0] == kept[1]
    assert kept[0].count(b"\n") == 12


def test_a_run_that_crashed_goes_on_from_what_was_saved_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "REST", 0)
    path = written(tmp_path)
    [whole], _ = play(path, runs=[0])
    [crashed], _ = play(path, tmp_path / "st", runs=[0], crash=7, every=0.0)
    assert crashed == {"failed": "MemoryError: "}
    [found], seen = play(path, tmp_path / "st", runs=[0])
    assert seen[0] == (0, 7), "every round was saved"
    assert found == whole


def test_a_checkpoint_takes_a_tenth_of_the_time_at_most(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(state.time, "monotonic", lambda: clock[0])

    def slow(self, t, progress):
        saved.append(t)
        clock[0] += 2.0

    saved = []
    monkeypatch.setattr(state.Checkpoint, "store", slow)
    made = jobs.Watch.see

    def second(self, *about):
        clock[0] += 1.0
        made(self, *about)

    monkeypatch.setattr(jobs.Watch, "see", second)
    play(written(tmp_path, rounds=60), tmp_path / "st", runs=[0], every=5.0)
    assert saved == [5, 25, 45], "five seconds, then ten times the two of a checkpoint"


def test_seeds_side_by_side_go_on_together(tmp_path):
    path = written(tmp_path)
    whole, _ = play(path)
    stopped, _ = play(path, tmp_path / "st", stop={1: 5})
    assert all(4 <= found["stopped"] <= 6 for found in stopped)
    found, seen = play(path, tmp_path / "st")
    assert min(done for _, done in seen) >= 4
    for mine, other in zip(found, whole, strict=True):
        close(mine, other)
    assert numbers(found[0]) != pytest.approx(numbers(found[1]), abs=CLOSE), "seeds differ"


def test_one_of_them_may_be_further_than_the_other(tmp_path):
    path = written(tmp_path)
    whole, _ = play(path)
    play(path, tmp_path / "st", runs=[0], stop={0: 6})
    found, seen = play(path, tmp_path / "st")
    assert [min(done for run, done in seen if run == i) for i in (0, 1)] == [6, 0]
    for mine, other in zip(found, whole, strict=True):
        close(mine, other)


def test_a_seed_that_fails_takes_no_other_with_it(tmp_path):
    path = written(tmp_path)
    whole, _ = play(path)
    play(path, tmp_path / "st", stop={0: 4})
    for place in (tmp_path / "st" / "1" / "checkpoint").glob("*.safetensors"):
        place.write_bytes(place.read_bytes()[:-1] + b"?")
    found, _ = play(path, tmp_path / "st")
    assert re.match("Damaged: .*state.safetensors", found[1]["failed"])
    close(found[0], whole[0])


def test_nor_does_one_that_cannot_be_built(tmp_path):
    path = written(tmp_path)
    whole, _ = play(path, runs=[0])
    two = configs(path)
    two[1].partition.settings["clients"] = 10**6
    watch = Asked()
    watch.begin(2)
    found = jobs.run(two, ["", ""], "", watch)
    assert "failed" in found[1]
    assert found[0] == whole[0]


def test_other_settings_do_not_go_on_from_a_checkpoint(tmp_path):
    play(written(tmp_path), tmp_path / "st", runs=[0], stop={0: 4})
    [found], _ = play(written(tmp_path, epochs=0.7), tmp_path / "st", runs=[0])
    assert re.search("was begun with other settings; restore them, or delete", found["failed"])


def listed(monkeypatch, capsys, *arguments):
    """What ``--list`` says, a job a line."""
    monkeypatch.setattr(sys, "argv", ["evidence.py", *map(str, arguments), "--list"])
    evidence.main()
    return [line.partition(". ")[2] for line in capsys.readouterr().out.splitlines()]


def test_what_is_begun_comes_first(tmp_path, monkeypatch, capsys):
    one, two = (written(tmp_path, name, methods=["fedavg", "scaffold"]) for name in "ab")
    files = one, "then", two, "--later", "a.toml", "--state", tmp_path / "st"
    expected = ["b, digits, fedavg, seed 0", "b, digits, scaffold, seed 0"]
    expected += [text.replace("0", "1") for text in expected]
    expected += [text.replace("b,", "a,") for text in expected]
    assert listed(monkeypatch, capsys, *files) == [f"{text}, core" for text in expected]
    place = tmp_path / "st" / "a" / "cpu" / "scaffold--digits--seed1"
    watch = Asked(stop={0: 3})
    watch.begin(1)
    jobs.run([configs(one)[3]], [str(place)], "", watch)
    begun = "a, digits, scaffold, seed 1"
    first, *others = listed(monkeypatch, capsys, *files)
    assert first == f"{begun}, core, begun: 3 of 12 rounds"
    assert others == [f"{text}, core" for text in expected if text != begun]
    elsewhere = listed(monkeypatch, capsys, *files, "--on-gpu", "a.toml")
    assert not any("begun" in text for text in elsewhere), "a GPU begins anew"


def test_known_runs_are_left_out_and_costs_are_told(tmp_path, monkeypatch, capsys):
    path, out, short = written(tmp_path), tmp_path / "out.jsonl", tmp_path / "short.jsonl"
    assert len(listed(monkeypatch, capsys, path)) == 2
    line = {"file": "alone", "condition": "digits", "label": "scaffold", "seed": 0}
    short.write_text(json.dumps(line) + "\n")
    [left] = listed(monkeypatch, capsys, path, "--known", short)
    assert left == "alone, digits, scaffold, seed 1, core"
    whole = {**line, "file": str(path), "cell": "scaffold--digits--seed0", "on": "cpu"}
    failed = {**whole, "cell": "scaffold--digits--seed1", "failed": "it did", "seconds": 0.0}
    lines = json.dumps({**whole, "seconds": 61.2}), json.dumps(failed)
    out.write_text("\n".join(lines) + "\n")
    [left] = listed(monkeypatch, capsys, path, "--out", out)
    assert left == "alone, digits, scaffold, seed 1, core, 61 s before"


def test_seeds_that_are_far_apart_are_different_jobs():
    kind = {"file": "f.toml", "kind": "f", "gpu": True, "rounds": 100, "state": ""}
    kind |= {"encoder": "", "needs": []}
    done = [0, 41, 40, 0, 90, 3]
    some = [
        {**kind, "cell": str(i), "seed": i, "done": n, "order": (not n, i)}
        for i, n in enumerate(done)
    ]
    assert [job["seeds"] for job in queue.beside(some, 3)] == [[1, 2], [4], [5, 0, 3]]
    assert [job["done"] for job in queue.beside(some, 3)] == [41, 90, 3]
    fresh = [{**job, "done": 0, "order": (True, job["seed"])} for job in some]
    assert [job["seeds"] for job in queue.beside(fresh, 4)] == [[0, 1, 2, 3], [4, 5]]


def test_without_a_checkpoint_no_job_begins_that_would_end_too_late(tmp_path):
    job = {"kind": "k", "gpu": False, "needs": [], "state": ""}
    took = {("k", False): 60.0}
    late = time.time() + 30
    assert queue.Queue([job], tmp_path, late, took).take(False) is None
    assert queue.Queue([job], tmp_path, late, {}).take(False) == job
    kept = {**job, "state": "somewhere"}
    assert queue.Queue([kept], tmp_path, late, took).take(False) == kept


class Answering:
    """A process of the GPU that says what it is told to say."""

    def __init__(self, job, *told):
        self.job, self.told, self.device = job, told, "cuda"

    def answers(self):
        return iter(self.told)


def test_what_found_no_memory_beside_others_is_put_back(tmp_path):
    """Alone on the GPU it has failed."""
    job = {"file": "f.toml", "cell": "a", "kind": "k", "gpu": True, "condition": "", "label": "m"}
    job |= {f"{name}s": [f"{name} {i}" for i in range(3)] for name in ("cell", "state", "encoder")}
    job |= {"seeds": [0, 1, 2], "states": ["", "", ""], "needs": []}
    scarce = {"failed": "OutOfMemoryError: CUDA out of memory."}
    told = [{"run": i, "found": scarce, "seconds": 1.0} for i in (1, 2)]
    told += [{"run": 0, "found": {"last": {}}, "seconds": 2.0}, {"over": "failed"}]
    waiting = queue.Queue([], tmp_path, time.time() + 60, {})
    runner = evidence.Runner(waiting, tmp_path / "out", evidence.argparse.Namespace())
    worker = Answering(job, *told)
    runner.workers = [worker, Answering(job)]
    assert runner.play(worker, job) == "crowded"
    again = waiting.take(gpu=True)
    assert (again["seeds"], again["cells"], again["cell"]) == (
        [1, 2],
        ["cell 1", "cell 2"],
        "cell 1",
    )
    assert [json.loads(x)["seed"] for x in (tmp_path / "out").read_text().splitlines()] == [0]
    runner.workers = [worker]
    assert runner.play(worker, job) == "failed"
    assert waiting.take(gpu=True) is None
    found = [json.loads(x) for x in (tmp_path / "out").read_text().splitlines()]
    assert ["failed" in x for x in found] == [False, True, True, False]


@contextlib.contextmanager
def started(folder, *arguments):
    """The command in a process of its own, whose workers do not outlive the test."""
    command = [sys.executable, BENCHMARKS / "evidence.py", *arguments, "--out", "out.jsonl"]
    with subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def until(running, *patterns):
    """What is said until each of some patterns was met."""
    said, open_ = [], list(patterns)
    while open_ and (line := running.stdout.readline()):
        said.append(line)
        open_ = [pattern for pattern in open_ if not re.search(pattern, line)]
    assert not open_, (open_, said)
    return said


def lines(folder):
    """What the command has written, by file and seed."""
    path = folder / "out.jsonl"
    found = map(json.loads, path.read_text().splitlines() if path.exists() else [])
    return {(Path(x["file"]).stem, x["seed"]): x for x in found}


def test_sigterm_and_another_call(tmp_path):
    """Two seeds in one job, as on a GPU."""
    path = written(tmp_path, "both", rounds=100)
    how = path, "--gpu", 1, "--device", "cpu", "--cpu", 0, "--beside", 2, "--on-gpu", "both"
    how = *how, "--state", "st", "--every", 0.3
    far = r"round [1-9]\d* of 100, \d+ s, about \d+ s left"
    with started(tmp_path, *how) as running:
        until(running, rf"\d s: both, digits, scaffold, seeds 0, 1: {far}")
        running.send_signal(signal.SIGTERM)
        said = running.communicate(timeout=60)[0]
        assert running.returncode == 0, said
    saved = r"seed (\d): stopped after round [1-9]\d*, saved in st/both/cpu/"
    assert sorted(re.findall(saved, said)) == ["0", "1"]
    assert lines(tmp_path) == {}
    with started(tmp_path, *how) as running:
        said = running.communicate(timeout=120)[0]
    assert said.startswith("1 job, 1 of them begun\n")
    assert said.endswith("1 of 1 job finished\n")
    found = lines(tmp_path)
    for seed, whole in enumerate(play(path)[0]):
        close({k: found["both", seed][k] for k in whole}, whole)
        assert found["both", seed]["beside"] == 2
    assert not [path for path in (tmp_path / "st").rglob("*") if path.is_file()], "all is done"


def test_a_process_that_nobody_waits_for_saves_and_ends(tmp_path):
    path, place = written(tmp_path, rounds=100), tmp_path / "st" / "alone" / "cpu"
    with started(tmp_path, path, "--state", "st", "--every", 0.2, "--grace", 0) as running:
        until(running, r": round \d+ of 100")
        running.send_signal(signal.SIGTERM)
        said = running.communicate(timeout=30)[0]
        assert running.returncode == 1, said
    gone(int(re.search(r"process (\d+) ends by itself after its round", said)[1]))
    assert lines(tmp_path) == {}
    place = place.joinpath("scaffold--digits--seed0").rename(tmp_path / "0")  # another machine
    assert 1 <= (done := state.rounds_in(place)) < 100
    [whole], _ = play(path, runs=[0])
    [found], seen = play(path, tmp_path, runs=[0])
    assert seen[0] == (0, done)
    assert found == whole


def gone(process):
    """Wait for the end of a process that is nobody's child."""
    deadline = time.monotonic() + 60
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_second_signal_ends_at_once(tmp_path):
    path = written(tmp_path, rounds=2, epochs=10_000.0)  # a round takes half a minute
    with started(tmp_path, path, "--state", "st", "--every", 0.2) as running:
        until(running, r": round 0 of 2")
        children = Path(f"/proc/{running.pid}/task").glob("*/children")
        worker = next(int(text) for path in children if (text := path.read_text()))
        running.send_signal(signal.SIGTERM)
        until(running, "stopping: 1 job under way")
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=20)
        assert running.returncode == 1
    gone(worker)
