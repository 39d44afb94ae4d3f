"""FedMix (Yoon et al. 2021, Alg. 1 to 3): clients mix their examples with means over all clients.

before:  every client sends means of its features and labels, and is sent those of all   (MAFL)
then:    FedAvg on the loss of mixed examples, exactly (NaiveMix) or by its Taylor expansion at the
         client's own examples shrunk by 1 - s (FedMix); ``parts/mixup.py`` has both

s = 0 is FedAvg.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from torch import Tensor

from unalike.algorithms.collecting import Collecting
from unalike.algorithms.draft import Before, Draft, fedavg
from unalike.algorithms.fedavg import Down, FedAvg
from unalike.algorithms.generated import needs_classes
from unalike.algorithms.method import Method, Slot
from unalike.parts.descent import Objective
from unalike.parts.mixup import How, Mixed
from unalike.rng import Key
from unalike.settings import setting
from unalike.traits import Trait
from unalike.tree import Params, Tree


@dataclass(frozen=True)
class FedMix(FedAvg):
    """FedAvg whose clients mix."""

    share: float = 0.1
    how: How = "taylor"
    pool: Params = field(default_factory=dict, compare=False)

    def inherit(self, model: Params) -> Self:
        """With the means of the stage before."""
        return replace(self, pool=model)

    def handed(self, w: Params) -> Tree:
        """The means, which every client is sent once."""
        return self.pool

    def client_init(self, w: Params, key: Key) -> Any:
        """No leaf is private."""
        return self.first({}, self.task.weights(w))

    def objective(self, down: Down, own: Params) -> tuple[Objective, Any]:
        """The loss of mixed examples."""
        pool = {k: v.to(next(iter(down.x.values())).device) for k, v in self.pool.items()}
        return Mixed(self.task, self.share, self.how), pool


class FedMixMethod(Method):
    """Clients train on their examples mixed with means of all clients' examples, sent once."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.FEDAVG_SERVER})
    refuses = {
        Trait.ALTERS_UPLOADS: "its clients share means of examples without noise, so nothing "
        "would be hidden",
        Trait.MANY_SERVERS: "one server must pass on everybody's means",
    }
    paper: ClassVar[str] = "Yoon et al. 2021, arXiv 2107.00233"

    share: float = setting(
        0.1,
        "how much of a mean is mixed into an example (lambda); 0 is FedAvg",
        ge=0,
        lt=1,
        source="text: on CIFAR-100; it has 0.05 on CIFAR-10 and 0.2 on FEMNIST",
    )
    how: How = setting(
        "taylor",
        "mix by a Taylor expansion (FedMix) or plainly (NaiveMix)",
        source="text: FedMix is the method it proposes",
    )
    parts: int = setting(
        1,
        "number of means that every client sends, each over an equal part of its examples",
        ge=1,
        source="text: the mean of all examples of a client",
    )

    def change(self, draft: Draft) -> Draft:
        """Mix, and collect the means before."""
        return replace(draft, base=self._make, before=Before(self._collecting, 1))

    def objection(self, draft: Draft) -> str:
        """Labels are mixed, and all clients must be there to be asked."""
        if draft.late is not None:
            return (
                "method 'fedmix' asks all clients before the first round, and some join later; "
                "leave the late clients out."
            )
        return needs_classes(draft, "fedmix")

    def misfit(self, x: Tensor) -> str:
        """Symbols have no means."""
        if x.is_floating_point():
            return ""
        return "method 'fedmix' mixes features, and those of the data are tokens; use numbers."

    def _collecting(self, draft: Draft) -> Draft:
        d, size = draft, (draft.task, draft.n_clients, draft.classes, draft.shape)
        plain = Draft(*size, 1, topology=d.topology, clock=d.clock, fits=d.fits)
        return replace(plain, batch_size=d.batch_size, base=lambda _: Collecting(*size, self.parts))

    def _make(self, draft: Draft) -> FedMix:
        plain = vars(fedavg(draft))
        return FedMix(**plain, share=self.share, how=self.how)
