"""``unalike list``: what there is, one line each, and the settings of one."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from unalike.errors import unknown
from unalike.run.config import Config, tables
from unalike.settings import Settings, describe, summary

TITLES = {
    "method": "methods",
    "partition": "partitioners",
    "shift": "shifts",
    "data": "datasets",
    "model": "models",
    "topology": "topologies",
}


def show_all() -> None:
    """Every name with one line."""
    console = Console()
    for kind, table in _tables().items():
        out = Table(title=TITLES[kind], title_justify="left", show_header=False, box=None)
        out.add_column(style="bold", no_wrap=True)
        out.add_column()
        for name, cls in sorted(table.items()):
            out.add_row(name, summary(cls))
        console.print(out)
        console.print()
    console.print("The settings of one: unalike list NAME. Of a file: unalike list settings.")


def show(name: str) -> None:
    """The settings of one name, under every kind that has it."""
    console = Console()
    if name == "settings":
        for section, field in Config.model_fields.items():
            cls = field.annotation
            if section in _tables() or section == "plus":
                console.print(f"[bold][{section}][/bold] name = ... and that choice's settings")
            elif isinstance(cls, type) and issubclass(cls, Settings):
                console.print(_settings(f"[{section}]", cls))
            else:
                console.print(
                    f"[bold]{section}[/bold] = {field.default}  ({field.description or ''})"
                )
        return
    found = [(kind, table[name]) for kind, table in _tables().items() if name in table]
    if not found:
        raise unknown("name", name, {n for table in _tables().values() for n in table})
    for kind, cls in found:
        console.print(f"[bold]{name}[/bold] ({kind}): {summary(cls)}")
        if paper := getattr(cls, "paper", ""):
            console.print(f"paper: {paper}")
        if cls.model_fields:
            console.print(_settings(f'\\[{kind}]  name = "{name}"', cls))
        else:
            console.print("no settings")


def _tables() -> dict[str, Mapping[str, type[Settings]]]:
    return {kind: table for kind, table in tables().items() if kind != "plus"}


def _settings(title: str, cls: type[Settings]) -> Table:
    out = Table(title=title, title_justify="left")
    for column in ("setting", "type", "default", "meaning"):
        out.add_column(column)
    for setting in describe(cls):
        out.add_row(*setting)
    return out
