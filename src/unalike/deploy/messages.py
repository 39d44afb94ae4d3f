"""What travels between a coordinator and its sites, and the checks before anything is used.

``frames`` turns a message into bytes and compares its head with a schema; here its tensors are
compared with the template that the recipe declares.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from unalike import tree
from unalike.channel import Ragged
from unalike.deploy.release import release
from unalike.errors import UnalikeError
from unalike.tree import Tree

FEW = 1 << 18  # numbers that are checked at once
Kind = Literal[
    "hello",  # site: who I am, and the shape of my data
    "welcome",  # coordinator: the recipe, and your number
    "learn",  # coordinator: sums that scaling takes
    "prepare",  # coordinator: scales for your features
    "begin",  # coordinator: a stage begins
    "survey",  # coordinator: the questions of the recipe
    "train",  # coordinator: a round
    "keys",  # coordinator: your key for masks
    "mask",  # coordinator: your masked part of a sum
    "unmask",  # coordinator: what opens it
    "refuse",  # coordinator: your answer of this round was not used
    "evaluate",  # coordinator: judge on your own rows
    "ensemble",  # coordinator: what does your model say of these rows
    "flying",  # coordinator: your model that is on its way
    "finish",  # coordinator: the run is over
    "ended",  # coordinator: it leaves before that, and why
    "fetch",  # peer: what you have ready of a round
    "answer",  # site: to the question of the same number
    "refusal",  # site: a sentence instead of an answer
]


class MessageError(UnalikeError):
    """A message that is damaged, of another run, or not what was expected."""


class Damaged(MessageError):
    """Bytes that are not those that were sent; to be sent again."""


class Head(BaseModel):
    """The part of a message that is read first."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    kind: Kind
    run: str = Field(max_length=64, pattern="^([A-Za-z0-9][A-Za-z0-9_-]*)?$")  # names a folder
    number: int = Field(ge=0)  # of the question; an answer repeats it
    sender: str = Field(max_length=64)
    note: dict[str, Any] = {}


class Message(NamedTuple):
    """A message after the first checks."""

    head: Head
    tensors: dict[str, Tensor] = {}

    @property
    def kind(self) -> Kind:
        """What it is."""
        return self.head.kind

    @property
    def note(self) -> dict[str, Any]:
        """Its small parts."""
        return self.head.note


def message(
    kind: Kind,
    run: str,
    number: int,
    sender: str,
    tensors: Tree = (),
    note: Mapping[str, Any] | None = None,
) -> Message:
    """A message with a tree of tensors in it; of a code of varying length only what is used."""
    head = Head(kind=kind, run=run, number=number, sender=sender, note=dict(note or {}))
    return Message(head, {k: _used(x) for k, x in tree.named(tensors, _ragged).items()})


def fitted(tensors: dict[str, Tensor], like: Tree, what: str) -> Tree:
    """The tree of tensors that ``like`` is a template of, or one sentence on what is wrong."""
    wanted, found = tree.named(like, _ragged), dict[str, Tensor]()
    if tensors.keys() != wanted.keys():
        odd = sorted(tensors.keys() ^ wanted.keys())[0]
        raise MessageError(
            f"{what} does not have the tensors that the recipe declares: '{odd}' "
            f"{'is missing' if odd in wanted else 'is not among them'}."
        )
    for name, x in tensors.items():
        model = wanted[name]
        if isinstance(model, Ragged):
            found |= _whole(name, x, model, what)
            continue
        if x.shape != model.shape or x.dtype != model.dtype:
            raise MessageError(
                f"{what} holds '{name}' as {_form(x)}; the recipe declares {_form(model)}."
            )
        if not _finite(x):
            raise MessageError(f"{what} holds numbers in '{name}' that are not finite.")
        found[name] = x
    return tree.restore(found, like)


def _finite(x: Tensor) -> bool:
    """A few numbers at a time: to ask all at once takes as much memory again."""
    few = x.reshape(-1).split(FEW) if x.is_floating_point() else ()
    return all(bool(torch.isfinite(some).all()) for some in few)


def _ragged(x: Any) -> bool:
    return isinstance(x, Ragged)


def _used(x: Any) -> Tensor:
    """What travels of a leaf."""
    used: Tensor = x.data[: int(x.used)] if isinstance(x, Ragged) else x
    return used


def _whole(name: str, x: Tensor, model: Ragged, what: str) -> dict[str, Tensor]:
    """The leaves of a code of varying length, from the bytes that travelled."""
    most = len(model.data)
    if x.ndim != 1 or x.dtype != model.data.dtype or len(x) > most:
        raise MessageError(
            f"{what} holds '{name}' as {_form(x)}; the recipe declares at most {most} bytes."
        )
    data = torch.cat([x, model.data.new_zeros(most - len(x))])
    return {f"{name}.data": data, f"{name}.used": torch.full_like(model.used, len(x))}


def under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors of one part of a message, by the names that its template gives them."""
    key = f"['{prefix}']"
    return {name[len(key) :]: x for name, x in tensors.items() if name.startswith(key)}


def numbers(note: Any, what: str) -> dict[str, float]:
    """A table of finite numbers out of a head."""
    if not isinstance(note, dict) or len(note) > 64:
        raise MessageError(f"{what} must be a small table of numbers.")
    for name, value in note.items():
        fine = isinstance(value, int | float) and not isinstance(value, bool)
        if not fine or not abs(float(value)) < float("inf"):
            raise MessageError(f"{what} holds '{name}', which is not a finite number.")
    return {str(k): float(v) for k, v in note.items()}


def digest(config: dict[str, Any]) -> str:
    """What a coordinator and a site compare to know that they follow the same recipe."""
    told = json.dumps([release(), config], sort_keys=True)
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


def _form(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} of shape {tuple(x.shape)}"
