"""What a reader must know besides results and settings: gaps, budget, environment, commands."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from unalike.compare.presentation.wording import amount
from unalike.compare.specification.spec import Comparison
from unalike.report.html.settings import written
from unalike.report.records import Place, Study
from unalike.run.configuration.toml import as_toml

NAMED = 6  # methods on partitions whose missing runs are told apart, and runs whose command is


class Gap(NamedTuple):
    """Runs that are missing from the results for one reason."""

    reason: str
    runs: str


def gaps(study: Study, unusable: Mapping[str, str]) -> list[Gap]:
    """The runs without a result and why; ``unusable`` are finished cells that have none."""
    failed = {**study.failed, **unusable}
    reasons: dict[str, list[Place]] = {}
    for place in study.places:
        done = place.run is not None and place.run.finished
        if place.id in unusable or (not done and place.id in failed):
            reason = f"Failed: {str(failed[place.id]).rstrip('.')}."
        elif not done:
            reason = "Not started." if place.run is None else "Started, not finished."
        else:
            continue
        reasons.setdefault(reason, []).append(place)
    order = sorted(reasons, key=lambda r: not r.startswith("Failed"))
    return [Gap(reason, _listed(reasons[reason])) for reason in order]


def _listed(gaps: Sequence[Place]) -> str:
    """The runs by method and partition.

    >>> _listed([Place("", "FedAvg", "iid", seed, None) for seed in (0, 1)])
    'FedAvg on iid, seeds 0 and 1'
    """
    places: dict[tuple[str, str], list[str]] = {}
    for place in gaps:
        places.setdefault((place.method, place.partition), []).append(str(place.seed))
    words = [
        f"{method} on {partition}, seed{'s' if len(seeds) > 1 else ''} {_and(seeds)}"
        for (method, partition), seeds in places.items()
    ]
    if len(words) > NAMED:
        rest = sum(map(len, [*places.values()][NAMED:]))
        words[NAMED:] = [f"and {rest} more"]
    return "; ".join(words)


def budget(study: Study) -> str:
    """What every method was given, as far as it was the same."""
    if study.asked is None:
        return ""
    given = study.asked.budget
    if given.kind != "rounds":
        much = f"as many as {study.asked.baseline} uses in its rounds"
        much = much if given.amount is None else amount(given)
        return f"All methods were given equal {given.kind} ({much})."
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for method in study.methods:
        mine = [p for p in study.places if p.method == method and "rounds" in p.config]
        each = dict.fromkeys((p.partition, str(p.config["rounds"])) for p in mine)
        groups.setdefault(tuple(each), []).append(method)
    words = {each: " or ".join(dict.fromkeys(n for _, n in each)) for each in groups}
    usual = max(groups, key=lambda each: len(groups[each]))
    others = [f"{_and(names)} ({words[e]})" for e, names in groups.items() if e != usual]
    rest = f", except {'; '.join(others)}" if others else ""
    return f"All methods were given equal rounds ({words[usual]}){rest}."


def _and(words: Sequence[str]) -> str:
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), words[-1]])


def environment(study: Study) -> list[tuple[str, str]]:
    """Versions and machines; where runs differ, all of them."""
    rows: dict[str, list[str]] = {}
    for _, run in study.begun:
        flat = {k: v for k, v in run.environment.items() if k not in ("packages", "command")}
        flat |= run.environment.get("packages", {})
        flat |= {k: run.data[k] for k in ("engine", "workers") if k in run.data}
        for key, value in flat.items():
            if value is not None:
                rows.setdefault(key, []).append(written(value))
    return [(key, " or ".join(dict.fromkeys(values))) for key, values in rows.items()]


def commands(study: Study) -> list[str]:
    """What to type to get the same again."""
    if study.asked is not None:
        source = study.asked.source
        target = source["name"] if source.get("preset") else _file(study.asked)
        words = ["unalike", "compare", target]
        words += ["--scale", source["scale"]] if source.get("scale") else []
        words += ["--set", *source["overrides"]] if source.get("overrides") else []
        typed = [shlex.join(words)]
    else:
        recorded = dict.fromkeys(run.environment.get("command") for _, run in study.begun)
        typed = [c for c in recorded if c]
        typed = typed or [shlex.join(["unalike", "run", name]) for name in _run_files(study)]
        if len(typed) > NAMED:
            typed[NAMED:] = [f"# and {len(typed) - NAMED} more"]
    return [*typed, shlex.join(["unalike", "report", str(study.folder)])]


def _file(asked: Comparison) -> str:
    """The file a comparison was read from; its text is in the folder, whatever it was called."""
    return f"{asked.source.get('name') or 'compare'}.toml"


def files(study: Study) -> list[tuple[str, str]]:
    """The settings the commands read, as files."""
    if study.asked is not None:
        path = study.folder / "compare.toml"
        return [(_file(study.asked), path.read_text(encoding="utf-8"))] if path.exists() else []
    configs = [toml(run.config) for _, run in study.begun]
    return list(zip(_run_files(study), configs, strict=True))


def _run_files(study: Study) -> list[str]:
    ids = [place.id for place, _ in study.begun]
    return ["config.toml"] if len(ids) == 1 else [f"{i}.toml" for i in ids]


def toml(config: Mapping[str, Any]) -> str:
    """A configuration as a TOML file; what is None is left out, since it is the default."""
    return as_toml(_set(config))


def _set(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _set(v) for k, v in value.items() if v is not None}
    return [_set(v) for v in value] if isinstance(value, list) else value
