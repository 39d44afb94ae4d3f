"""FedJAX 0.0.17: its federated averaging, compiled for one client at a time."""

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from workload import LR, chosen, cohort, data, take_turns

work, starts = chosen()
x, y = data(work)
draw, shape = np.random.default_rng(1), ((784, 200), (200, 200), (200, work.classes))
w = [(jnp.array(draw.normal(0, s[0] ** -0.5, s), jnp.float32), jnp.zeros(s[1])) for s in shape]


def loss(w, batch):
    h = batch["x"]
    for a, b in w[:-1]:
        h = jax.nn.relu(h @ a + b)
    a, b = w[-1]
    out = jax.nn.log_softmax(h @ a + b)
    return -jnp.take_along_axis(out, batch["y"][:, None], 1).mean()


def gradient(w, batch, key):
    return jax.grad(loss)(w, batch)


algorithm = fedjax.algorithms.fed_avg.federated_averaging(
    gradient,
    fedjax.optimizers.sgd(LR),
    fedjax.optimizers.sgd(1.0),
    fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch, num_epochs=1),
)
state = algorithm.init(w)


def one(t: int) -> None:
    global state
    keys, clients = jax.random.split(jax.random.PRNGKey(t), work.cohort), []
    for c, key in zip(cohort(work, t), keys, strict=True):
        rows = slice(starts[c], starts[c + 1])
        own = fedjax.ClientDataset({"x": x[rows], "y": y[rows].astype(np.int32)})
        clients.append((str(c).encode(), own, key))
    state, _ = algorithm.apply(state, clients)
    jax.block_until_ready(state.params)


take_turns(one)
