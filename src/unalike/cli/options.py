"""Kinds of options that several commands have."""

from typing import Annotated

from cyclopts import Parameter

Flag = Annotated[bool, Parameter(negative=())]
Out = Annotated[str | None, Parameter(name=["--out", "--output"])]
Overrides = Annotated[
    list[str] | None,
    Parameter(
        name=["--set"],
        consume_multiple=True,
        negative=(),
        help="Settings that override the file's, as key=value; several may follow.",
    ),
]
