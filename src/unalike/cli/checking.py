"""``unalike check``: the contract of methods, kept or not, in a line for each part of it."""

from typing import Any

from rich.console import Console

from unalike.contract import checks, methods_in
from unalike.errors import ConfigError
from unalike.run.configuration.overrides import override


def check(file: str, name: str | None, overrides: list[str]) -> None:
    """Check one class of a file, or all its methods; say what is broken and end with an error."""
    console = Console(markup=False, highlight=False)
    settings: dict[str, Any] = {}
    override(settings, *overrides)
    broken = []
    for attribute in [name] if name else methods_in(file):
        console.print(attribute)
        for found in checks(file, attribute, settings):
            said = f"BROKEN: {found.wrong}" if found.wrong else found.about
            console.print(f"  {found.name:<8} {said}", soft_wrap=True)
            broken += [f"{attribute} {found.name}"] if found.wrong else []
    if broken:
        many = f"{len(broken)} checks fail" if len(broken) > 1 else "one check fails"
        raise ConfigError(f"{many} in '{file}': {', '.join(broken)}.")
