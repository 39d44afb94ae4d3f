"""Clients that lie: seeded attackers that poison their labels or forge their updates.

label_flip          y -> M - 1 - y, or one class -> another, in attackers' training rows
sign_flip           u -> -scale u                                (Li et al. 2019, RSA)
noise               u -> std xi, xi ~ N(0, I)                    (Blanchard et al. 2017)
model_replacement   flipped labels and u -> scale u              (Bagdasaryan et al. 2020)
backdoor            a trigger on some rows, which are called the target; u -> scale u
                    (Gu et al. 2017, BadNets; Bagdasaryan et al. 2020)
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.func import vmap

from unalike import channel, rng, tree
from unalike.channel import Channel, InPlace
from unalike.engine.transport import Opening, Replies, Through, Transport
from unalike.errors import ConfigError
from unalike.federation.data import Examples
from unalike.parts.participation.schedule import Plan
from unalike.parts.privacy import noise
from unalike.rng import Key
from unalike.settings import Settings
from unalike.tree import Tree


class Attack(Settings):
    """Nobody lies."""

    invents: ClassVar[bool] = False  # whether a forgery has nothing of the honest update

    def attackers(self, n: int, seed: int) -> Tensor:
        """The numbers of the lying clients, ascending; the same in every round."""
        return torch.zeros(0, dtype=torch.long)

    def poison(self, examples: Examples, rows: Tensor) -> Examples:
        """The data with the attackers' training ``rows`` changed."""
        return examples

    def forge(self, up: Tree, boost: Tensor, key: Key) -> Tree:
        """What one attacker sends instead of its update; ``boost`` is answers over attackers."""
        return up


class _Attack(Attack):
    share: float = Field(default=0.2, gt=0, lt=1, description="share of the clients that lie")
    number: int | None = Field(default=None, ge=1, description="how many, instead of a share")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if self.number is not None and self.share != type(self).model_fields["share"].default:
            raise ValueError("set either share or number, not both")
        return self

    def attackers(self, n: int, seed: int) -> Tensor:
        """A uniform draw from the attack's own stream."""
        if n < 2:
            raise ConfigError("the only client cannot be an attacker; drop [attack].")
        count = round(self.share * n) if self.number is None else self.number
        if not 1 <= count < n:
            said = f"share = {self.share:g}" if self.number is None else f"number = {self.number}"
            raise ConfigError(
                f"attack.{said} makes {count} of {n} clients attackers; choose from 1 to {n - 1}."
            )
        return rng.permutation(rng.stream(seed, "attack"), n)[:count].sort().values


def _refuse_numbers(examples: Examples) -> None:
    if examples.ranges is not None:
        raise ConfigError(
            f"the attack changes classes, and '{examples.name}' has a number to predict; use "
            "sign_flip or noise."
        )


class _Flipping(_Attack):
    source: int | None = Field(default=None, ge=0, description="only this class is relabelled")
    target: int | None = Field(default=None, ge=0, description="what it is relabelled as")

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.source is None) != (self.target is None):
            raise ValueError("give both source and target, or neither to reverse all classes")
        if self.source is not None and self.source == self.target:
            raise ValueError(f"source and target are both {self.source}; nothing would change")
        return self

    def poison(self, examples: Examples, rows: Tensor) -> Examples:
        """Wrong labels where the attackers train; what they are tested on stays true."""
        _refuse_numbers(examples)
        last = examples.classes - 1
        worst = max(self.source or 0, self.target or 0)
        if worst > last:
            raise ConfigError(
                f"attack names class {worst}, but the classes of '{examples.name}' are 0 to {last}."
            )
        y = examples.y.clone()
        own = y[rows]
        if self.source is None or self.target is None:
            y[rows] = torch.where(own < 0, own, last - own)  # some of a sequence may not count
        else:
            y[rows] = torch.where(own == self.source, self.target, own)
        return replace(examples, y=y)


class LabelFlip(_Flipping):
    """Attackers train on wrong labels: all classes reversed, or one class labelled as another."""


class SignFlip(_Attack):
    """Attackers send their update with the sign reversed, and longer."""

    scale: float = Field(default=4.0, gt=0, description="factor on the honest update")

    def forge(self, up: Tree, boost: Tensor, key: Key) -> Tree:
        """-scale u."""
        return tree.scale(-self.scale, up)


class Noise(_Attack):
    """Attackers send Gaussian noise instead of an update."""

    invents: ClassVar[bool] = True

    std: float = Field(default=1.0, gt=0, description="standard deviation of every number")

    def forge(self, up: Tree, boost: Tensor, key: Key) -> Tree:
        """Noise of the update's shape."""
        return tree.scale(self.std, noise.normal(up, key))


class ModelReplacement(_Flipping):
    """Attackers train on wrong labels and boost the update to replace the model with theirs."""

    scale: float | None = Field(
        default=None,
        gt=0,
        description="boost; unset: the number of answers over that of attackers, so that they win",
    )

    def forge(self, up: Tree, boost: Tensor, key: Key) -> Tree:
        """The update boosted."""
        return tree.map(lambda x: (boost.to(x) if self.scale is None else self.scale) * x, up)


class Backdoor(_Attack):
    """Attackers put a trigger on some rows and label them as the target; they learn the rest."""

    target: int = Field(default=0, ge=0, description="the class that the trigger should produce")
    rows: float = Field(
        default=0.5, gt=0, le=1, description="share of an attacker's training rows with the trigger"
    )
    size: int = Field(
        default=3,
        ge=1,
        description="side of the square in pixels, or number of features of a table",
    )
    value: float = Field(default=1.0, description="value of the trigger's pixels or features")
    scale: float = Field(default=1.0, gt=0, description="factor on the update")

    def poison(self, examples: Examples, rows: Tensor) -> Examples:
        """The trigger and the target's label; which rows depends on their numbers alone."""
        _refuse_numbers(examples)
        if self.target >= examples.classes:
            raise ConfigError(
                f"attack.target is {self.target}, but the classes of '{examples.name}' are 0 to "
                f"{examples.classes - 1}."
            )
        if not examples.x.is_floating_point() or examples.y.ndim > 1:
            raise ConfigError(
                "attack 'backdoor' puts a trigger on images or tables, and the examples of "
                f"'{examples.name}' are tokens; use another attack."
            )
        sides = examples.x.shape[2:] if examples.x.ndim == 4 else examples.x.shape[-1:]
        if self.size > min(sides):
            raise ConfigError(
                f"attack.size is {self.size}, but an example of '{examples.name}' has "
                f"{' x '.join(map(str, sides))} {'pixels' if len(sides) == 2 else 'features'}; "
                f"choose at most {min(sides)}."
            )
        keys = rng.fold_in(rng.key(0), rows)
        some = rows[vmap(lambda k: rng.uniform(k, 1))(keys)[:, 0] < self.rows]
        x, y = examples.x.clone(), examples.y.clone()
        x[some] = self.stamped(x[some])
        y[some] = self.target
        return replace(examples, x=x, y=y)

    def stamped(self, x: Tensor) -> Tensor:
        """Examples with the trigger: a square in the lower right corner, or the last features."""
        side = slice(-self.size, None)
        out = x.clone()
        if x.ndim == 4:
            out[:, :, side, side] = self.value
        else:
            out[..., side] = self.value
        return out

    def forge(self, up: Tree, boost: Tensor, key: Key) -> Tree:
        """scale u."""
        return up if self.scale == 1 else tree.scale(self.scale, up)


ATTACKS: dict[str, type[Attack]] = {
    "none": Attack,
    "label_flip": LabelFlip,
    "sign_flip": SignFlip,
    "noise": Noise,
    "model_replacement": ModelReplacement,
    "backdoor": Backdoor,
}


class AttackedTransport(Through):
    """A transport some of whose clients send what an attack dictates."""

    def __init__(self, inner: Transport, attack: Attack, attackers: Tensor, seed: int) -> None:
        """Forgeries depend on the seed, the round and the client alone."""
        super().__init__(inner)
        self.attack, self.attackers, self.key = attack, attackers, rng.stream(seed, "attack")
        self.forms: Channel = ()  # members of the channel that a forgery must go through

    def begin(self, opening: Opening) -> None:
        """Lies travel in the form that the server expects, but unclipped and without noise."""
        self.forms = tuple(c for c in opening.recipe.channel if not isinstance(c, InPlace))
        super().begin(opening)

    def train(self, t: int, plan: Plan, downs: Tree, home: Tensor) -> Iterator[Replies]:
        """The inner transport's answers, with the attackers' forged."""
        answering = plan.ids[plan.reply]
        liars = int(torch.isin(answering, self.attackers).sum())
        boost = torch.tensor(len(answering) / max(liars, 1))
        for part in self.inner.train(t, plan, downs, home):
            yield self._forged(part, rng.client(self.key, t, part.ids), boost)

    def _forged(self, part: Replies, keys: Key, boost: Tensor) -> Replies:
        lies = torch.isin(part.ids, self.attackers)
        if not lies.any():
            return part
        forge = vmap(self._forge, in_dims=(0, None, 0))
        here = tree.leaves(part.wire)[0].device  # positions of entries are drawn where the key is
        forged = forge(tree.row(part.wire, lies), boost, keys[lies].to(here))

        def put(honest: Tensor, lie: Tensor) -> Tensor:
            out = honest.clone()
            out[lies.to(out.device)] = lie
            return out

        return part._replace(wire=tree.map(put, part.wire, forged), lengths=None)

    def _forge(self, wire: Tree, boost: Tensor, key: Key) -> Tree:
        """A lie in the form of the honest answer."""
        if not self.attack.invents:  # multiples of an update are multiples of the numbers sent
            numbers = {k: x for k, x in tree.named(wire).items() if x.is_floating_point()}
            forged = self.attack.forge(numbers, boost, key)
            return tree.restore({**tree.named(wire), **forged}, wire)
        lie = self.attack.forge(channel.decode(self.forms, wire), boost, key)
        memory, keys = channel.begin(self.forms, lie), [key] * len(self.forms)
        return channel.encode(self.forms, lie, memory, keys)[0]
