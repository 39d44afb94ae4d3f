"""How many rows a round trains and an evaluation tests, from the configuration and the data."""

from unalike import rng, tree
from unalike.algorithms.draft import Draft
from unalike.engine.evaluation.judging import judging
from unalike.engine.traffic.messages import messages_of
from unalike.federation.data import TEST, TRAIN, VALIDATION, Federation
from unalike.recipe import Recipe
from unalike.run.configuration.config import Config
from unalike.run.engines.choice import MANY, total
from unalike.run.experiment.cadence import PASSES, Work
from unalike.tree import Params


def work(config: Config, data: Federation, draft: Draft, last: Recipe, w: Params) -> Work:
    """Of a round and of an evaluation of the last stage, by counts alone."""
    n, task = draft.n_clients, last.algorithm.task
    every = float(data.sizes(TRAIN)[: data.n_clients].sum())
    trained = every * draft.epochs * draft.participation.invited(n) / n
    tested, clients = _tested(config, data, draft, last, w)
    weights = sum(x.numel() for x in tree.leaves(task.weights(w)))
    dense = task.network.dense
    return Work(trained, tested, weights, clients, dense, dense and total(config, data) >= MANY)


def _tested(
    config: Config, data: Federation, draft: Draft, last: Recipe, w: Params
) -> tuple[float, int]:
    """(rows that an evaluation puts through a model, once for each model; clients it tests)."""
    asked, algorithm = config.evaluation, last.algorithm
    some = judging(data.n_clients, 0 if config.participation.late else asked.clients)
    train, validation, test = (
        float(data.sizes(part)[:some].sum()) for part in (TRAIN, VALIDATION, TEST)
    )
    own, personal = data.examples.test_y, algorithm.personal_models
    rows = validation + test + (train if asked.train else 0.0)
    rows += asked.line * (validation + test) if personal else 0.0
    models = int(last.topology.home(draft.n_clients).max()) + 1
    if personal and asked.ensemble != "weights" and _in_parts(last, w):
        models = draft.n_clients
    if own is not None:
        rows += models * len(own)
    elif personal or models > 1:  # else clients have tested these rows by the same model
        rows += models * test
    new = float(data.sizes(TEST)[data.n_clients :].sum())
    steps = PASSES * config.local.batch_size * max(asked.new_client_steps, default=0) * data.n_new
    rows += new * (models + len(asked.new_client_steps)) + steps
    return rows, some + data.n_new


def _in_parts(last: Recipe, w: Params) -> bool:
    """Whether a server sends less than a model, so that only clients together can judge."""
    return tree.size_bytes(messages_of(last, w, rng.key(0)).down) < tree.size_bytes(w)
