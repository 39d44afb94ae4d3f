"""What all sites agreed on at the start, on disk: a run continues even if some are absent."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from unalike.deploy.agreement import Hello
from unalike.deploy.frames import opened, pack
from unalike.deploy.messages import message, under
from unalike.files import write
from unalike.tree import Tree


class Remembered(NamedTuple):
    """The first questions, which are asked only once, and their answers."""

    hellos: Mapping[str, Hello]
    scale: Tree  # what features are prepared by
    sizes: Tensor  # training rows of each site, by number
    survey: Mapping[str, Tensor] = {}


def remember(path: Path, run: str, known: Remembered) -> None:
    """Write it down."""
    told = json.dumps({name: hello.model_dump() for name, hello in known.hellos.items()})
    hellos = torch.frombuffer(bytearray(told.encode()), dtype=torch.uint8)  # too long for a head
    held = {**known._asdict(), "hellos": hellos}
    write(path, pack(message("welcome", run, 0, "", held)).pieces())


def remembered(path: Path) -> Remembered | None:
    """What was written down, if anything was."""
    if not path.exists():
        return None
    found = opened(path).tensors
    told = json.loads(under(found, "hellos")[""].numpy().tobytes())
    scale, survey = ({k[2:-2]: x for k, x in under(found, w).items()} for w in ("scale", "survey"))
    hellos = {name: Hello.model_validate(hello) for name, hello in told.items()}
    return Remembered(hellos, scale, under(found, "sizes")[""], survey)
