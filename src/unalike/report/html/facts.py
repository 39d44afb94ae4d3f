"""What a reader must know besides the results: methods, settings, environment, commands."""

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from unalike.compare import presets
from unalike.report.records import Record, Study
from unalike.run.config import tables
from unalike.settings import summary

COMMON = ("data", "model", "split", "local", "participation", "evaluation", "faults", "shift")


class Method(NamedTuple):
    """A method under its label: what it is, its settings, and what clients reveal for it."""

    label: str
    parts: list[tuple[str, str, str]]  # name, one line, paper
    settings: list[tuple[str, str]]
    reveals: list[str]
    privacy: str
    parameters: int | None


def methods(study: Study) -> list[Method]:
    """Every method of the study."""
    known = tables()["method"]
    found: dict[str, Method] = {}
    for cell, run in study.begun:
        if cell.method in found:
            continue
        named = [run.config["method"], *run.config.get("plus", [])]
        parts, settings = [], []
        for table in named:
            cls = known.get(table["name"])
            line = summary(cls) if cls is not None else ""
            parts.append((table["name"], line, getattr(cls, "paper", "")))
            prefix = f"{table['name']}." if len(named) > 1 else ""
            settings += [(f"{prefix}{k}", written(v)) for k, v in table.items() if k != "name"]
        topology = run.config.get("topology", {"name": "star"})
        if topology["name"] != "star":
            words = [topology["name"], *(f"{k} {v}" for k, v in topology.items() if k != "name")]
            settings.append(("topology", ", ".join(words)))
        reveals = list(run.data.get("survey_reveals", []))
        found[cell.method] = Method(
            cell.method,
            parts,
            settings,
            reveals,
            _privacy((run.summary or {}).get("privacy")),
            run.data.get("parameters"),
        )
    return list(found.values())


def _privacy(promise: Record | None) -> str:
    if promise is None:
        return ""
    return f"ε = {promise['epsilon']:.3g} at δ = {promise['delta']:g}: {promise['meaning']}"


def common(study: Study) -> list[tuple[str, str]]:
    """The settings all runs agree in, and for the others the values they take."""
    out = []
    configs = [run.config for _, run in study.begun]
    keys = list(dict.fromkeys(k for c in configs for s in COMMON for k in _flat(c, s)))
    keys = ["rounds", *keys, "engine.kind", "engine.device"]
    flat = [
        {"rounds": c.get("rounds")} | {k: v for s in c for k, v in _flat(c, s).items()}
        for c in configs
    ]
    for key in keys:
        values = list(dict.fromkeys(written(f[key]) for f in flat if key in f))
        if values and values != ["none"]:
            out.append((key, " or ".join(values)))
    return out


def _flat(config: Mapping[str, Any], section: str) -> dict[str, Any]:
    value = config.get(section)
    if isinstance(value, Mapping):
        return {f"{section}.{k}": v for k, v in value.items()}
    if isinstance(value, list):
        return {f"{section}[{i}].{k}": v for i, t in enumerate(value) for k, v in t.items()}
    return {}


def written(value: Any) -> str:
    """A setting as a person writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return str(value)


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
        words = ["unalike", "compare", _file(study)]
        words += ["--scale", source["scale"]] if source.get("scale") else []
        words += ["--set", *source["overrides"]] if source.get("overrides") else []
        typed = [shlex.join(words)]
    else:
        recorded = dict.fromkeys(run.environment.get("command") for _, run in study.begun)
        typed = [c for c in recorded if c] or ["unalike run config.toml"]
    return [*typed, shlex.join(["unalike", "report", str(study.folder)])]


def _file(study: Study) -> str:
    """A preset's name, or the file that lies in the comparison's folder."""
    name = study.plan.get("source", {}).get("name")
    return str(name) if name in presets.names() else "compare.toml"


def files(study: Study) -> list[tuple[str, str]]:
    """The settings the commands read, as files."""
    if study.kind == "compare":
        path = study.folder / "compare.toml"
        return [(path.name, path.read_text(encoding="utf-8"))] if path.exists() else []
    names = _file_names(cell.id for cell, _ in study.begun)
    return [(n, toml(run.config)) for n, (_, run) in zip(names, study.begun, strict=True)]


def _file_names(ids: Iterable[str]) -> list[str]:
    ids = list(ids)
    return ["config.toml"] if len(ids) == 1 else [f"{i}.toml" for i in ids]


def toml(config: Record) -> str:
    """A configuration as a TOML file; what is None is left out, since it is the default.

    >>> print(toml({"rounds": 3, "data": {"name": "digits"}, "plus": [{"name": "fedprox"}]}))
    rounds = 3
    <BLANKLINE>
    [data]
    name = "digits"
    <BLANKLINE>
    [[plus]]
    name = "fedprox"
    <BLANKLINE>
    """
    plain = {k: v for k, v in config.items() if not isinstance(v, dict | list)}
    blocks = [_lines(plain)]
    for key, value in config.items():
        if isinstance(value, dict):
            blocks.append(f"[{key}]\n{_lines(value)}")
        elif isinstance(value, list):
            blocks += [f"[[{key}]]\n{_lines(table)}" for table in value]
    return "\n".join(blocks)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{k} = {_value(v)}\n" for k, v in table.items() if v is not None)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{json.dumps(k)} = {_value(v)}" for k, v in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)  # strings, numbers and booleans are the same
