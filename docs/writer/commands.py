"""The reference of the configuration file and of the command line."""

import inspect
import re

from unalike.run.configuration.config import DEFAULTS, Config, Named, tables
from unalike.settings import Settings, summary
from writer.settings import entry, kind, settings_table, span, toml


def config_page() -> str:
    """Every section of a configuration file."""
    named = tables()
    parts = [
        "# Configuration\n",
        "One TOML file configures a run. Every key has a default, so an empty file is valid. An "
        "unknown key, a wrong type or a value out of range is refused with one sentence that "
        "names the key and what is allowed.\n",
        "The file's settings can be overridden on the command line: `--set rounds=50 "
        "method.name=fedprox method.mu=0.1 plus.0.lr=0.01`. Setting the `name` of a table to "
        "another one drops that table's other settings.\n",
        "## Top level\n",
        "| key | value | default | meaning |\n| --- | --- | --- | --- |",
    ]
    for name, field in Config.model_fields.items():
        if not isinstance(field.default, Settings) and name not in named:
            allowed = ", ".join(filter(None, [kind(field.annotation), span(field)]))
            parts.append(
                f"| `{name}` | {allowed} | {toml(field.default)} | {field.description or ''} |"
            )
    parts.append("\n## Tables that name something\n")
    parts.append(
        "Each has a `name` and the settings of that choice. `shift` and `plus` are lists, written "
        "`[[shift]]` and `[[plus]]`; the others may be written as plain text: "
        '`method = "fedavg"`.\n'
    )
    parts.append("| table | names one of | default | settings |\n| --- | --- | --- | --- |")
    where = {
        "data": "[datasets](ref-datasets.md)",
        "partition": "[partitioners](ref-partitioners.md)",
        "shift": "[shifts](ref-partitioners.md#shifts)",
        "model": "[models](ref-models.md)",
        "method": "[methods](methods/index.md)",
        "plus": "[methods](methods/index.md)",
        "topology": "[topologies](methods/index.md#topologies)",
    }
    for key, table in named.items():
        shown = f"`[[{key}]]`" if key in ("shift", "plus") else f"`[{key}]`"
        names = ", ".join(f"`{name}`" for name in table) if key != "plus" else "as `[method]`"
        field = Config.model_fields[key].default
        default = DEFAULTS.get(key, field.resolved() if isinstance(field, Named) else None)
        parts.append(
            f"| {shown} | {names} | {toml(default['name']) if default else 'none'} | "
            f"{where.get(key, f'[below](#{key})')} |"
        )
    parts.append("")
    for key in [key for key in named if key not in where]:
        parts.append(f"## [{key}] {{#{key}}}\n")
        parts += [entry(name, cls, depth=3) for name, cls in named[key].items()]
    for name, field in Config.model_fields.items():
        if isinstance(field.default, Settings) and name not in named:
            cls = type(field.default)
            parts.append(f"## [{name}] {{#{name}}}\n\n{summary(cls)}\n\n{settings_table(cls)}")
    return "\n".join(parts)


def cli_page() -> str:
    """Every command, from its function's signature and docstring."""
    from unalike.cli import main

    parts = [
        "# Command line\n",
        "Usage: `unalike COMMAND`. A mistake gives one sentence on standard error and exit code "
        "2; an interrupted run exits with 130 and can be resumed. `unalike COMMAND --help` shows "
        "the same text as this page; `unalike --version` shows the version.\n",
    ]
    for name in main.app:
        if name.startswith("-"):
            continue
        function = main.app[name].default_command
        text, _, about = (inspect.getdoc(function) or "").partition("Parameters\n----------")
        told = dict(re.findall(r"^(\w+)\n((?: {4}.*\n?)+)", about, re.MULTILINE))
        parts.append(f"## unalike {name}\n\n{text.strip()}\n")
        rows = []
        for p in inspect.signature(function).parameters.values():
            keyword = p.kind is p.KEYWORD_ONLY
            shown = f"--{p.name.strip('_').replace('_', '-')}" if keyword else p.name.upper()
            meaning = " ".join(told.get(p.name, "").split())
            if p.name == "set_" and not meaning:
                meaning = "Settings that override the file's, as `key=value`; several may follow."
            default = "required" if p.default is p.empty else toml(p.default)
            rows.append(f"| `{shown}` | {default} | {meaning} |")
        if rows:
            parts += ["| argument | default | meaning |\n| --- | --- | --- |", *rows, ""]
    return "\n".join(parts)
