"""What can be wrong with a command line itself, in one sentence."""

from difflib import get_close_matches

from cyclopts import (
    App,
    Argument,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
)

from unalike.errors import unknown

_NEEDED = {
    "file": "a TOML file",
    "check file": "a Python file with your method",
    "folder": "the folder of a run or of a comparison",
    "keys folder": "the folder of the authority, which is made if it does not exist",
    "target": "a TOML file or a file of data",
    "run": "the folder of a finished run",
    "shell": "bash, zsh or fish",
    "rows": "a table, an NPZ file or a folder of images",
    "name": "the name of this site",
    "peer name": "the name of this peer",
    "data": "the file with the rows that stay here",
    "sites": "the names of all sites",
    "peers": "a TOML file with the address of every peer",
    "to": "a format: torch, safetensors or onnx",
}


def sentence(app: App, error: CycloptsError) -> str:
    """What the parser found, named as the help names it."""
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        commands = [name for name in app if not name.startswith("-")]
        return str(unknown("command", error.unused_tokens[0], commands))
    command = " ".join([*app.name, *(error.command_chain or ())])
    said = str(error).rstrip(".")
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        said = _missing(command, error.argument, error.keyword)
    elif isinstance(error, UnknownOptionError) and error.token.keyword:
        said = _no_option(command, error)
    return f"{said}; see: {command} --help."


def _missing(command: str, argument: Argument, given: str | None) -> str:
    """What the command needs; ``given`` is an option that came without its value."""
    if given is not None:
        return f"{command}: {given} needs a value"
    name = argument.name.lstrip("-")
    what = _NEEDED.get(f"{command.split()[-1]} {name}") or _NEEDED[name]
    shown = name.upper() if argument.field_info.is_positional else argument.name
    return f"{command} needs {shown}, {what}"


def _no_option(command: str, error: UnknownOptionError) -> str:
    """That the command has no such option: the nearest, or how a setting is given."""
    option = (error.token.keyword or "").split("=")[0]
    said = f"{command} has no option '{option}'"
    options = [name for argument in error.argument_collection for name in argument.names]
    if near := get_close_matches(option, options, n=1, cutoff=0.7):
        return f"{said}, but '{near[0]}'"
    if "--set" in options:
        return f"{said}; settings are given as --set {option.lstrip('-')}=VALUE"
    return said
