"""FedEvg (Hahn et al. 2024): no weights travel, only synthetic data and energy gradients.

E(x, y) = -f(x)[y], f the logits of a classifier
client: a fresh model; per minibatch R Langevin steps on its copy of the synthetic set, then
        minimise mean E(real) - mean E(refined) + CE(real) + c CE(downloaded)
        sends a u and a,  u = dE/dx and a = exp(sign(-E)) at the downloaded set
server: x <- x - beta_t sum_k p_k a_k u_k / sum_k p_k a_k + delta noise         (Langevin step)

The mixture of densities that eq. 4.13 follows has a = exp(-E); the text puts the sign there since E
has no bounds. With it clients send u and -E, and the server takes a softmax, which cannot overflow.

With ReLU or max-pooling u is a step function of the weights: where a rounding error turns a single
unit on, dE/dx jumps, Adam makes a full step of it, and results of two devices part by some percent.
With a smooth network (the authors' SiLU) the same error stays as small as it was.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

from torch import Tensor

from unalike import rng
from unalike.algorithm import Ctx, Stateless
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import NO_MODEL_SENT, Method, Slot
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.parts.energy import Batched, Energy, Of, Start
from unalike.parts.langevin import Langevin, Mixture, Up
from unalike.parts.optim import Adam
from unalike.parts.synthetic import Synthetic, noise, outside, trained_on
from unalike.rng import ClientStream, Key
from unalike.settings import setting
from unalike.tasks import MultiClass
from unalike.traits import Trait
from unalike.tree import Params
from unalike.uploads import Uploads


@dataclass(frozen=True)
class FedEvg(Stateless):
    """Federated energy-based generation.

    ``task`` is the classifier that is trained on the synthetic set to judge it, without the
    spectral norm that the clients' network, that of ``energy``, may have.
    """

    task: MultiClass
    energy: Energy
    langevin: Langevin
    shape: tuple[int, ...]
    classes: int
    per_class: int = 10
    judge_epochs: int = 100
    judge: Literal["server", "own"] = "server"

    @property
    def personal_models(self) -> bool:
        """Whether clients keep the classifiers that they train and are tested with them."""
        return self.judge == "own"

    def client_init(self, w: Params, key: Key) -> Any:
        """The initial model, for clients that have not trained yet."""
        return w if self.personal_models else ()

    def server_init(self, w: Params, key: Key) -> Synthetic:
        """Gaussian noise with balanced labels."""
        return noise(key, self.shape, self.classes, self.per_class, next(iter(w.values())))

    def client(
        self, down: Synthetic, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Any]:
        """Fit an energy model from scratch and report its gradients at the synthetic set."""
        x, y, key = down.x, down.y, rng.fold_in(ctx.key, ClientStream.MODEL)
        w = self.energy.fit(key, x, y, data, ctx.rate)
        up = self.langevin.said(self.energy.slope(w, x, y), -self.energy(w, x, y))
        return up, {"gradients": data.gradients + len(y)}, w if self.personal_models else mine

    def upload_like(self, down: Synthetic) -> Up:
        """As many gradients as synthetic examples, and a number for each."""
        return Up(down.x, down.x.flatten(1)[:, 0])

    def server(self, server: Synthetic, ups: Uploads, p: Tensor, cohort: Cohort) -> Synthetic:
        """One Langevin step on the mixture of the clients' energies."""
        x = self.langevin(server.x, ups, p, cohort.round, cohort.key)
        return server._replace(x=self.energy.bounded(x))

    def personal(self, down: Synthetic, mine: Any) -> Params | None:
        """The client's own classifier as ``task`` has it, or None for that of ``model``."""
        return self.energy.ordinary(mine) if self.personal_models else None

    def model(self, server: Synthetic, key: Key) -> Params | None:
        """A fresh classifier trained on the synthetic set, outside the round."""
        return trained_on(self.task, server.x, server.y, self.judge_epochs, key)

    def products(self, server: Synthetic) -> dict[str, dict[str, Tensor]]:
        """The synthetic set itself."""
        return {"synthetic": server._asdict()}


class FedEvgMethod(Method):
    """Clients shape a shared synthetic dataset; no model ever travels."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.SENDS_NO_MODEL, Trait.MAKES_EXAMPLES})
    refuses = {
        **NO_MODEL_SENT,
        Trait.MANY_SERVERS: "an average of several servers' synthetic examples is not an example",
    }
    paper: ClassVar[str] = "Hahn et al. 2024, energy-based federated data generation"

    per_class: int = setting(
        10, "synthetic examples of each class", ge=1, source="text: for all experiments"
    )
    energy: Of = setting(
        "joint",
        "-f(x)[y], or -log sum_y exp f(x)[y], which ignores labels",
        source="text: algorithm 4.2; both are in eq. 4.8",
    )
    mixture: Mixture = setting(
        "signed",
        "a client's weight for an example: exp(sign(-E)), or exp(-E) as in a mixture of densities",
        source="text: algorithms 4.1 and 4.2; exp(-E) is eq. 4.13",
    )
    chain: int = setting(
        1, "Langevin steps per minibatch (R)", ge=0, source="text: one step suffices"
    )
    chain_start: Start = setting(
        "persistent",
        "where a chain starts: the client's copy of the set, which then keeps its end point "
        "(PCD), the minibatch (CD), or Gaussian noise (noisy CD)",
        source="text",
    )
    chain_step: float = setting(1.0, "their step size (gamma)", ge=0, source="text")
    chain_noise: float = setting(0.01, "their noise (sigma)", ge=0, source="text")
    synthetic_ce: float = setting(0.1, "weight of the synthetic CE loss", ge=0, source="text")
    ce_on: Batched = setting(
        "downloaded",
        "synthetic examples of that loss: as downloaded, or as chains have left them so far",
        source='authors\' code; "updated" is algorithm 4.2',
        only={"chain_start": "persistent"},
    )
    step_first: float = setting(
        10.0, "server step size in round 1", gt=0, source="text: for all settings"
    )
    step_last: float = setting(
        0.01, "server step size in the last round", gt=0, source="text: for all settings"
    )
    noise: float = setting(
        0.01, "server noise (delta)", ge=0, source="text; the authors' code has 0.0001"
    )
    clip_gradient: float = setting(
        3.0,
        "bound at which every energy gradient is clipped",
        gt=0,
        source="authors' code; without it the first step diverges",
    )
    clip_pixels: bool = setting(
        True,
        "keep synthetic features in [0, 1]",
        source="authors' code; without it the first step diverges",
    )
    lr: float = setting(1e-3, "Adam's rate for the energy model", gt=0, source="authors' code")
    judge_epochs: int = setting(
        100,
        "epochs of the evaluating classifier",
        ge=1,
        source="our choice: the authors' code takes one epoch, the text names none",
    )

    judge: Literal["server", "own"] = setting(
        "server",
        "what is tested on clients' own rows: a classifier trained on the synthetic set, or the "
        "classifiers that the clients train and keep",
        source="text: it evaluates the synthetic set",
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
        found = outside(x) if self.clip_pixels else ""
        return found and (
            f"method 'fedevg' keeps synthetic features in [0, 1] but those of the data {found}; "
            "set data.normalise = false or method.clip_pixels = false."
        )

    def _make(self, draft: Draft) -> FedEvg:
        adam = Adam(self.lr, b1=0.5, weight_decay=1e-4)
        energy = Energy(cast(MultiClass, draft.task), adam, **self.among(Energy))
        langevin = Langevin(draft.rounds, **self.among(Langevin))
        data, rest = (draft.shape, draft.classes), self.among(FedEvg, "energy")
        return FedEvg(energy.classifier, energy, langevin, *data, **rest)
