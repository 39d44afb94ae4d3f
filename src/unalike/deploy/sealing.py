"""A site's part in secure aggregation: it keeps its update and sends its masked share of sums.

In each round it opens a single sum, which it records: two sums of one round that differ in one site
would reveal that site's update.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from unalike import tree
from unalike.deploy import masks
from unalike.deploy.keys import Credentials, vouch, vouched
from unalike.deploy.masks import Deal, Secrets
from unalike.deploy.messages import Message, MessageError
from unalike.files import write
from unalike.tree import Tree


class Proof(BaseModel):
    """A site's public key, and that it is this site's."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    public: str = Field(pattern="^[0-9a-f]{64}$")
    signature: str = Field(default="", pattern="^[0-9a-f]*$", max_length=1 << 10)
    certificate: str = Field(default="", max_length=1 << 14)


class Proposal(BaseModel):
    """A sum that sites are invited to take part in."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    round: int = Field(ge=0)
    attempt: int = Field(ge=0)
    members: list[str]
    weights: list[float]
    steps: list[int]
    proofs: list[Proof]

    def deal(self, run: str) -> Deal:
        """As masks are bound to it."""
        keys = tuple(bytes.fromhex(p.public) for p in self.proofs)
        told = tuple(self.members), tuple(self.weights), tuple(self.steps), keys
        return Deal(run, self.round, self.attempt, *told)


def told(proposal: Proposal) -> Tensor:
    """A proposal as it travels: too long for a head where sites are many."""
    return torch.frombuffer(bytearray(proposal.model_dump_json().encode()), dtype=torch.uint8)


def statement(run: str, site: str, public: str) -> bytes:
    """What a site signs."""
    return json.dumps(["unalike secure aggregation", run, site, public]).encode()


class Sealing:
    """What a site holds between its training and the sum."""

    def __init__(self, site: str, run: str, folder: Path, identity: Credentials | None) -> None:
        """Without an identity, on a loopback address, nobody's key is proven."""
        self.site, self.run, self.identity = site, run, identity
        self.secrets, self.path = Secrets(), folder / "opened.json"
        self._round, self._up = -1, ()  # type: tuple[int, Tree]
        self._deal: Deal | None = None
        self._known: set[tuple[str, Proof]] = set()

    def introduce(self) -> dict[str, Any]:
        """This site's key, signed with its certificate."""
        public = self.secrets.public.hex()
        if self.identity is None:
            return Proof(public=public).model_dump()
        signature = vouch(self.identity, statement(self.run, self.site, public)).hex()
        certificate = self.identity.certificate.decode()
        return Proof(public=public, signature=signature, certificate=certificate).model_dump()

    def hold(self, number: int, up: Tree) -> tuple[float, list[int]]:
        """Keep an update; only its length and the size of each tensor's entries are sent."""
        found = masks.exponents(up)
        self._round, self._up, self._deal = number, up, None
        one = tree.map(lambda x: x[None], up)
        return float(tree.sqnorms(one).sqrt()[0]) if found else 0.0, found

    def masked(self, question: Message) -> dict[str, Tensor]:
        """This site's numbers under masks that only a whole sum takes away."""
        proposal = self._read(question)
        if proposal.round != self._round:
            raise MessageError(f"this site holds no update of round {proposal.round + 1}.")
        deal = proposal.deal(self.run).checked(self.site, self.secrets.public)
        if len(deal.steps) != len(tree.leaves(self._up)):
            raise MessageError("the steps of a sum do not match the recipe's tensors.")
        for name, proof in zip(proposal.members, proposal.proofs, strict=True):
            self._prove(name, proof)
        weight = deal.weights[deal.members.index(self.site)]
        numbers = masks.whole(self._up, weight, deal.steps)
        self._deal = deal
        found = self.secrets.masked(numbers, deal, self.site)
        return {"masked": torch.from_numpy(found.view(np.int32))}

    def opened(self, question: Message) -> dict[str, Tensor]:
        """What takes this site's own mask away, for one sum of a round."""
        deal, number = self._deal, question.note.get("round")
        if deal is None or (deal.round, deal.attempt) != (number, question.note.get("attempt")):
            raise MessageError("this site has no part in the sum to be unmasked.")
        before = json.loads(self.path.read_bytes()) if self.path.exists() else {}
        if before.get("round") == deal.round and before.get("group") != deal.group():
            raise MessageError(
                f"this site has already unmasked another sum of round {deal.round + 1}, and two "
                "would reveal single updates."
            )
        write(self.path, json.dumps({"round": deal.round, "group": deal.group()}))
        own = bytearray(self.secrets.own(deal))
        return {"own": torch.frombuffer(own, dtype=torch.uint8)}

    def _read(self, question: Message) -> Proposal:
        raw = question.tensors.get("['proposal']")
        if raw is None or raw.dtype != torch.uint8:
            raise MessageError("a sum was requested without a proposal.")
        try:
            return Proposal.model_validate_json(raw.numpy().tobytes())
        except (ValidationError, ValueError, RecursionError):
            raise MessageError("the proposal of a sum does not follow its schema.") from None

    def _prove(self, name: str, proof: Proof) -> None:
        """Raise unless a key belongs to the site that it claims to be from."""
        if self.identity is None or (name, proof) in self._known:
            return
        said = statement(self.run, name, proof.public)
        certificate, signature = proof.certificate.encode(), bytes.fromhex(proof.signature)
        if not vouched(self.identity.authority, certificate, name, said, signature):
            raise MessageError(f"the key given for site '{name}' is not signed by it.")
        self._known.add((name, proof))
