"""What a report is made from: the records of a run, of a comparison, or of a folder of runs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from unalike.compare.analysis.results import FAILED, reasons
from unalike.compare.execution import folder as comparison
from unalike.compare.labels import combined, labels
from unalike.compare.specification.spec import Comparison
from unalike.errors import RunError, UnalikeError, no_such
from unalike.metrics.catalogue import main_metric
from unalike.run.configuration.evaluation import EvaluationSettings
from unalike.run.folder.location import data_name
from unalike.run.folder.records import read_json, read_lines
from unalike.run.folder.verify import verify
from unalike.run.summary import summarise

Record = dict[str, Any]

# What does not make runs differ in what they are a repetition of.
NOT_CONDITIONS = (
    "method",
    "plus",
    "seed",
    "data",
    "run",
    "engine",
    "deploy",
    "track",
    "evaluation",
)


@dataclass(frozen=True)
class Run:
    """One run folder as far as it is written; ``data`` is its skew.json."""

    folder: Path
    config: Record
    environment: Record = field(default_factory=dict)
    data: Record = field(default_factory=dict)
    rounds: list[Record] = field(default_factory=list)
    summary: Record | None = None  # of an unfinished run, its summary so far
    finished: bool = False
    seconds: float = 0.0
    deploy: Record = field(default_factory=dict)  # of a deployed run: its sites, or whose it is
    features: Record = field(default_factory=dict)  # of a deployed run: its features.json
    seen: dict[int, Record] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The method and what it is combined with."""
        named = [self.config["method"], *self.config.get("plus", [])]
        return combined(str(n["name"]) for n in named)

    @property
    def evaluated(self) -> list[Record]:
        """The rounds that were evaluated."""
        return [r for r in self.rounds if r["metrics"]]

    def clients(self, at: int) -> Record | None:
        """Every client's metrics after a round, from the line that holds it."""
        path = self.folder / "clients.jsonl"
        if at not in self.seen and path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            mine = next((x for x in reversed(lines) if x.startswith(f'{{"round": {at},')), "")
            with suppress(JSONDecodeError):  # a line that is being written counts next time
                self.seen[at] = json.loads(mine)
        return self.seen.get(at)


@dataclass(frozen=True)
class Place:
    """A run in its place: method and partition by their labels; no run if it has not begun."""

    id: str
    method: str
    partition: str
    seed: int
    run: Run | None
    planned: Record = field(default_factory=dict)  # its configuration before it began

    @property
    def config(self) -> Record:
        """What it runs with: equal budgets may buy other rounds than were planned."""
        return self.planned if self.run is None else self.run.config


@dataclass(frozen=True)
class Study:
    """Runs that are read together."""

    folder: Path
    kind: str  # "run", "runs" or "compare"
    title: str
    question: str
    places: list[Place]
    asked: Comparison | None = None  # if it is one
    failed: Mapping[str, str] = field(default_factory=dict)  # cell -> why
    metric: str = "accuracy"
    section: str = "local"
    statistic: str = "mean"
    chosen: str = "selected"  # or "last"

    @property
    def methods(self) -> list[str]:
        """The methods' labels in their order."""
        return list(dict.fromkeys(p.method for p in self.places))

    @property
    def partitions(self) -> list[str]:
        """The partitions' labels in their order."""
        return list(dict.fromkeys(p.partition for p in self.places))

    @property
    def begun(self) -> list[tuple[Place, Run]]:
        """The places with a run to read."""
        return [(p, p.run) for p in self.places if p.run is not None]

    @property
    def finished(self) -> bool:
        """Whether nothing is left to run."""
        return all(p.run is not None and p.run.finished for p in self.places)


class Reader:
    """Reads a folder again and again, but only what has changed since."""

    def __init__(self, folder: str | Path) -> None:
        """``folder`` holds a run, a comparison, or runs one level below."""
        self.folder = Path(folder)
        self.kept: dict[Path, tuple[Any, Run]] = {}
        self.plan: tuple[Any, Comparison] | None = None  # its configurations take time to check

    def signature(self) -> tuple[Any, ...]:
        """What changes when any record does."""
        return tuple(_stamp(path) for path in (self.folder, *self._folders()))

    def read(self) -> Study:
        """The study as it now stands."""
        if not self.folder.is_dir():
            raise RunError(no_such("folder", self.folder))
        if comparison.is_comparison(self.folder):
            return self._comparison()
        if (self.folder / "config.json").exists():
            return _of_runs(self.folder, "run", [self._run(self.folder)])
        runs = [self._run(path) for path in self._folders()]
        if not runs:
            raise RunError(
                f"'{self.folder}' has no records: give the folder of a run (with config.json), "
                "of a comparison (with compare.json), or one that holds runs."
            )
        return _of_runs(self.folder, "runs", runs)

    def _comparison(self) -> Study:
        stamp = _stamp(self.folder)
        if self.plan is None or self.plan[0] != stamp:
            self.plan = stamp, comparison.read(self.folder)
        asked = self.plan[1]
        places = [
            Place(
                c.id,
                c.label,
                c.condition,
                c.seed,
                self._run(path) if (path / "config.json").exists() else None,
                c.config.resolved(),
            )
            for c in asked.cells
            for path in [self.folder / c.folder]
        ]
        judging = asked.judging
        return Study(
            self.folder,
            "compare",
            judging.title or f"Comparison {self.folder.name}",
            judging.question or "Which method is best on data skewed like these?",
            places,
            asked,
            reasons(self.folder),
            metric=judging.metric,
            section=judging.section,
            statistic=judging.statistic,
            chosen=judging.round,
        )

    def _folders(self) -> list[Path]:
        if comparison.is_comparison(self.folder):
            return sorted(p.parent for p in self.folder.glob("cells/*/config.json"))
        return sorted(p.parent for p in self.folder.glob("*/config.json"))

    def _run(self, folder: Path) -> Run:
        stamp = _stamp(folder)
        if folder not in self.kept or self.kept[folder][0] != stamp:
            self.kept[folder] = stamp, read_run(folder)
        return self.kept[folder][1]


def read_run(folder: Path) -> Run:
    """A run folder, finished or not."""
    config = read_json(folder / "config.json")
    if not isinstance(config, dict) or "method" not in config:
        raise RunError(f"'{folder}/config.json' is not a configuration; restore it from a copy.")
    rounds = read_lines(folder / "rounds.jsonl")
    if not all(isinstance(r, dict) and {"round", "metrics"} <= r.keys() for r in rounds):
        raise RunError(f"'{folder}/rounds.jsonl' is damaged; restore it from a copy.")
    finished = (folder / "summary.json").exists()
    summary = _maybe(folder / "summary.json") if finished else None
    if summary is None and any(r["metrics"] for r in rounds):
        settings = EvaluationSettings(**config.get("evaluation", {}))
        summary = summarise(rounds, settings, _main(rounds))
    deploy = _maybe(folder / "deploy.json")
    if deploy:  # sites bring their own rows: what the recipe says of data is not used
        named = {"name": f"site {deploy['site']}" if "site" in deploy else "sites"}
        config = {**config, "data": named, "partition": named}
    return Run(
        folder,
        config,
        _maybe(folder / "environment.json"),
        _maybe(folder / "skew.json"),
        rounds,
        summary,
        finished,
        sum(map(_seconds, read_lines(folder / "timing.jsonl"))),
        deploy,
        _maybe(folder / "features.json") if deploy else {},
    )


def _main(rounds: Sequence[Record]) -> str:
    """The main metric of the runs that were evaluated."""
    judged = (m for r in rounds for m in (r["metrics"] or {}).values())
    return main_metric(next(judged, ("accuracy",)))


def _seconds(line: Any) -> float:
    """How long a round took; nothing where the line does not say."""
    value = line.get("seconds") if isinstance(line, dict) else None
    return float(value) if isinstance(value, int | float) else 0.0


def _maybe(path: Path) -> Record:
    found = read_json(path) if path.exists() else {}
    if not isinstance(found, dict):
        raise RunError(f"'{path}' is damaged; restore it from a copy.")
    return found


@contextmanager
def intact(folder: Path) -> Iterator[None]:
    """An error that comes from damaged records says which file it is; any other is ours."""
    try:
        yield
    except UnalikeError:
        raise
    except Exception:
        for run in [folder, *(p.parent for p in sorted(folder.glob("**/config.json")))]:
            if (run / "config.json").exists():
                verify(run)
        raise


def _stamp(folder: Path) -> tuple[Any, ...]:
    """Sizes and times of the records, which no change leaves alone."""
    names = (
        "compare.json",
        FAILED,
        "config.json",
        "skew.json",
        "rounds.jsonl",
        "clients.jsonl",
        "summary.json",
        "audit.jsonl",  # of a deployed run, whose rounds may take long
        "refusals.jsonl",
    )
    found = []
    for name in names:
        try:
            stat = (folder / name).stat()
        except FileNotFoundError:
            continue
        found.append((name, stat.st_size, stat.st_mtime_ns))
    return (str(folder), *found)


def _of_runs(folder: Path, kind: str, runs: Sequence[Run]) -> Study:
    methods = labels([run.name for run in runs], [_settings(run, "method") for run in runs])
    partitions = _conditions(runs)
    seeds = [int(run.config.get("seed", 0)) for run in runs]
    found = list(zip(methods, partitions, seeds, strict=True))
    if len(set(found)) < len(found):  # they differ in something else
        methods = [run.folder.name for run in runs]
    places = [
        Place(run.folder.name, m, p, s, run)
        for run, m, p, s in zip(runs, methods, partitions, seeds, strict=True)
    ]
    data = ", ".join(dict.fromkeys(_data(run) for run in runs))
    if kind == "run" and runs[0].deploy:
        title = f"{runs[0].name} on {data}"
        question = f"How well does {runs[0].name} do on {data}?"
    elif kind == "run":
        title = f"{runs[0].name} on {data}"
        question = (
            f"How well does {runs[0].name} do on {data} split by '{partitions[0]}', on average "
            "and for the worst clients?"
        )
    else:
        title = f"{len(runs)} runs on {data}"
        question = f"How do these {len(runs)} runs on {data} differ?"
    metric = _main([r for run in runs for r in run.evaluated])
    return Study(folder, kind, title, question, places, metric=metric)


def _data(run: Run) -> str:
    """What a run is about."""
    if "site" in run.deploy:
        return f"the data of site {run.deploy['site']}"
    if run.deploy:
        return f"the data of {len(run.deploy['sites'])} sites"
    return data_name(run.config["data"])


def _conditions(runs: Sequence[Run]) -> list[str]:
    """The conditions of each run: partition, data, model and all settings but the method's.

    Runs that differ in any of them are not repetitions of each other, so they get different names.
    """
    datas = [data_name(run.config["data"]) for run in runs]
    several = len(set(datas)) > 1
    names = [
        f"{data}: {run.config['partition']['name']}" if several else run.config["partition"]["name"]
        for data, run in zip(datas, runs, strict=True)
    ]
    return labels(names, [_circumstances(run) for run in runs])


def _circumstances(run: Run) -> Record:
    """The settings of a run that are no method's, by dotted key."""
    told: Record = _settings(run, "partition")
    told |= {f"data.{k}": v for k, v in _settings(run, "data").items() if k != "path"}
    for section, value in run.config.items():
        if section in NOT_CONDITIONS or section == "partition":
            continue
        if isinstance(value, dict):
            own = {f"{section}.{k}": v for k, v in value.items() if k not in ("name", "path")}
            told |= {section: value["name"], **own} if "name" in value else own
        else:
            told[section] = value
    return told


def _settings(run: Run, section: str) -> Record:
    return {k: v for k, v in run.config[section].items() if k != "name"}
