"""The command line as tests use it: a table to give it, and what it must say of a mistake."""

from collections.abc import Callable

Unalike = Callable[..., tuple[int, str, str]]  # arguments to (exit code, output, errors)
TABLE = "x1,x2,hospital,label\n" + "".join(
    f"{i % 7},{i % 5 - 2},{'north' if i % 2 else 'south'},{'sick' if i % 3 else 'well'}\n"
    for i in range(60)
)


def mistake(unalike: Unalike, *arguments: str) -> str:
    """What ``unalike`` says, which must be one line of the right kind."""
    code, out, said = unalike(*arguments)
    assert code == 2, said
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert said.rstrip().endswith((".", "?"))
    assert "Traceback" not in said + out
    return said
