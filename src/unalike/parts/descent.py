"""The inner loop shared by every method that descends on a loss.

theta <- opt(theta, grad_theta objective(theta) + shift)          (one step on every minibatch)

In turns, a step on some of the weights, then one on the others from there:

theta_1 <- theta_1 - eta grad_1 L(theta_1, theta_2)
theta_2 <- theta_2 - eta grad_2 L(theta_1, theta_2)     (on the same batch, at the new theta_1)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from unalike import tree
from unalike.batches import Batch, Batches
from unalike.gradient import gradient
from unalike.parts.objective import Term
from unalike.parts.optim import Optimizer
from unalike.tasks import Task
from unalike.tree import Params, Tree

# objective(theta, buffers, batch, given) -> (value, buffers after the forward pass): a frozen
# record or a method of one, which reads no other tensor, so that it is the same in every round.
Objective = Callable[[Any, Params, Batch, Any], tuple[Tensor, Params]]


@dataclass(frozen=True)
class Loss:
    """The task's own loss."""

    task: Task

    @property
    def passes(self) -> int:
        """Over how many minibatches' worth of samples it goes."""
        return getattr(self.task, "passes", 1)

    def __call__(
        self, theta: Params, buffers: Params, batch: Batch, given: Any
    ) -> tuple[Tensor, Params]:
        """Its mean over the minibatch."""
        return self.task.loss({**theta, **buffers}, batch)


@dataclass(frozen=True)
class Penalised(Loss):
    """The task's loss plus a term; given are the term's coefficient and the received weights."""

    term: Term

    def __call__(
        self, theta: Params, buffers: Params, batch: Batch, given: tuple[Any, Params]
    ) -> tuple[Tensor, Params]:
        """Their sum on the minibatch."""
        loss, buffers = self.task.loss({**theta, **buffers}, batch)
        return loss + self.term(given[0], theta, given[1]), buffers


def penalised(task: Task, term: Term, coefficient: Any, received: Params) -> tuple[Objective, Any]:
    """The task's loss with a term, and what that reads; the loss itself if the term never acts.

    Zeros that are added to a gradient change how a traced step rounds it.
    """
    if getattr(term, "pull", None) == 0:  # own code need not have one
        return Loss(task), ()
    return Penalised(task, term), (coefficient, received)


class Descent(NamedTuple):
    """Where local training is, or ended."""

    theta: Any  # the trainable weights
    buffers: Params
    opt: Any  # an optimizer state for every part that steps by itself


class Given(NamedTuple):
    """What a step reads and does not change."""

    rate: Tensor
    shift: tuple[Tree, ...]  # added to the gradient of every part; empty: nothing is
    more: Any  # what the objective reads


Turns = Callable[[str], bool] | None  # the weights that step first, before the others do


def _parts(theta: Tree, turns: Turns) -> tuple[Tree, ...]:
    """What steps by itself."""
    return (theta,) if turns is None else tuple(p for p in tree.split(theta, turns) if p)


def begin(opt: Optimizer, theta: Tree, turns: Turns = None) -> tuple[Any, ...]:
    """The optimizer's state before the first step, one for every part."""
    return tuple(opt.init(part) for part in _parts(theta, turns))


@dataclass(frozen=True)
class Step:
    """One minibatch: a gradient and a step of the optimizer, for all weights or part by part."""

    objective: Objective
    opt: Optimizer
    turns: Turns = None

    def __call__(self, at: Descent, batch: Batch, given: Given) -> Descent:
        """All parts make the same draws, and buffers move by the forward pass of the first."""
        theta, moved, states = at.theta, at.buffers, []
        for i, (part, state) in enumerate(zip(_parts(at.theta, self.turns), at.opt, strict=True)):

            def value(part, theta=theta):  # type: ignore[no-untyped-def]
                whole = part if self.turns is None else {**theta, **part}
                return self.objective(whole, at.buffers, batch, given.more)

            g, buffers = gradient(value, part, passes=getattr(self.objective, "passes", 1))
            if given.shift:
                g = tree.add(g, given.shift[i])
            part, state = self.opt.update(g, state, part, given.rate)
            theta = part if self.turns is None else {**theta, **part}
            moved = moved if i else buffers
            states.append(state)
        return Descent(theta, moved, tuple(states))


def descend(
    objective: Objective,
    opt: Optimizer,
    theta: Any,
    buffers: Params,
    data: Batches,
    rate: Tensor,
    given: Any = (),
    *,
    shift: Tree | None = None,
    state: Any = None,
    turns: Turns = None,
) -> Descent:
    """Run ``opt`` on the objective over ``data``, from ``theta``, any pytree of weights.

    ``given`` goes to the objective; ``shift`` is added to every gradient; ``state`` continues an
    earlier optimizer.
    """
    at = Descent(theta, buffers, begin(opt, theta, turns) if state is None else state)
    added = () if shift is None else _parts(shift, turns)
    return data.fold(Step(objective, opt, turns), at, Given(rate, added, given))
