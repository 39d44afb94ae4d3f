"""Numbers that only add up: pairwise masks, after Bonawitz et al. 2017 (CCS, arXiv 1611.04482).

    y_k = q_k + PRG(own_k) + sum over j > k of PRG(s_kj) - sum over j < k of PRG(s_kj)   mod 2^32

q_k are a site's weighted numbers in steps of a power of two. s_kj is agreed between two sites
(X25519), own_k belongs to one site alone; both are bound by HKDF to the current sum: the run, the
round, who takes part, with which weight and which keys. The masks of sites that received different
proposals do not cancel. In the sum of all y_k every s has cancelled, and it becomes the sum of all
q_k once every site has revealed its own_k, which it does for only one sum per round. So anyone who
relays messages sees noise until all sites agree, and then one sum.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from secrets import token_bytes
from typing import NamedTuple

import numpy as np
import torch
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from torch import Tensor

from unalike import tree
from unalike.deploy.messages import MessageError
from unalike.tree import Tree

FEWEST = 3  # with two, each could compute the other's update from the sum
BITS = 30  # of the largest possible sum; the ring has 32
CHUNK = 1 << 20  # numbers that are masked at once
TINY = -149  # the exponent of the smallest 32-bit number


class Deal(NamedTuple):
    """What one sum covers; sites that received the same derive the same masks."""

    run: str
    round: int
    attempt: int
    members: tuple[str, ...]  # ascending
    weights: tuple[float, ...]
    steps: tuple[int, ...]  # of each tensor: numbers are whole multiples of 2 to this power
    keys: tuple[bytes, ...]  # public, of each member

    def checked(self, site: str, public: bytes) -> "Deal":
        """The same, if a site may take part in it."""
        whole = len(self.members) == len(self.weights) == len(self.keys)
        if not whole or list(self.members) != sorted(set(self.members)):
            raise MessageError("the list of members of a sum is malformed.")
        if site not in self.members or self.keys[self.members.index(site)] != public:
            raise MessageError(
                "a sum was proposed without this site, or with a key that is not its own."
            )
        if not all(math.isfinite(w) and w >= 0 for w in self.weights):
            raise MessageError("the weights of a sum are not numbers of 0 or more.")
        if sum(w > 0 for w in self.weights) < FEWEST:
            raise MessageError(
                f"a sum of fewer than {FEWEST} sites would reveal too much about each of them."
            )
        return self

    def digest(self) -> bytes:
        """Of everything."""
        told = [*self[:-1], [key.hex() for key in self.keys]]
        return hashlib.sha256(json.dumps(told).encode()).digest()

    def group(self) -> str:
        """Of who takes part with which weight: another sum of the same is no other sum."""
        told = [self.run, self.round, self.members, self.weights]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()


# At a site.


class Secrets:
    """A site's keys for as long as it is joined; nothing of it is ever written down."""

    def __init__(self) -> None:
        self._pair, self._own = X25519PrivateKey.generate(), token_bytes(32)

    @property
    def public(self) -> bytes:
        """What others agree masks with."""
        return self._pair.public_key().public_bytes_raw()

    def masked(self, numbers: np.ndarray, deal: Deal, site: str) -> np.ndarray:
        """A site's numbers, [n] uint32, under all its masks."""
        total = numbers.copy()
        add_stream(total, self.own(deal))
        for name, key in zip(deal.members, deal.keys, strict=True):
            if name != site:
                shared = self._pair.exchange(X25519PublicKey.from_public_bytes(key))
                add_stream(total, _derived(shared, deal, b"pair"), minus=site > name)
        return total

    def own(self, deal: Deal) -> bytes:
        """What unmasks this site's part of a sum, once all pairwise masks have cancelled."""
        return _derived(self._own, deal, b"own")


def exponents(up: Tree) -> list[int]:
    """Of each tensor, the least power of two that no entry exceeds."""
    return [_exponent(x) for x in tree.leaves(up)]


def whole(up: Tree, weight: float, steps: Sequence[int]) -> np.ndarray:
    """Weighted numbers in whole steps, as one vector of 32-bit numbers."""
    parts = []
    for x, step in zip(tree.leaves(up), steps, strict=True):
        scaled = np.rint(np.ldexp(weight * x.detach().cpu().double().numpy().ravel(), -step))
        if len(scaled) and not np.abs(scaled).max() < 2**31:  # also if one is not a number
            raise MessageError("an update has numbers larger than agreed for the sum.")
        parts.append(scaled.astype(np.int64).astype(np.uint32))
    return np.concatenate(parts) if parts else np.zeros(0, np.uint32)


# At the coordinator.


def steps_of(weights: Sequence[float], each: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The finest steps with which no sum overflows; the error is at most half a step a site."""
    found = []
    for own in zip(*each, strict=True):
        bound = sum(w * 2.0**e for w, e in zip(weights, own, strict=True))
        found.append((math.frexp(bound)[1] if bound > 0 else TINY) - BITS)
    return tuple(found)


def opened(
    masked: Mapping[str, np.ndarray], own: Mapping[str, bytes], deal: Deal, like: Tree
) -> Tree:
    """The weighted sum of all members' numbers."""
    total = np.zeros(sum(x.numel() for x in tree.leaves(like)), np.uint32)
    for name in deal.members:
        total += masked[name]
        add_stream(total, own[name], minus=True)
    signed, start, parts = total.view(np.int32), 0, []
    for x, step in zip(tree.leaves(like), deal.steps, strict=True):
        part = np.ldexp(signed[start : start + x.numel()].astype(np.float64), step)
        parts.append(torch.from_numpy(part).to(x.dtype).reshape(x.shape))
        start += x.numel()
    rest = iter(parts)
    return tree.map(lambda _: next(rest), like)


# Both.


def add_stream(numbers: np.ndarray, seed: bytes, minus: bool = False) -> None:
    """Add, in place, numbers of 32 bits that nobody without the seed can tell from chance."""
    cipher = Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor()
    for start in range(0, len(numbers), CHUNK):
        part = numbers[start : start + CHUNK]
        mask = np.frombuffer(cipher.update(bytes(4 * len(part))), np.dtype("<u4"))
        np.subtract(part, mask, out=part) if minus else np.add(part, mask, out=part)


def _derived(secret: bytes, deal: Deal, what: bytes) -> bytes:
    return HKDF(hashes.SHA256(), 32, salt=deal.digest(), info=b"unalike sum " + what).derive(secret)


def _exponent(x: Tensor) -> int:
    top = float(x.detach().abs().max()) if x.numel() else 0.0
    if not math.isfinite(top):
        raise MessageError("the update of this site has numbers that are not finite.")
    return math.frexp(top)[1] if top else TINY
