"""K-GT, gradient tracking with local steps (Liu et al. 2023, Alg. 1): SCAFFOLD without a server.

K times:  y <- y - eta (g_i(y) + c_i),  y from x_i
z_i <- (x_i - y) / (K eta)
c_i <- c_i - z_i + sum_j a_ij z_j
x_i <- sum_j a_ij (x_j + eta_g (y_j - x_j))

With a_ij doubly stochastic sum_i c_i stays 0, and all models converge to where the plain mean of
the gradients is 0. On a complete graph c_i is SCAFFOLD's c - c_i, and the two are one method.
"""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from unalike import tree
from unalike.algorithm import Ctx
from unalike.algorithms.corrected import WHOLE, Corrected, Cut, Down, Mine, step_of
from unalike.algorithms.draft import Draft
from unalike.batches import Batches
from unalike.cohort import Cohort
from unalike.parts.optim import Sgd
from unalike.rng import Key
from unalike.tasks import Task
from unalike.tree import Params
from unalike.uploads import Uploads


def serverless(draft: Draft, by_size: bool, method: str) -> str:
    """Why there must be a server, as a sentence; empty if there need not be one."""
    if by_size:
        return (
            f"method '{method}' without a server needs weights that keep the plain mean; leave "
            "averaging = 'size' out."
        )
    if step_of(draft) is None:
        return ""
    return (
        f"method '{method}' without a server is gradient tracking, and another step on every node "
        "would move the plain mean of all models; drop the method that sets the server, or set "
        "topology.name = 'star'."
    )


class Node(NamedTuple):
    """A client as its own server: its model, its correction, its mean direction of the round."""

    x: Params
    c: Params
    z: Params


class Up(NamedTuple):
    """What came of it."""

    delta: Params
    z: Params


class Told(NamedTuple):
    """What neighbours receive, in two fields that are compressed separately."""

    x: Params
    z: Params


@dataclass(frozen=True)
class GradientTracking(Corrected):
    """A model and a direction go to every neighbour; the correction stays."""

    task: Task
    opt: Sgd = Sgd(0.1)
    server_lr: float = 1.0
    cut: Cut = WHOLE

    @property
    def separable(self) -> bool:
        """Every node takes its own step."""
        return True

    def server_init(self, w: Params, key: Key) -> Node:
        """The shared leaves, and no correction yet."""
        x, zero = self.shared(w)
        return Node(x, zero, tree.zeros(zero))

    def client_init(self, w: Params, key: Key) -> Mine:
        """The private leaves; the correction is the node's."""
        return Mine(self.handed(w), {})

    def broadcast(self, server: Node) -> Down:
        """The model and its correction."""
        return Down(server.x, server.c)

    def client(
        self, down: Down, mine: Mine, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> tuple[Up, dict[str, Tensor], Mine]:
        """Corrected local steps, and the mean of their directions."""
        first = down.x if start is None else start
        way = self.corrected(first, mine.own, down.c, data, ctx)
        return Up(tree.sub(way.w, down.x), way.z), way.stats, Mine(way.own, {})

    def upload_like(self, down: Down) -> Up:
        """Two vectors, as in a download."""
        return Up(down.x, down.c)

    def server(self, server: Node, ups: Uploads, p: Tensor, cohort: Cohort) -> Node:
        """Step along one's own change."""
        up = ups.mean(p)
        x, _ = self.stepped(server.x, up.delta, p.sum())
        return Node(x, server.c, up.z)

    def tells(self, servers: Node) -> Told:
        """Models and directions."""
        return Told(servers.x, servers.z)

    def hears(self, servers: Node, means: Told) -> Node:
        """What is left out of a correction is what the neighbours' mean direction has in it."""
        x, heard = means
        c = tree.map(lambda c, z, mean: c - z + mean, servers.c, servers.z, heard)
        return Node(x, c, servers.z)
