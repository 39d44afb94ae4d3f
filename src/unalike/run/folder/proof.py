"""Checkpoint files that carry a digest of all their tensors and notes.

A file is safetensors with its notes in order, so that equal states are equal bytes. The digest is
BLAKE2b over the notes and over the name, kind and bytes of each tensor; a file in which anything
was changed without it is refused.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from unalike.errors import Damaged
from unalike.packed import owned, parts

FORMAT = "4"
SIZE = 16  # bytes of a digest


def pack(flat: Mapping[str, Tensor], notes: Mapping[str, str]) -> bytes:
    """A file of tensors and notes, and the digest of both."""
    return b"".join(pieces(flat, notes))


def pieces(flat: Mapping[str, Tensor], notes: Mapping[str, str]) -> list[bytes | memoryview]:
    """The same in parts, of which the large ones are the tensors' own memory."""
    held = {name: x.detach().cpu().contiguous() for name, x in flat.items()}
    noted = {"format": FORMAT, **notes}
    return parts(held, {**noted, "digest": digest(held, noted)})


def unpack(path: Path, device: str = "cpu") -> tuple[dict[str, str], dict[str, Tensor]]:
    """(notes, tensors) of a file that proves itself."""
    try:
        with safe_open(path, "pt") as f:
            notes, names = f.metadata() or {}, f.keys()
            flat = {name: f.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise Damaged(f"'{path}' is damaged ({error}); {_RESTART}") from None
    if notes.get("format") != FORMAT:
        raise Damaged(
            f"'{path}' was not written by this version of unalike; resume with the version that "
            "wrote it, or delete the folder 'checkpoint' to start from round 1."
        )
    if notes.get("digest") != digest(flat, notes):
        raise Damaged(f"'{path}' is damaged (its digest is another); {_RESTART}")
    return notes, {name: x.to(device) for name, x in owned(flat).items()}


_RESTART = "restore it from a copy, or delete the folder 'checkpoint' to start from round 1."


def digest(flat: Mapping[str, Tensor], notes: Mapping[str, str]) -> str:
    """Of tensors on the CPU and notes, in whatever order they come."""
    found = hashlib.blake2b(digest_size=SIZE)
    told = {name: text for name, text in notes.items() if name != "digest"}
    found.update(json.dumps(told, sort_keys=True).encode())
    for name in sorted(flat):
        x = flat[name]
        found.update(json.dumps([name, str(x.dtype), list(x.shape)]).encode())
        found.update(x.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
