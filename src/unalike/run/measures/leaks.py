"""What an outsider could do with the servers' models: trigger a backdoor, recognise rows.

backdoor     share of test rows of other classes that are taken for the target once the trigger is
             on them; and without it, which is what the model gets wrong anyway. Judged are the
             models of servers, an attacker's own left out; where only clients have whole models,
             each honest client's on its own test rows
membership   area under the curve of the attack that calls a row a member if the model's loss on it
             is low (Yeom et al. 2018): 0.5 is a coin, 1 tells all members. Members are a client's
             training rows, the others its test rows; no shadow model is needed. Judged is the
             model of its server or, where only clients have whole models, its own. Attackers are
             left out: labels that they made wrong would be told from true ones

The experimenter measures both: no client sends anything for it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unalike import rng, tree
from unalike.batches import Batch
from unalike.engine.attacks import Backdoor
from unalike.engine.evaluation.judging import outputs
from unalike.engine.loop import State
from unalike.federation.data import TEST, TRAIN
from unalike.run.experiment.build import Experiment
from unalike.tree import Params

ROWS = 1024  # in one forward pass


def leaks(made: Experiment, state: State) -> dict[str, Any]:
    """The numbers for a round's record, as far as the configuration asks for them."""
    found: dict[str, Any] = {}
    if isinstance(made.attack, Backdoor):
        found |= backdoor(made, made.attack, state)
    if made.config.evaluation.membership:
        found["membership"] = membership(made, state)
    return found


def _models(made: Experiment, state: State) -> list[Params]:
    """Every server's model; none where only clients hold whole ones."""
    algorithm, key = made.recipe.algorithm, made.course.judging
    found = (algorithm.model(server, key) for server in state.servers)
    return [w for w in found if w is not None]


def backdoor(made: Experiment, attack: Backdoor, state: State) -> dict[str, float]:
    """The success of a trigger on rows that nobody trained on, mean over rows and models."""
    task, hits = made.recipe.algorithm.task, list[tuple[Tensor, ...]]()
    for w, x, y in _victims(made, state):
        rows = x[y != attack.target]
        noise = rng.normal(rng.stream(0, "evaluation").to(x.device), len(rows), task.draws)
        if len(rows):
            said = (outputs(task, w, seen, noise) for seen in (attack.stamped(rows), rows))
            hits.append(tuple(_classes(out) == attack.target for out in said))

    def share(which: int) -> float:
        found = torch.cat([pair[which] for pair in hits]) if hits else torch.zeros(0)
        return round(float(found.double().mean()), 6) if len(found) else float("nan")

    return {"backdoor": share(0), "backdoor_clean": share(1)}


def _victims(made: Experiment, state: State) -> Iterator[tuple[Params, Tensor, Tensor]]:
    """Honest models, with the rows that each is tested on."""
    lying = made.attackers if made.recipe.topology.local else ()
    algorithm, key = made.recipe.algorithm, made.course.judging
    models = [algorithm.model(s, key) for j, s in enumerate(state.servers) if j not in lying]
    if any(w is not None for w in models):
        x, y = _tested(made)
        yield from ((w, x, y) for w in models if w is not None)
        return
    sim, rows = made.simulation, made.federation.rows(TEST)
    for k, w in _own(made, state):
        at = rows.of(k).to(sim.device)
        yield w, sim.x[at], sim.y[at]


def _own(made: Experiment, state: State) -> Iterator[tuple[int, Params]]:
    """Every honest client with its own model."""
    examiner = made.simulation.examiner
    downs = tree.stack([made.recipe.algorithm.broadcast(s) for s in state.servers])
    for k in sorted(set(range(made.federation.n_clients)) - set(made.attackers)):
        yield k, examiner.model(downs, int(examiner.acts_as[k]))


def _tested(made: Experiment) -> tuple[Tensor, Tensor]:
    """The data's own test set, or the test rows of all clients."""
    e, sim = made.federation.examples, made.simulation
    if e.test_x is not None and e.test_y is not None:
        return e.test_x.to(sim.device), e.test_y.to(sim.device)
    rows = made.federation.rows(TEST).order
    return e.x[rows].to(sim.device), e.y[rows].to(sim.device)


def _classes(out: Tensor) -> Tensor:
    """The class each row is taken for."""
    return (out[:, 0] > 0).long() if out.shape[-1] == 1 else out.argmax(-1)


def membership(made: Experiment, state: State) -> dict[str, Any]:
    """The attack on each honest client by its server's model or its own: mean, worst, all AUCs."""
    models, sim, data = _models(made, state), made.simulation, made.federation
    home = made.recipe.topology.home(made.loop.n).tolist()
    own = {} if models else dict(_own(made, state))
    each = []
    for k in range(data.n_clients):
        w = models[home[k] if len(home) == data.n_clients else 0] if models else own.get(k)
        train, test = (data.rows(part).of(k).to(sim.device) for part in (TRAIN, TEST))
        told = None
        if w is not None and len(train) and len(test) and k not in made.attackers:
            told = auc(_losses(made, w, train), _losses(made, w, test))
        each.append(told)
    known = [v for v in each if v is not None]
    if not known:
        return {"mean": None, "worst": None, "each": each}
    return {"mean": round(float(np.mean(known)), 6), "worst": max(known), "each": each}


def _losses(made: Experiment, w: Params, rows: Tensor) -> np.ndarray:
    """The loss of every row in evaluation mode."""
    sim, task = made.simulation, made.recipe.algorithm.task
    parts = []
    with torch.no_grad():
        for some in rows.split(ROWS):
            real = torch.ones(len(some), dtype=torch.bool, device=some.device)
            key = rng.stream(0, "evaluation").to(some.device)
            parts.append(task.each_loss(w, Batch(sim.x[some], sim.y[some], real, key, 0, 0)))
    return torch.cat(parts).double().cpu().numpy()


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """The chance that a member's loss is below another row's; ties count half.

    >>> auc(np.array([0.1, 0.2]), np.array([0.3, 0.2]))
    0.875
    """
    n, m = len(members), len(others)
    from scipy.stats import rankdata  # it takes half a second that few runs need

    ranks = rankdata(np.concatenate([members, others]))
    above = (ranks[:n].sum() - n * (n + 1) / 2) / (n * m)  # a member's loss is the larger one
    return round(float(1 - above), 6)
