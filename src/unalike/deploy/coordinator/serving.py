"""The coordinator: waits for its sites, computes the rounds, leaves a run folder like any run."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import numpy as np
import torch

from unalike import rng
from unalike.algorithm import Algorithm
from unalike.deploy.coordinator.desk import AWAY, Desk
from unalike.deploy.coordinator.rehearsal import rehearse
from unalike.deploy.coordinator.remote import Remote
from unalike.deploy.privacy.masked_sums import refuse_single
from unalike.deploy.privacy.masks import FEWEST
from unalike.deploy.privacy.noise import Source, hidden
from unalike.deploy.setup import preprocessing, targets
from unalike.deploy.setup.agreement import Agreement, Hello, agree, welcome
from unalike.deploy.setup.joining import refuse_simulated
from unalike.deploy.setup.remembered import Remembered, remember, remembered
from unalike.deploy.setup.statistics import ask_scales, training_sizes
from unalike.deploy.site.diary import REFUSALS
from unalike.engine.client.shards import Shards
from unalike.engine.course import Course
from unalike.engine.evaluation.server import Evaluation, Evaluator
from unalike.engine.loop import Loop
from unalike.engine.simulation.simulate import Simulation
from unalike.errors import ConfigError, RunError
from unalike.federation.data import TRAIN, Examples, Federation
from unalike.files import write
from unalike.kinds import measured
from unalike.metrics.catalogue import METRICS
from unalike.parts.privacy.accountant import Accountant
from unalike.run.configuration.config import Config
from unalike.run.experiment.cadence import as_set
from unalike.run.experiment.live import Experiment
from unalike.run.experiment.program import guard_of, program
from unalike.run.experiment.shape import Shape
from unalike.run.experiment.task import task
from unalike.run.folder.environment import environment
from unalike.run.folder.manifest import Manifest
from unalike.run.folder.records import LOGS, Log, alone, dumps, read_lines
from unalike.run.rounds import DEPLOYED, conclusion, rounds
from unalike.run.saving.checkpoint import Checkpoint
from unalike.run.saving.models import Keeper
from unalike.run.saving.rows import described
from unalike.run.summary import selected_round
from unalike.tree import Tree

Say = Callable[[str], None]
AGREEMENT = "agreement.msg"  # what all sites agreed on at the start


class Elsewhere:
    """Clients' states, none of which is here: sites keep their own."""

    def attach(self, shards: Shards) -> None:
        """Nothing to save."""

    def save(self) -> None:
        """Nothing to save."""

    def restore(self) -> None:
        """Nothing to restore."""


class Absent:
    """Clients' models, none of which is here."""

    rows = 0

    def __init__(self, course: Course) -> None:
        self.course = course
        self.row_of = torch.zeros(course.transport.clients.n, dtype=torch.long)

    @property
    def algorithm(self) -> Algorithm:
        """Of the stage the run is in."""
        return self.course.loop.recipe.algorithm

    def personal(self, downs: Tree) -> None:
        """Sites keep their own."""


class Host:
    """What checkpoints and the keeper of models ask of the place where clients are."""

    states, device = Elsewhere(), torch.device("cpu")
    lone = staticmethod(nullcontext)  # nothing is computed here

    def __init__(self, course: Course) -> None:
        self.examiner = Absent(course)


def serve(
    config: Config,
    names: Sequence[str],
    folder: Path,
    desk: Desk,
    say: Say,
    *,
    seconds: float = 600.0,
    arrive: float = 3600.0,
) -> Path:
    """A whole run, or the rest of one that was stopped.

    Args:
        config: The recipe.
        names: The sites.
        folder: Of the run; one that holds a stopped run is continued.
        desk: Where questions and answers meet.
        say: Called with what a person may want to read.
        seconds: That a site has for an answer.
        arrive: That sites have to say hello.
    """
    refuse(config, names)
    with alone(folder):
        run, before = _known(folder, config, names), remembered(folder / AGREEMENT)
        desk.fewest = config.faults.min_replies
        agreed = agree(_arrived(desk, names, arrive, before, say), config.seed)
        desk.welcome({name: welcome(agreed, name, config, run) for name in names})
        try:
            if before is None:
                scale = ask_scales(agreed, run, desk, seconds)
                sizes = training_sizes(agreed, config, run, desk, seconds)
                before = Remembered(desk.arrivals(0), scale, sizes)
                remember(folder / AGREEMENT, run, before)
            _played(config, agreed, before, run, folder, desk, say, seconds)
        except OSError as error:
            raise RunError(
                f"the coordinator cannot write to '{folder}' ({error.strerror}); make room, then "
                "serve again: it continues after the last saved round."
            ) from None
    return folder


def refuse(config: Config, names: Sequence[str]) -> None:
    """Raise one sentence if a recipe cannot be coordinated, whatever data the sites have."""
    refuse_simulated(config)
    if (name := config.topology.name) != "star":
        several = name == "clusters"
        why = "has several coordinators, and none coordinates them" if several else "has none"
        raise ConfigError(
            f"unalike serve is the one coordinator of topology 'star', and topology '{name}' "
            f"{why}; start 'unalike peer' at every site, or set topology.name = 'star'."
        )
    if config.deploy.secure_aggregation and len(names) < FEWEST:
        raise ConfigError(
            f"deploy.secure_aggregation needs {FEWEST} sites or more: with two, each could "
            "subtract its own update from the sum."
        )
    rehearse(config, names)


def _arrived(
    desk: Desk, names: Sequence[str], arrive: float, before: Remembered | None, say: Say
) -> Mapping[str, Hello]:
    """What all sites say about their data; if it is known already, enough of them suffice."""
    if before is None:
        hellos = desk.arrivals(arrive)
        if missing := sorted(set(names) - set(hellos)):
            raise RunError(f"site '{missing[0]}' did not connect within {arrive:g} seconds.")
        return hellos
    desk.remember(before.hellos)
    here = desk.arrivals(min(AWAY, arrive))
    if len(here) < desk.fewest:
        here = desk.arrivals(arrive, desk.fewest)
    if len(here) < desk.fewest:
        raise RunError(
            f"{len(here)} of {len(names)} sites came within {arrive:g} seconds, and "
            f"{desk.fewest} are needed to continue."
        )
    if missing := sorted(set(names) - set(here)):
        say(f"continuing without {', '.join(missing)} until they are back")
    return before.hellos


def _known(folder: Path, config: Config, names: Sequence[str]) -> str:
    """The name of the run in a folder, which is made if it is new."""
    path, told = folder / "deploy.json", config.resolved()
    if path.exists():
        found = json.loads(path.read_bytes())
        if json.loads((folder / "config.json").read_bytes()) != json.loads(dumps(told)):
            raise RunError(f"'{folder}' holds a run of another recipe; choose another folder.")
        if found["sites"] != sorted(names):
            raise RunError(f"'{folder}' holds a run of other sites; choose another folder.")
        return str(found["run"])
    write(folder / "config.json", dumps(told, indent=2))
    write(folder / "environment.json", dumps(environment(), indent=2))
    run = f"{_word(folder.name)}-{uuid4().hex[:12]}"  # sites name folders after it
    write(path, dumps({"run": run, "sites": sorted(names)}, indent=2))
    return run


def _word(name: str) -> str:
    """A name as it may stand in a message."""
    return re.sub("[^A-Za-z0-9_-]", "-", name).strip("-_")[:40] or "run"


def _played(
    config: Config,
    agreed: Agreement,
    known: Remembered,
    run: str,
    folder: Path,
    desk: Desk,
    say: Say,
    seconds: float,
) -> None:
    scale = known.scale
    features = preprocessing.features(agreed.pending, scale, agreed.shape.blank().x)
    agreed = agreed._replace(shape=_shaped(agreed.shape, scale))
    made = task(config, agreed.shape.blank())
    judging = config.evaluation
    made.refuse(judging.select, judging.ensemble, judging.target)
    stages, draft = program(config, made, agreed.shape)
    w = draft.task.init(rng.fold_in(rng.stream(config.seed, "init"), -2))
    remote = Remote(
        desk,
        run,
        agreed.names,
        known.sizes,
        config.seed,
        seconds=seconds,
        prepare=scale,
        heard=_Heard(folder / REFUSALS, say),
        sealed=config.deploy.secure_aggregation,
    )
    last, guard = stages[-1].recipe, guard_of(config, stages)
    source = Source(folder / "noise.key") if config.deploy.noise == "secret" else None
    drawn = tuple(replace(stage, recipe=hidden(stage.recipe, source)) for stage in stages)
    course = Course(drawn, remote, config.seed, guard, w)
    if config.deploy.secure_aggregation:
        for stage in stages:
            loop = Loop(stage.recipe, remote, range(stage.rounds), config.seed, guard)
            refuse_single(stage.recipe, loop, w)
    judge = Evaluator(course, None, config.seed, judging.ensemble)
    accountant = None
    if last.guarantee is not None:
        cohorts = course.loop.cohorts
        span, n = range(course.rounds), len(agreed.names)
        accountant = Accountant(last.guarantee, last.schedule, span, n, cohorts)
    whole = Experiment(
        config,
        replace(_blank(agreed), features=features),
        cast(Simulation, Host(course)),
        course,
        judge,
        DEPLOYED,
        {},
        accountant=accountant,
        cadence=as_set(config),
    )
    judged = _recorded(whole, agreed, folder, say, remote)
    desk.fewest = len(agreed.names)  # who is away may still come for the last model
    remote.finish(judged.downs, judged.models)


def _shaped(shape: Shape, scale: Tree) -> Shape:
    """The shape of the data once features and targets are prepared."""
    if "keep" in scale:
        shape = shape._replace(features=(int(scale["keep"].sum()),))
    if "edges" in scale:
        count, unit = int(scale["ranges"]), targets.unit_of(scale)
        shape = shape._replace(classes=count, unit=unit, target_dtype="float32")
    return shape


class _Heard:
    """Sentences on sites that took no part in something: shown and recorded."""

    def __init__(self, path: Path, say: Say) -> None:
        self.path, self.say, self.round = path, say, 1

    def __call__(self, site: str, what: str) -> None:
        self.say(f"site '{site}': {what}")
        with self.path.open("a", encoding="utf-8") as f:
            f.write(dumps({"round": self.round, "site": site, "why": what}) + "\n")


def _blank(agreed: Agreement) -> Federation:
    """The sites with one blank row each: the real ones are where the sites are."""
    n, shape = len(agreed.names), agreed.shape
    two = shape.blank()
    x, y = (t[:1].expand(n, *t.shape[1:]).clone() for t in (two.x, two.y))
    examples = Examples(x, y, shape.classes, shape.kind, class_names=agreed.class_names)
    ranges = np.zeros(n, dtype=np.int64) if measured(shape.kind) else None
    examples = replace(examples, reading=agreed.reading, ranges=ranges, unit=shape.unit)
    return Federation(examples, np.arange(n), np.full(n, TRAIN), n, names=agreed.names)


def _recorded(
    made: Experiment, agreed: Agreement, folder: Path, say: Say, remote: Remote
) -> Evaluation:
    """All rounds, with the records, checkpoints and models of any run; how it ended."""
    logs = [Log(folder / name) for name in LOGS]
    data = hashlib.blake2b(repr(agreed).encode(), digest_size=16).hexdigest()
    checkpoint = Checkpoint(folder, made, logs, Manifest(False, data, {}, "", {}))
    done, progress = checkpoint.restore()
    records = read_lines(folder / "rounds.jsonl")
    keeper, judged = Keeper(folder, made, records), None
    write(folder / "features.json", dumps(described(made), indent=1))
    _look_ahead(remote, records, keeper)
    for step in rounds(made, progress, done):
        logs[0].append(step.record)
        if step.clients is not None:
            logs[1].append(step.clients)
        with (folder / "timing.jsonl").open("a") as f:
            f.write(dumps({"round": step.round, "seconds": step.seconds}) + "\n")
        keeper.see(step)
        progress, judged = step.progress, step.judged
        keeper.store()
        checkpoint.store(step.round, progress)  # every round: sites rely on it
        say(_line(step.record, made))
        records.append(step.record)
        _look_ahead(remote, records, keeper)
    assert progress is not None, "a run has at least one round"
    if judged is None:  # every round was done before
        judged = made.evaluator(progress.state)
    for name, raw in keeper.finish(judged).items():
        write(folder / name, raw)
    summary = conclusion(made, records)
    write(folder / "summary.json", dumps(summary, indent=2))
    remote.judging["round"] = made.course.rounds
    return judged


def _look_ahead(remote: Remote, records: list[dict[str, Any]], keeper: Keeper) -> None:
    """What sites will receive besides the next model to test."""
    chosen = selected_round(records, keeper.metric) or 0
    remote.judging = {"round": len(records) + 1, "selected": chosen}
    if isinstance(remote.heard, _Heard):
        remote.heard.round = len(records) + 1


def _line(record: dict[str, Any], made: Experiment) -> str:
    answers = f"{len(record['clients'])} of {made.course.transport.clients.n} sites"
    said = f"round {record['round']} of {made.course.rounds}: {answers}"
    metric = made.recipe.algorithm.task.headline
    spread = (record["metrics"] or {}).get("local", {}).get(metric)
    if spread is None:
        return said
    share = metric in METRICS and METRICS[metric].share
    return f"{said}, {metric} " + (f"{spread['mean']:.2%}" if share else f"{spread['mean']:.4g}")
