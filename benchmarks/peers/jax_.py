"""JAX by hand: scan over steps, vmap over clients, clients sharded over the cores.

What one would write for equal sizes; with unequal ones every client is padded to the longest of
its round, rounded up to a power of two so that few programs are compiled.
"""

import os

os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={os.cpu_count()}"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from workload import LR, chosen, cohort, data, take_turns

work, starts = chosen()
x, y = data(work)
mesh = Mesh(np.array(jax.devices()), ("clients",))
whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("clients"))
x, y = (jax.device_put(a, whole) for a in (x, y.astype(np.int32)))
draw, shape = np.random.default_rng(1), ((784, 200), (200, 200), (200, work.classes))
w = [(jnp.array(draw.normal(0, s[0] ** -0.5, s), jnp.float32), jnp.zeros(s[1])) for s in shape]
w = jax.device_put(w, whole)


def loss(w, rows, real):
    h = x[rows]
    for a, b in w[:-1]:
        h = jax.nn.relu(h @ a + b)
    a, b = w[-1]
    out = jax.nn.log_softmax(h @ a + b)
    each = -jnp.take_along_axis(out, y[rows][:, None], 1)[:, 0]
    return (each * real).sum() / jnp.maximum(real.sum(), 1)


def client(w, rows, real):
    def step(w, batch):
        g = jax.grad(loss)(w, *batch)
        return jax.tree.map(lambda a, b: a - LR * b, w, g), None

    return jax.lax.scan(step, w, (rows, real))[0]


@jax.jit
def played(w, rows, real, p):
    models = jax.vmap(client, (None, 0, 0))(w, rows, real)
    return jax.tree.map(lambda m: jnp.tensordot(p, m, 1), models)


def one(t: int) -> None:
    global w
    ids, draw = np.array(cohort(work, t)), np.random.default_rng(t)
    sizes = starts[ids + 1] - starts[ids]
    steps = -(-int(sizes.max()) // work.batch)
    if len(set(sizes)) > 1:
        steps = 1 << (steps - 1).bit_length()
    rows = np.zeros((len(ids), steps * work.batch), np.int32)
    real = np.zeros(rows.shape, np.float32)
    for k, (c, n) in enumerate(zip(ids, sizes, strict=True)):
        rows[k, :n], real[k, :n] = starts[c] + draw.permutation(n), 1
    cut = (len(ids), steps, work.batch)
    rows, real = (jax.device_put(a.reshape(cut), split) for a in (rows, real))
    w = played(w, rows, real, jnp.array(sizes / sizes.sum(), jnp.float32))
    jax.block_until_ready(w)


take_turns(one)
