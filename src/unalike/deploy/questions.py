"""The small parts of questions to a site, by kind; anything in another form is refused."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unalike.deploy.messages import Message, MessageError

Round = Annotated[int, Field(ge=0, lt=1 << 40)]


class _Note(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Train(_Note):
    """A round."""

    round: Round
    role: Annotated[int, Field(ge=0, lt=1 << 20)]
    reply: bool
    epochs: Annotated[float, Field(ge=0)]
    unused: Annotated[int, Field(ge=-1, lt=1 << 40)]  # a round whose answer did not count, or -1


class Judge(_Note):
    """A model to judge or to keep, some tensors of which are in the download."""

    round: Round
    selected: Round
    same: dict[str, str] = {}


class Begin(_Note):
    """A stage."""

    stage: Round
    unused: Annotated[int, Field(ge=-1, lt=1 << 40)] = -1  # as in a round


class Refuse(_Note):
    """A round whose answer was not used."""

    round: Round


class Learn(_Note):
    """Counts and sums, or how many rows train."""

    sizes: bool = False


class Sum(_Note):
    """One of the sums of a round."""

    round: Round
    attempt: Round


NOTES: dict[str, type[_Note]] = {
    "learn": Learn,
    "prepare": _Note,
    "begin": Begin,
    "survey": _Note,
    "train": Train,
    "keys": _Note,
    "mask": Sum,
    "unmask": Sum,
    "refuse": Refuse,
    "evaluate": Judge,
    "ensemble": _Note,
    "flying": _Note,
    "finish": Judge,
}


def check(question: Message) -> None:
    """Raise one sentence unless a question is a known one in its proper form."""
    kind = NOTES.get(question.kind)
    if kind is None:
        raise MessageError(f"'{question.kind}' is not a question for a site.")
    try:
        kind.model_validate(question.note)
    except ValidationError as error:
        odd = ".".join(map(str, error.errors()[0]["loc"]))
        raise MessageError(f"'{question.kind}' has another form than expected: '{odd}'.") from None
