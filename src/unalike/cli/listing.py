"""``unalike list``: what there is, one line each, and the settings or the file of one."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from unalike.cli.comparing import show_presets
from unalike.compare.presets import names, text
from unalike.deploy.site.policy import Policy
from unalike.errors import unknown
from unalike.run.configuration.config import DEFAULTS, Config, tables
from unalike.run.configuration.overrides import LISTS
from unalike.run.configuration.sections import SECTIONS
from unalike.settings import Settings, describe, sources, summary

TITLES = {
    "method": "methods",
    "partition": "partitioners",
    "shift": "shifts",
    "data": "datasets",
    "model": "models",
    "topology": "topologies",
    "augment": "augmentations",
    "attack": "attacks",
}


def show_all() -> None:
    """Every name with one line."""
    console = Console()
    for kind in TITLES:
        _show_kind(console, kind)
        console.print()
    console.print("the settings of one: unalike list NAME; of a file: unalike list settings")
    console.print("published experiments to compare: unalike list presets")
    console.print("what a site may agree to: unalike list policy")


def show(name: str) -> None:
    """The names of one kind; or what has one name: its settings under every kind, its file."""
    console = Console()
    for kind, title in TITLES.items():
        if name == title:
            _show_kind(console, kind)
            return
    if name == "presets":
        show_presets()
        return
    if name == "settings":
        _show_file(console)
        return
    if name == "policy":
        console.print(_settings("a site's policy, a file of its own", Policy))
        return
    choices = tables()
    found = [(kind, choices[kind][name]) for kind in TITLES if name in choices[kind]]
    if not found and name in names():
        console.print(Text(f"a preset; run it with: unalike compare {name}; its file:\n"))
        console.print(Text(text(name)), soft_wrap=True)
        return
    if not found:
        known = {n for kind in TITLES for n in choices[kind]}
        others = {*TITLES.values(), *names(), "presets", "settings", "policy"}
        raise unknown("name", name, known | others)
    for kind, cls in found:
        console.print(Text(f"{name} ({kind}): {summary(cls)}"))
        if paper := getattr(cls, "paper", ""):
            console.print(Text(f"paper: {paper}"))
        if cls.model_fields:
            console.print(_settings(_head(kind, name), cls))
            if told := sources(cls):
                console.print(_sources(told))
        else:
            console.print("no settings")


def _show_kind(console: Console, kind: str) -> None:
    out = Table(title=TITLES[kind], title_justify="left", show_header=False, box=None)
    out.add_column(style="bold", no_wrap=True)
    out.add_column()
    for name, cls in sorted(tables()[kind].items()):
        out.add_row(name, Text(summary(cls)))
    console.print(out)


def _show_file(console: Console) -> None:
    """The sections of a configuration file in their order."""
    choices = tables()
    for key, field in Config.model_fields.items():
        if key in SECTIONS:
            cls = SECTIONS[key]
            console.print(_settings(f"[{key}]  {summary(cls)}", cls))
        elif key in choices:
            console.print(Text(f"{_head(key, '')}  {field.description}", "italic"))
            names = ", ".join(sorted(choices[key]))
            default = f"; {DEFAULTS[key]['name']} unless named" if key in DEFAULTS else ""
            console.print(Text(f"name = one of {names}{default}\n"))
    console.print(
        "seed and rounds are at the top of the file; to see the settings that go with a name:"
    )
    console.print("unalike list NAME")


def _head(kind: str, name: str) -> str:
    table = f"[[{kind}]]" if kind in LISTS else f"[{kind}]"
    return f'{table}  name = "{name}"' if name else table


def _settings(title: str, cls: type[Settings]) -> Table:
    out = Table(title=Text(title), title_justify="left")
    for column in ("setting", "may be", "default", "meaning"):
        out.add_column(column, no_wrap=column == "setting")
    for setting in describe(cls):
        out.add_row(*map(Text, setting))
    return out


def _sources(told: Mapping[str, str]) -> Table:
    """Below the settings, since a fifth column would leave no room for the others."""
    out = Table(title="where the defaults come from", title_justify="left", box=None)
    out.add_column(no_wrap=True)
    out.add_column()
    out.show_header = False
    for name, source in told.items():
        out.add_row(name, Text(source))
    return out
