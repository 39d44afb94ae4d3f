"""Which way of computing clients is the fastest: measured once, kept, and never asked again."""

import json
from pathlib import Path
from typing import Any

import pytest
from interrupted import DieAfter, Killed

from unalike.federation.data import Federation
from unalike.run.autotuning import cache, trials
from unalike.run.autotuning.trials import Part, candidates, fastest, part, race, settled, timed
from unalike.run.configuration.config import Config, parse
from unalike.run.execute import resume, start
from unalike.run.experiment.build import federation
from unalike.run.experiment.task import task
from unalike.run.folder.records import read_json
from unalike.tasks import Task

RAW: dict[str, Any] = {
    "rounds": 6,
    "data": {"name": "digits"},
    "partition": {"name": "iid", "clients": 6},
    "model": {"name": "mlp", "hidden": [8]},
    "run": {"checkpoint_every": 2},
}
GROUPS, SINGLE, PLAIN = "in groups", "one by one", "one by one, untraced"
OPAQUE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.last = nn.Linear(64, classes)

    def forward(self, x):
        x = x.flatten(1)
        return self.last(x if x.sum().item() > -1e9 else -x)  # branches on a value
"""


class Clock:
    """Time passes only where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Runner:
    """Takes so many seconds for a turn, one after the other."""

    def __init__(self, clock: Clock, *seconds: float) -> None:
        self.clock, self.seconds, self.calls = clock, seconds, 0

    def __call__(self) -> None:
        self.clock.now += self.seconds[min(self.calls, len(self.seconds) - 1)]
        self.calls += 1


@pytest.fixture(autouse=True)
def cache_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_here", {})
    return tmp_path / "cache" / "unalike" / "engines.json"


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run is long enough."""
    monkeypatch.setattr(trials, "MANY", 1)


def parts(**changes: Any) -> tuple[Config, Federation, Task]:
    """What is settled."""
    config = parse(RAW | changes)
    data = federation(config)
    return config, data, task(config, data.examples)


def says(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> list[list[str]]:
    """Measurements find these seconds; the list tells what was asked."""
    asked: list[list[str]] = []

    def found(trials: dict[str, Any], clock: Any) -> dict[str, float]:
        asked.append(list(trials))
        return dict(zip(trials, seconds, strict=True))

    monkeypatch.setattr(trials, "race", found)
    return asked


def test_the_least_of_several_turns() -> None:
    clock = Clock()
    a, b = Runner(clock, 0.05, 0.02, 0.03), Runner(clock, 0.06)
    found = timed({"a": a, "b": b}, clock)
    assert found == pytest.approx({"a": 0.02, "b": 0.06})
    assert (a.calls, b.calls) == (2, 2)  # b took more than twice as long, so it dropped out


def test_patience_ends() -> None:
    clock = Clock()
    a, b = Runner(clock, 0.30), Runner(clock, 0.31)
    timed({"a": a, "b": b}, clock)
    assert a.calls == b.calls == 2  # after two turns more than a second is over
    a, b = Runner(clock, 0.001), Runner(clock, 0.001)
    timed({"a": a, "b": b}, clock)
    assert a.calls == trials.TURNS


def test_the_rule_stays_unless_another_is_clearly_faster() -> None:
    assert fastest({GROUPS: 1.0, SINGLE: 0.91, PLAIN: 3.0}) == GROUPS
    assert fastest({GROUPS: 1.0, SINGLE: 0.89, PLAIN: 3.0}) == SINGLE


def test_a_turn_is_a_part_of_a_round() -> None:
    assert part(0.15 / 600, 2, 10, 60.0) == Part(10, 1.0)
    assert part(0.15 / 300, 2, 10, 60.0) == Part(5, 1.0)  # clients are left out first
    assert part(0.01, 2, 10, 1000.0) == Part(4, 0.004)  # then steps, but for four


def test_work_that_takes_too_long_is_not_measured() -> None:
    clock = Clock()

    def work(some: Part) -> None:
        clock.now += 0.1 * some.clients * some.share * 100

    trial = trials.Trial(work, 10, 100.0, 4)
    assert race({GROUPS: trial, SINGLE: trial}, clock) is None  # two steps of each take 0.8 s
    quick = trial._replace(workers=1)
    assert race({GROUPS: quick, SINGLE: quick}, clock) is not None


def test_what_is_tried(long: None, tmp_path: Path) -> None:
    assert list(candidates(*parts())) == [GROUPS, SINGLE, PLAIN]
    assert candidates(*parts())[SINGLE] == {"kind": "sequential", "traced": True}
    untraced = {"traced": False}
    assert list(candidates(*parts(engine=untraced))) == [GROUPS, SINGLE]
    cnn = {"name": "mcmahan_cnn"}
    ways = candidates(*parts(model=cnn, engine=untraced, data={"name": "digits"}))
    assert list(ways) == [SINGLE, GROUPS]  # the rule's comes first
    (tmp_path / "net.py").write_text(OPAQUE)
    own = {"name": "module", "file": str(tmp_path / "net.py"), "attribute": "Net"}
    assert list(candidates(*parts(model=own))) == [SINGLE]  # nothing to choose from
    monkey = pytest.MonkeyPatch()
    with monkey.context() as m:
        m.setattr(trials, "cores", lambda: 8)
        ways = candidates(*parts())
        assert ways[f"{GROUPS}, half the workers"] == {**ways[GROUPS], "workers": 4}


@pytest.mark.parametrize(
    "engine", [{"kind": "vectorized"}, {"kind": "sequential"}, {"measure": False}]
)
def test_what_is_set_is_not_measured(engine: dict[str, Any], long: None) -> None:
    config, data, made = parts(engine=engine)
    assert candidates(config, data, made) == {}
    assert settled(config, data, made) is config


def test_short_runs_keep_the_rule() -> None:
    config, data, made = parts()
    assert candidates(config, data, made) == {}
    assert candidates(config.model_copy(update={"rounds": 10_000}), data, made)


def test_what_was_learned_is_kept(
    long: None, cache_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = says(monkeypatch, 0.2, 0.1, 0.4)
    config = settled(*parts())
    assert (config.engine.kind, config.engine.traced) == ("sequential", True)
    assert config.engine.because == (
        "measured: in groups 200 ms, one by one 100 ms, one by one, untraced 400 ms for a round"
    )
    again = settled(*parts(seed=7))
    assert again.engine.kind == "sequential"
    assert again.engine.because.startswith("known from an earlier measurement: in groups 200 ms")
    assert len(asked) == 1
    settled(*parts(local={"batch_size": 7}))  # another batch, another measurement
    settled(*parts(method={"name": "scaffold"}))
    settled(*parts(model={"name": "mlp", "hidden": [9]}))
    assert len(asked) == 4
    assert len(json.loads(cache_file.read_text())) == 4


DAMAGED = {
    "nothing": "",
    "not JSON": "{",
    "a list": "[1]",
    "text for seconds": '{"KEY": {"in groups": "x", "one by one": 1, "one by one, untraced": 1}}',
    "no time at all": '{"KEY": {"in groups": 0, "one by one": 1, "one by one, untraced": 1}}',
    "endless": '{"KEY": {"in groups": Infinity, "one by one": 1, "one by one, untraced": 1}}',
    "other ways": '{"KEY": {"by magic": 0.1}}',
    "a number": '{"KEY": 3}',
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_cache_is_as_none(
    text: str, long: None, cache_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = says(monkeypatch, 0.2, 0.1, 0.4)
    given = parts()
    cache_file.parent.mkdir(parents=True)
    cache_file.write_text(text.replace("KEY", cache.digest(trials.signature(*given))))
    assert settled(*given).engine.kind == "sequential"
    assert len(asked) == 1


def test_a_cache_that_cannot_be_written(
    long: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    says(monkeypatch, 0.2, 0.1, 0.4)
    assert settled(*parts()).engine.kind == "sequential"


def test_old_entries_go_first(cache_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST", 2)
    for key in "abc":
        cache.remember(key, {"x": 1.0})
    assert list(json.loads(cache_file.read_text())) == ["b", "c"]


def test_a_measurement_that_breaks_keeps_the_rule(
    long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(trials: Any, clock: Any) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(trials, "race", broken)
    config, data, made = parts()
    assert settled(config, data, made) is config


@pytest.mark.parametrize("then", ["deleted", "poisoned"])
def test_a_resumed_run_computes_as_it_began(
    then: str, long: None, cache_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, 0.2, 0.1, 0.4)
    whole = start(parse(RAW | {"run": {**RAW["run"], "folder": str(tmp_path / "whole")}}))
    facts = read_json(whole / "skew.json")
    assert facts["engine"] == "sequential"
    assert "one by one 100 ms" in facts["engine_because"]
    assert read_json(whole / "config.json")["engine"]["kind"] == "sequential"
    cache_file.unlink()
    cache._here.clear()
    with pytest.raises(Killed):
        start(parse(RAW | {"run": {**RAW["run"], "folder": str(tmp_path / "cut")}}), DieAfter(3))
    if then == "deleted":
        cache_file.unlink()
    else:
        found = json.loads(cache_file.read_text())
        cache_file.write_text(json.dumps({k: {**v, GROUPS: 1e-6} for k, v in found.items()}))
    cache._here.clear()
    asked = says(monkeypatch, 0.001, 0.1, 0.4)  # now groups would win
    cut = resume(tmp_path / "cut")
    assert asked == []
    for name in ("rounds.jsonl", "clients.jsonl", "model.safetensors", "skew.json"):
        assert (whole / name).read_bytes() == (cut / name).read_bytes(), name
    repeated = parse(read_json(whole / "config.json"))
    run = repeated.run.model_copy(update={"folder": str(tmp_path / "again")})
    again = start(repeated.model_copy(update={"run": run}))
    assert asked == []
    assert (again / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_cells_of_a_kind_are_computed_alike(
    long: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from comparisons import run_here, tiny

    from unalike.compare.execution import folder as place
    from unalike.compare.execution.conduct import ready

    asked = says(monkeypatch, 0.2, 0.1, 0.4)
    made = tiny('methods = ["fedavg", "scaffold"]\nseeds = 2')
    with place.held(made, tmp_path / "a", "", lambda new: ready(new, tmp_path / "a")) as placed:
        assert len(asked) == 2  # once for each method, in the parent
        says(monkeypatch, 0.001, 0.1, 0.4)
        (tmp_path / "cache" / "unalike" / "engines.json").unlink()
        run_here(placed, tmp_path / "a")
    for cell in placed.cells:
        facts = read_json(tmp_path / "a" / cell.folder / "skew.json")
        assert facts["engine"] == "sequential"
        assert facts["engine_because"].startswith("measured: in groups 200 ms")
    assert len(asked) == 2
    known = place.read(tmp_path / "a")
    assert ready(known, tmp_path / "a").engines == placed.engines


def test_a_real_measurement(long: None, cache_file: Path) -> None:
    """Every way computes; which one is the fastest is the machine's to say."""
    config = settled(*parts())
    assert config.engine.kind in ("sequential", "vectorized")
    (seconds,) = json.loads(cache_file.read_text()).values()
    assert sorted(seconds) == sorted([GROUPS, SINGLE, PLAIN])
    assert all(s > 0 for s in seconds.values())
