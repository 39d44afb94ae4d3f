"""Clients one at a time, each by itself, on all workers."""

from collections.abc import Callable
from concurrent.futures import Executor

from torch import Tensor

from unalike import tree
from unalike.engine.client.round import Reply, Turns, answer, apart
from unalike.engine.simulation.vmapped import Answers, Simulated
from unalike.tree import Tree


def one_by_one(
    sim: Simulated, workers: Executor, downs: Tree, home: Tensor, kept: Tree, drawn: Turns
) -> Callable[[], Answers]:
    """Begin at once; what is returned waits for the answers."""
    todo, stateless, servers = apart(drawn), not tree.leaves(kept), tree.leaves(downs)
    several = bool(servers) and len(servers[0]) > 1
    down, homes = None if several else tree.row(downs, 0), home.tolist()

    def one(j: int) -> Reply:
        received = tree.row(downs, homes[j]) if several else down
        mine = kept if stateless else tree.row(kept, j)
        return answer(sim.recipe, sim.x, sim.y, todo[j], received, mine, sim.traced)

    replies = workers.map(one, range(len(todo)))

    def answers() -> Answers:
        wire, stats, after = (tree.stack(list(p)) for p in zip(*replies, strict=True))
        return Answers(wire, stats, after, sum(turn.work.real.numel() for turn in todo))

    return answers
