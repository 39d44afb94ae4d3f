"""FedEvg (Hahn et al. 2024): no weights travel, only synthetic data and energy gradients.

E(x, y) = -f(x)[y], f the logits of a classifier
client: a fresh model; per minibatch R Langevin steps on its copy of the synthetic set, then
        minimise mean E(real) - mean E(refined) + CE(real) + c CE(downloaded)
        sends u = dE/dx and a = exp(sign f(x)[y]) at the downloaded set
server: x <- x - beta_t sum_k p_k a_k u_k / sum_k p_k a_k + delta noise         (Langevin step)

With ReLU or max-pooling u is a step function of the weights: where a rounding error turns a single
unit on, dE/dx jumps, Adam makes a full step of it, and results of two devices part by some percent.
With a smooth network (the authors' SiLU) the same error stays as small as it was.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from unalike import rng, tree
from unalike.algorithm import Ctx, Stateless
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import Method, Slot
from unalike.batches import Batch, Batches
from unalike.cohort import Cohort
from unalike.gradient import gradient
from unalike.models.spectral import without_spectral_norm
from unalike.parts.judge import trained_on
from unalike.parts.optim import Adam, Optimizer
from unalike.rng import ClientStream, Key, Stream
from unalike.settings import setting
from unalike.tasks import MultiClass
from unalike.traits import Trait
from unalike.tree import Params
from unalike.uploads import Uploads


class Synthetic(NamedTuple):
    """The synthetic set; its labels are balanced and never change."""

    x: Tensor
    y: Tensor


class Up(NamedTuple):
    """Per synthetic example: the energy's gradient and the client's say in it."""

    gradient: Tensor
    weight: Tensor


class Fit(NamedTuple):
    """An energy model in training, and a client's own copy of the synthetic set."""

    theta: Params
    buffers: Params
    refined: Tensor
    opt: Any


class Given(NamedTuple):
    """What a step reads and does not change."""

    down: Synthetic
    rate: Tensor


@dataclass(frozen=True)
class FedEvg(Stateless):
    """Federated energy-based generation.

    ``task`` is the classifier that is trained on the synthetic set to judge it, without the
    spectral norm that ``energies``, the clients' network, may have.
    """

    task: MultiClass
    energies: MultiClass
    shape: tuple[int, ...]
    classes: int
    rounds: int
    opt: Optimizer = Adam(1e-3, b1=0.5, weight_decay=1e-4)
    per_class: int = 10
    chain: int = 1  # R
    chain_step: float = 1.0  # gamma
    chain_noise: float = 0.01  # sigma
    synthetic_ce: float = 0.1
    step_first: float = 10.0
    step_last: float = 0.01
    noise: float = 0.01  # delta
    clip_gradient: float = 3.0
    clip_pixels: bool = True
    judge_epochs: int = 100
    personal_models: ClassVar[bool] = False

    def server_init(self, w: Params, key: Key) -> Synthetic:
        """Gaussian noise with balanced labels."""
        y = torch.arange(self.classes).repeat_interleave(self.per_class)
        return Synthetic(rng.normal(key, len(y), *self.shape).to(next(iter(w.values())).dtype), y)

    def energy(self, w: Params, x: Tensor, y: Tensor) -> Tensor:
        """The joint energy of each example."""
        return -self.energies.logits(w, x).gather(1, y[:, None])[:, 0]

    def slope(self, w: Params, x: Tensor, y: Tensor) -> Tensor:
        """The energy's gradient at each example, clipped."""
        g, _ = gradient(lambda x: (self.energy(w, x, y).sum(), ()), x)
        return g.clamp(-self.clip_gradient, self.clip_gradient)

    def refine(self, at: Fit, batch: Batch, given: Given) -> Fit:
        """Langevin steps on some of the synthetic set, then one step of the energy model."""
        down, count = given.down, len(given.down.y)
        size = min(len(batch.real), count)
        chosen = rng.permutation(rng.fold_in(batch.key, Stream.METHOD), count)[:size]
        # A short batch pairs with as few synthetic examples; the others sit this step out.
        used = (torch.arange(size, device=chosen.device) < batch.real.sum()).to(at.refined.dtype)
        x, y = at.refined[chosen], down.y[chosen]
        for i in range(self.chain):
            noise = rng.normal(rng.fold_in(batch.key, Stream.CHAIN + i), *x.shape)
            g = self.slope({**at.theta, **at.buffers}, x, y)
            x = x - self.chain_step * g + self.chain_noise * noise
        x = x.clamp(0, 1) if self.clip_pixels else x

        def objective(theta):  # type: ignore[no-untyped-def]
            w = {**theta, **at.buffers}
            ce, new = self.energies.loss(w, batch)
            n = batch.real.sum().clamp(min=1)
            real = (self.energy(w, batch.x, batch.y) * batch.real).sum() / n
            fake = (self.energy(w, x, y) * used).sum() / used.sum().clamp(min=1)
            old = F.cross_entropy(self.energies.logits(w, down.x[chosen]), y, reduction="none")
            old = (old * used).sum() / used.sum().clamp(min=1)
            return real - fake + ce + self.synthetic_ce * old, new

        g, buffers = gradient(objective, at.theta, passes=3)  # real, refined, downloaded
        theta, opt = self.opt.update(g, at.opt, at.theta, given.rate)
        mask = used.reshape(-1, *[1] * (x.ndim - 1)) > 0
        x = torch.where(mask, x, at.refined[chosen])
        return Fit(theta, buffers, at.refined.index_copy(0, chosen, x), opt)

    def client(
        self,
        down: Synthetic,
        mine: tuple[()],
        data: Batches,
        ctx: Ctx,
        start: Params | None = None,
    ) -> tuple[Up, dict[str, Tensor], tuple[()]]:
        """Fit an energy model from scratch and report its gradients at the synthetic set."""
        fresh = self.energies.init(rng.fold_in(ctx.key, ClientStream.MODEL))
        theta, buffers = self.energies.split(tree.map(lambda w: w.to(down.x.dtype), fresh))
        at = Fit(theta, buffers, down.x, self.opt.init(theta))
        end = data.fold(self.refine, at, Given(down, ctx.rate))
        w = {**end.theta, **end.buffers}
        weight = torch.exp(torch.sign(-self.energy(w, down.x, down.y)))
        taken = data.gradients + len(down.y)
        return Up(self.slope(w, down.x, down.y), weight), {"gradients": taken}, mine

    def upload_like(self, down: Synthetic) -> Up:
        """As many gradients as synthetic examples, and a number for each."""
        return Up(down.x, down.x.flatten(1)[:, 0])

    def server(self, server: Synthetic, ups: Uploads, p: Tensor, cohort: Cohort) -> Synthetic:
        """One Langevin step on the signed mixture of the clients' energies."""
        mean = ups.mean(p, self._weighted)
        step = mean.gradient / mean.weight[(...,) + (None,) * len(self.shape)]
        noise = rng.normal(cohort.key.to(step.device), *step.shape)
        beta = cosine_step(cohort.round, self.rounds, self.step_first, self.step_last)
        x = server.x - beta * step + self.noise * noise
        return server._replace(x=x.clamp(0, 1) if self.clip_pixels else x)

    def _weighted(self, up: Up) -> Up:
        """Gradients times the say in them, so that both sums are linear."""
        return Up(up.gradient * up.weight[(...,) + (None,) * len(self.shape)], up.weight)

    def personal(self, down: Synthetic, mine: tuple[()]) -> Params | None:
        """No weights travel: every client is judged by the classifier of ``model``."""
        return None

    def model(self, server: Synthetic, key: Key) -> Params | None:
        """A fresh classifier trained on the synthetic set, outside the round."""
        return trained_on(self.task, server.x, server.y, self.judge_epochs, key)


def cosine_step(t: int, rounds: int, first: float, last: float, s: float = 0.008) -> float:
    """The server's step size: almost constant, collapsing to ``last`` in the final rounds.

    b_t = 1 - f(t + 1) / f(t) with f the squared cosine of Nichol & Dhariwal (2021), without cap.
    """

    def f(k: int) -> float:
        return math.cos((k / rounds + s) / (1 + s) * math.pi / 2) ** 2

    return last if t >= rounds - 1 else first + (1 - f(t + 1) / f(t)) * (last - first)


_DIVERGES = "authors' code; without it the first step diverges"


class FedEvgMethod(Method):
    """Clients shape a shared synthetic dataset; no model ever travels."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.SENDS_NO_MODEL})
    refuses = {
        **dict.fromkeys(
            (Trait.FILTERS_UPDATES, Trait.ALTERS_UPLOADS), "it sends no updates of a model"
        ),
        Trait.WEIGHTS_FOLLOW_LOSSES: "it sends no model whose loss clients could report",
        Trait.MANY_SERVERS: "servers would average synthetic examples, which gives no examples",
    }
    paper: ClassVar[str] = "Hahn et al. 2024, energy-based federated data generation"

    per_class: int = setting(
        10, "synthetic examples of each class", ge=1, source="text: for all experiments"
    )
    chain: int = setting(
        1, "Langevin steps per minibatch (R)", ge=0, source="text: one step suffices"
    )
    chain_step: float = setting(1.0, "their step size (gamma)", ge=0, source="text")
    chain_noise: float = setting(0.01, "their noise (sigma)", ge=0, source="text")
    synthetic_ce: float = setting(0.1, "weight of the synthetic CE loss", ge=0, source="text")
    step_first: float = setting(
        10.0, "server step size in round 1", gt=0, source="text: for all settings"
    )
    step_last: float = setting(
        0.01, "server step size in the last round", gt=0, source="text: for all settings"
    )
    noise: float = setting(
        0.01, "server noise (delta)", ge=0, source="text; the authors' code has 0.0001"
    )
    clip_gradient: float = setting(3.0, "clip of every energy gradient", gt=0, source=_DIVERGES)
    clip_pixels: bool = setting(True, "keep synthetic features in [0, 1]", source=_DIVERGES)
    lr: float = setting(1e-3, "Adam's rate for the energy model", gt=0, source="authors' code")
    judge_epochs: int = setting(
        100,
        "epochs of the evaluating classifier",
        ge=1,
        source="our choice: the authors' code takes one epoch, the text names none",
    )

    def change(self, draft: Draft) -> Draft:
        """Replace the algorithm."""
        return replace(draft, base=self._make)

    def objection(self, draft: Draft) -> str:
        """An energy is a class's logit."""
        if isinstance(draft.task, MultiClass):
            return ""
        return f"method 'fedevg' needs a multi-class task, this one is {draft.task.called}."

    def misfit(self, x: Tensor) -> str:
        """Real features must be where the synthetic ones are kept."""
        if not (self.clip_pixels and len(x)):
            return ""
        low, high = float(x.min()), float(x.max())
        if low >= 0 and high <= 1:
            return ""
        return (
            f"method 'fedevg' keeps synthetic features in [0, 1] but those of the data go from "
            f"{low:.3g} to {high:.3g}; set data.normalise = false or method.clip_pixels = false."
        )

    def _make(self, draft: Draft) -> FedEvg:
        energies = draft.task
        assert isinstance(energies, MultiClass), "checked by ``objection``"
        classifier = replace(energies, network=energies.network.changed(without_spectral_norm))
        return FedEvg(
            classifier,
            energies,
            draft.shape,
            draft.classes,
            draft.rounds,
            opt=Adam(self.lr, b1=0.5, weight_decay=1e-4),
            **self.model_dump(exclude={"lr"}),
        )
