"""An adversary on a finished representation: can protected attributes be predicted from it?

adversary   a fresh one, the same for every method: the network is fixed, the adversary learns from
            the representations of a client's training rows
fooled      the one that took part in the training, if there was one; published tables have this

Each is tested on the client's test rows by the area under the ROC curve, where 0.5 is a guess. The
second only shows whether the representation deceives the adversary it was trained against; the
first shows whether the attributes have been removed from it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from unalike import rng
from unalike.errors import ConfigError
from unalike.generator import seeded
from unalike.gradient import gradient
from unalike.metrics.auroc import binary_auroc
from unalike.network import Network
from unalike.parts.optim import Adam
from unalike.parts.representation.cut import LOCAL, tapped, width
from unalike.parts.representation.local import Fair, adversary
from unalike.rng import Key
from unalike.tasks import Task
from unalike.tree import Params

STEPS = 200  # of Adam, each on all rows


class Probe:
    """Tries adversaries on the representation that goes into a network's head."""

    def __init__(self, task: Task, protected: tuple[str, ...], shape: tuple[int, ...]) -> None:
        """``protected`` are the last of the features, whose shape is given."""
        if not protected:
            raise ConfigError(
                "evaluation.adversary guesses protected attributes, but the data name none; set "
                "data.protected, for instance to ['race', 'sex'] of adult."
            )
        if not task.network.head:
            raise ConfigError(
                "evaluation.adversary looks at the input of the model's head: give the module an "
                "attribute head = ('layer.',)."
            )
        if task.draws:
            raise ConfigError(
                f"evaluation.adversary looks at the input of the model's head, and {task.called} "
                "adds noise to it; leave it out."
            )
        self.attributes, beside = len(protected), getattr(task, "beside", None)
        self.against = beside.of if isinstance(beside, Fair) else None
        head = tapped(task.network, task.network.head)
        self.tap = head if self.against is None else self.against.tap
        with seeded(rng.key(0)):  # a new module draws; what is drawn is not used
            self.network = Network(adversary(width(self.tap, shape), self.attributes))

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics it gives."""
        return ("adversary",) if self.against is None else ("adversary", "fooled")

    def __call__(self, w: Params, seen: Tensor, unseen: Tensor, key: Key) -> list[float]:
        """The mean over attributes of each area on ``unseen`` rows; NaN if none can be told."""
        if not len(seen) or not len(unseen):
            return [float("nan")] * len(self.names)
        h, after = self._representation(w, seen), self._representation(w, unseen)
        mean, spread = h.mean(0), h.std(0, correction=0).clamp(min=1e-6)
        said = self._learned((h - mean) / spread, self._told(seen), (after - mean) / spread, key)
        found = [self._area(said, unseen)]
        if self.against is not None:
            own = {n.removeprefix(f"{LOCAL}."): v for n, v in w.items() if n.startswith(LOCAL)}
            with torch.no_grad():
                found.append(self._area(self.against.local.eval(own, after), unseen))
        return found

    def _area(self, said: Tensor, x: Tensor) -> float:
        one, target = torch.zeros(len(x), dtype=torch.long), self._told(x).bool().cpu()
        each = range(self.attributes)
        areas = [binary_auroc(said[:, j].cpu(), target[:, j], one, 1) for j in each]
        return float(torch.cat(areas).nanmean())

    def _told(self, x: Tensor) -> Tensor:
        return x[:, x.shape[1] - self.attributes :]

    def _representation(self, w: Params, x: Tensor) -> Tensor:
        with torch.no_grad():
            _, h = self.tap.eval({f"inner.{n}": v for n, v in w.items()}, x)
        vectors: Tensor = h.flatten(1)
        return vectors

    def _learned(self, h: Tensor, target: Tensor, after: Tensor, key: Key) -> Tensor:
        """What an adversary says of the second representations, having seen the first."""
        network = self.network
        theta = {n: v.to(h) for n, v in network.init(rng.fold_in(key, 4).cpu()).items()}
        adam = Adam(0.01, weight_decay=1e-3)
        state = adam.init(theta)

        def loss(w: Params) -> tuple[Tensor, tuple[()]]:
            return F.binary_cross_entropy_with_logits(network.eval(w, h), target), ()

        for _ in range(STEPS):
            g, _ = gradient(loss, theta)
            theta, state = adam.update(g, state, theta)
        with torch.no_grad():
            said: Tensor = network.eval(theta, after)
        return said
