"""What can be wrong with a command line itself, in one sentence."""

from cyclopts import App, CycloptsError, MissingArgumentError, UnknownCommandError

from unalike.errors import unknown

_NEEDED = {
    "file": "a TOML file",
    "folder": "the folder of a run or of a comparison",
    "target": "a TOML file or a file of data",
    "run": "the folder of a finished run",
    "shell": "bash, zsh or fish",
    "rows": "a table, an NPZ file or a folder of images",
}


def sentence(app: App, error: CycloptsError) -> str:
    """What the parser found, named as the help names it."""
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        commands = [name for name in app if not name.startswith("-")]
        return str(unknown("command", error.unused_tokens[0], commands))
    command = " ".join([*app.name, *(error.command_chain or ())])
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        name = error.argument.name.lstrip("-")
        if error.argument.field_info.is_positional:
            return f"{command} needs {name.upper()}, {_NEEDED[name]}; see: {command} --help."
    return f"{str(error).rstrip('.')}; see: {command} --help."
