"""What a reader must know besides results and settings: gaps, budget, environment, commands."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from unalike.compare.tables import size
from unalike.report.html.settings import written
from unalike.report.records import Cell, Study
from unalike.run.toml import as_toml

NAMED = 6  # methods on partitions whose missing runs are told apart


class Gap(NamedTuple):
    """Runs that are missing from the results for one reason."""

    reason: str
    runs: str


def gaps(study: Study, unusable: Mapping[str, str]) -> list[Gap]:
    """The runs without a result and why; ``unusable`` are finished cells that have none."""
    failed = {**study.failed, **unusable}
    reasons: dict[str, list[Cell]] = {}
    for cell in study.cells:
        done = cell.run is not None and cell.run.finished
        if cell.id in unusable or (not done and cell.id in failed):
            reason = f"Failed: {str(failed[cell.id]).rstrip('.')}."
        elif not done:
            reason = "Not begun." if cell.run is None else "Begun, not finished."
        else:
            continue
        reasons.setdefault(reason, []).append(cell)
    order = sorted(reasons, key=lambda r: not r.startswith("Failed"))
    return [Gap(reason, _listed(reasons[reason])) for reason in order]


def _listed(cells: Sequence[Cell]) -> str:
    """The cells by method and partition.

    >>> _listed([Cell("", "FedAvg", "iid", seed, None) for seed in (0, 1)])
    'FedAvg on iid, seeds 0 and 1'
    """
    places: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        places.setdefault((cell.method, cell.partition), []).append(str(cell.seed))
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
    given = study.plan.get("budget")
    if given is None:
        return ""
    kind, amount = given["kind"], given.get("amount")
    if kind != "rounds":
        much = f"as many as {study.plan['baseline']} uses in its rounds"
        if amount:
            much = size(amount) if kind == "bytes" else f"{amount:,.0f}"
        return f"All methods were given equal {kind} ({much})."
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for method in study.methods:
        cells = [c for c in study.cells if c.method == method and "rounds" in c.config]
        each = dict.fromkeys((c.partition, str(c.config["rounds"])) for c in cells)
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
    if study.kind == "compare":
        source = study.plan.get("source", {})
        words = ["unalike", "compare", source["name"] if source.get("preset") else _file(study)]
        words += ["--scale", source["scale"]] if source.get("scale") else []
        words += ["--set", *source["overrides"]] if source.get("overrides") else []
        typed = [shlex.join(words)]
    else:
        recorded = dict.fromkeys(run.environment.get("command") for _, run in study.begun)
        typed = [c for c in recorded if c]
        typed = typed or [shlex.join(["unalike", "run", name]) for name in _run_files(study)]
    return [*typed, shlex.join(["unalike", "report", str(study.folder)])]


def _file(study: Study) -> str:
    """The file a comparison was read from; its text is in the folder, whatever it was called."""
    return f"{study.plan.get('source', {}).get('name') or 'compare'}.toml"


def files(study: Study) -> list[tuple[str, str]]:
    """The settings the commands read, as files."""
    if study.kind == "compare":
        path = study.folder / "compare.toml"
        return [(_file(study), path.read_text(encoding="utf-8"))] if path.exists() else []
    configs = [toml(run.config) for _, run in study.begun]
    return list(zip(_run_files(study), configs, strict=True))


def _run_files(study: Study) -> list[str]:
    ids = [cell.id for cell, _ in study.begun]
    return ["config.toml"] if len(ids) == 1 else [f"{i}.toml" for i in ids]


def toml(config: Mapping[str, Any]) -> str:
    """A configuration as a TOML file; what is None is left out, since it is the default."""
    return as_toml(_set(config))


def _set(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _set(v) for k, v in value.items() if v is not None}
    return [_set(v) for v in value] if isinstance(value, list) else value
