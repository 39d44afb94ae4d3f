"""SCAFFOLD (Karimireddy et al. 2020, Alg. 1): control variates against client drift.

y <- x;  K times: y <- y - eta_l (g_i(y) - c_i + c)                (lines 7-10)
c_i+ <- c_i - c + (x - y) / (K eta_l)          option II           (line 12)
x <- x + eta_g sum_i p_i (y_i - x)                                 (line 16; there p_i = 1 / |S|)
     or a step of another method's server, such as FedAdam's, along that mean
c <- c + sum_i pi_i (c_i+ - c_i),  pi_i of all clients             (line 17; there pi_i = 1 / N)

pi_i is client i's weight among all clients, so that c stays sum_i pi_i c_i and the model converges
to where sum_i pi_i grad F_i = 0. The variates are gradients at the model that clients received, so
a server may take any step from there. If leaves of the model are private, x and the variates cover
the others, and private leaves take plain steps. Without a server, it is gradient tracking with
Metropolis weights (``gradient_tracking.py``), which is the same method on a complete graph.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, cast

from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx
from unalike.algorithms.corrected import WHOLE, Corrected, Cut, Down, Mine, step_of, unfit
from unalike.algorithms.draft import Draft
from unalike.algorithms.gradient_tracking import GradientTracking, serverless
from unalike.algorithms.method import OWN_MEAN, Method, Slot
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.parts.mixing.examples import Uniform
from unalike.parts.optim import Optimizer, Sgd
from unalike.parts.topology import Decentralized
from unalike.rng import Key
from unalike.settings import setting
from unalike.tasks import Task
from unalike.traits import Trait
from unalike.tree import Params
from unalike.uploads import Uploads


class Server(NamedTuple):
    """The model, the server's control variate, which covers the trainable weights only, and more.

    The last is what the server's optimizer remembers, if it has one.
    """

    x: Params
    c: Params
    opt: Any = ()


class Up(NamedTuple):
    """The change of the model and of this client's control variate."""

    delta: Params
    dc: Params


@dataclass(frozen=True)
class Scaffold(Corrected):
    """Two vectors each way; every client keeps its own control variate."""

    task: Task
    n_clients: int
    opt: Sgd = Sgd(0.1)
    server_lr: float = 1.0
    cut: Cut = WHOLE
    server_opt: Optimizer | None = None  # None: the plain step of that rate

    def server_init(self, w: Params, key: Key) -> Server:
        """The shared leaves, and a zero control variate."""
        x, c = self.shared(w)
        return Server(x, c, self.begin(c))

    def broadcast(self, server: Server) -> Down:
        """Model and variate; what the optimizer remembers stays."""
        return Down(server.x, server.c)

    def client_init(self, w: Params, key: Key) -> Mine:
        """The private leaves, and a zero control variate."""
        return Mine(self.handed(w), self.shared(w)[1])

    def client(
        self, down: Down, mine: Mine, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Mine]:
        """Corrected local steps, then the new control variate by option II."""
        c, c_i, first = down.c, mine.c, down.x if start is None else start
        way = self.corrected(first, mine.own, tree.sub(c, c_i), data, ctx)
        dc = tree.sub(way.z, c)
        return Up(tree.sub(way.w, down.x), dc), way.stats, Mine(way.own, tree.add(c_i, dc))

    def upload_like(self, down: Down) -> Up:
        """Two vectors, as in a download."""
        return Up(down.x, down.c)

    def server(self, server: Server, ups: Uploads, p: Tensor, cohort: Cohort) -> Server:
        """Step along the mean change; the variate moves by what the cohort counts among all."""
        x, opt = self.stepped(server.x, ups.mean(p, lambda up: up.delta), p.sum(), server.opt)
        pi = cohort.among(self.n_clients, p)
        return Server(x, tree.add(server.c, ups.mean(pi, lambda up: up.dc)), opt)


class ScaffoldMethod(Method):
    """Control variates correct the drift of local steps; two vectors travel each way."""

    slot: ClassVar[Slot] = "algorithm"
    traits = frozenset({Trait.SPLITS_MODELS, Trait.FEDAVG_OBJECTIVE, Trait.FEDAVG_SERVER})
    refuses = {
        **OWN_MEAN,
        Trait.PULLS: "its control variates are gradients of the loss, computed from a client's "
        "path, and a pull would change that path",
        Trait.EDGE_SERVERS: "each server would need the mean of all clients' control variates "
        "but only hears its own clients",
    }
    paper: ClassVar[str] = "Karimireddy et al. 2020, arXiv 1910.06378"

    server_lr: float = setting(
        1.0,
        "server learning rate eta_g",
        gt=0,
        source="text: the experiments' global step size",
    )
    averaging: Literal["uniform", "size"] = setting(
        "uniform",
        "line 16 as a plain mean (paper) or by examples; another method's weights take precedence",
        source="text, Algorithm 1, line 16",
    )

    def change(self, draft: Draft) -> Draft:
        """Replace the algorithm."""
        mean = Uniform() if self.averaging == "uniform" else draft.mean
        draft = replace(draft, mean=mean, base=self._make)
        if isinstance(draft.topology, Decentralized):
            return replace(draft, topology=replace(draft.topology, weights="metropolis"))
        return draft

    def objection(self, draft: Draft) -> str:
        """Option II reads the gradients from a client's path; c must stay the mean of c_i."""
        alone = draft.topology.local and serverless(draft, self.averaging == "size", "scaffold")
        return alone or unfit(draft, self.server_lr, "scaffold")

    def _make(self, draft: Draft) -> Scaffold | GradientTracking:
        sgd, cut = cast(Sgd, draft.opt), Cut.of(draft)  # the first is checked by ``objection``
        if draft.topology.local:
            return GradientTracking(draft.task, sgd, self.server_lr, cut)
        return Scaffold(draft.task, draft.n_clients, sgd, self.server_lr, cut, step_of(draft))
