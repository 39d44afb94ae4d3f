# ruff: noqa: E402
"""FedJAX 0.0.17: its federated averaging, compiled for one client at a time, or for one a core.

The latter (its "pmap" backend) is what its documentation advises where there are several devices.
"""

import os

spread = os.environ["MODE"] == "pmap"
if spread:
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={os.cpu_count()}"

import fedjax
import jax
import numpy as np
from jax_networks import inputs, losses, start, to_torch
from workload import chosen, cohort, data, take_turns

if spread:
    fedjax.set_for_each_client_backend("pmap")
work, starts = chosen()
x, y = data(work)
x, y = inputs(work, x), y.astype(np.int32)
each = losses(work)


def gradient(w, batch, key):
    return jax.grad(lambda w: each(w, batch["x"], batch["y"]).mean())(w)


algorithm = fedjax.algorithms.fed_avg.federated_averaging(
    gradient,
    fedjax.optimizers.sgd(work.lr),
    fedjax.optimizers.sgd(1.0),
    fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch, num_epochs=1),
)
state = algorithm.init(start(work))


def own(name: int, rows: slice, key: jax.Array):
    return str(name).encode(), fedjax.ClientDataset({"x": x[rows], "y": y[rows]}), key


def one(t: int) -> None:
    global state
    keys = jax.random.split(jax.random.PRNGKey(t), work.cohort)
    clients = [
        own(c, slice(starts[c], starts[c + 1]), key)
        for c, key in zip(cohort(work, t), keys, strict=True)
    ]
    state, _ = algorithm.apply(state, clients)
    jax.block_until_ready(state.params)


# A last batch may have any size, and each is compiled anew: here, not in rounds that are timed.
last = {int(n) % work.batch or work.batch for n in np.diff(starts)}
if len(last) > 1:
    key = jax.random.PRNGKey(0)
    algorithm.apply(state, [own(i, slice(0, n), key) for i, n in enumerate(sorted(last))])
take_turns(one, lambda: to_torch(work, state.params))
