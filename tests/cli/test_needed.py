"""What a command needs: whichever argument is missing, one sentence describes it."""

import pytest
from cyclopts import Argument, MissingArgumentError

from unalike.cli.main import app
from unalike.cli.mistakes import sentence


@pytest.mark.parametrize("name", [name for name in app if not name.startswith("-")])
def test_what_a_command_needs_is_described(name: str):
    """Whichever command is called without its arguments: one sentence, and no KeyError."""
    for argument in app[name].assemble_argument_collection():
        error = MissingArgumentError(argument=argument, command_chain=(name,))
        if argument.required:
            assert sentence(app, error).startswith(f"unalike {name} needs {shown(argument)}, ")


def shown(argument: Argument) -> str:
    """As the help shows it: a word in capitals, or an option."""
    return argument.name.lstrip("-").upper() if argument.field_info.is_positional else argument.name
