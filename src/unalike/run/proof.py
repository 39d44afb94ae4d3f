"""Checkpoint files that prove themselves: a digest over every tensor and every note is one of them.

A file is safetensors with its notes in order, so that equal states are equal bytes. The digest is
BLAKE2b over the notes and over the name, kind and bytes of each tensor; whoever changes anything
without it has a file that is refused.
"""

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from unalike.errors import Damaged

FORMAT = "4"
SIZE = 16  # bytes of a digest


def pack(flat: Mapping[str, Tensor], notes: Mapping[str, str]) -> bytes:
    """A file of tensors and notes, and the digest of both."""
    held = _apart({name: x.detach().cpu().contiguous() for name, x in flat.items()})
    noted = {"format": FORMAT, **notes}
    with ThreadPoolExecutor(1) as beside:  # neither holds Python's lock, and both take their time
        proof = beside.submit(digest, held, noted)
        raw = save(held)
        noted["digest"] = proof.result()
    return _noted(raw, noted)


def _apart(flat: dict[str, Tensor]) -> dict[str, Tensor]:
    """With copies of what is held twice: servers may share a tensor, which the format refuses."""
    seen: set[int] = set()
    for name, x in flat.items():
        place = x.untyped_storage().data_ptr()
        if place in seen:
            flat[name] = x.clone()
        seen.add(place)
    return flat


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
    return notes, {name: x.to(device) for name, x in flat.items()}


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


def _noted(raw: bytes, notes: Mapping[str, str]) -> bytes:
    """The same file with notes, in order: the library writes them in that of a hash table."""
    size = int.from_bytes(raw[:8], "little")
    whole = {"__metadata__": dict(sorted(notes.items())), **json.loads(raw[8 : 8 + size])}
    text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight bytes
    return b"".join((len(text).to_bytes(8, "little"), text, memoryview(raw)[8 + size :]))
