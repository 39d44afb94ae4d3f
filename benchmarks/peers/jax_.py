"""JAX by hand: scan over steps, clients sharded over the cores.

The clients of a core are computed together (vmap, "together") or one after the other (scan, "in
turn"). What one would write for equal sizes; with unequal ones every client is padded to the
longest of its round, rounded up to a power of two so that few programs are compiled.
"""

import os

os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={os.cpu_count()}"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax_networks import inputs, losses, start, to_torch
from workload import chosen, cohort, data, take_turns

work, starts = chosen()
x, y = data(work)
mesh = Mesh(np.array(jax.devices()), ("clients",))
whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("clients"))
x, y = (jax.device_put(a, whole) for a in (inputs(work, x), y.astype(np.int32)))
w = jax.device_put(start(work), whole)
each = losses(work)
together = os.environ["MODE"] == "together"


def loss(w, x, y, real):
    return (each(w, x, y) * real).sum() / jnp.maximum(real.sum(), 1)


def client(w, x, y, rows, real):
    def step(w, batch):
        rows, real = batch
        g = jax.grad(loss)(w, x[rows], y[rows], real)
        return [a - work.lr * b for a, b in zip(w, g, strict=True)], None

    return jax.lax.scan(step, w, (rows, real))[0]


def core(w, x, y, rows, real, p):
    """The weighted sum of the models of a core's clients, and of all cores' sums."""
    if together:
        w = jax.lax.pcast(w, "clients", to="varying")
        models = jax.vmap(client, (None, None, None, 0, 0))(w, x, y, rows, real)
        summed = [jnp.tensordot(p, m, 1) for m in models]
    else:
        w = jax.lax.pcast(w, "clients", to="varying")

        def add(total, one):
            rows, real, p = one
            model = client(w, x, y, rows, real)
            return [t + p * m for t, m in zip(total, model, strict=True)], None

        summed = jax.lax.scan(add, [jnp.zeros_like(v) for v in w], (rows, real, p))[0]
    return jax.lax.psum(summed, "clients")


of_all, of_some = P(), P("clients")
given = (of_all, of_all, of_all, of_some, of_some, of_some)
played = jax.jit(jax.shard_map(core, mesh=mesh, in_specs=given, out_specs=of_all))


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
    p = (sizes / sizes.sum()).astype(np.float32)
    shared = (jax.device_put(a, split) for a in (rows.reshape(cut), real.reshape(cut), p))
    w = played(w, x, y, *shared)
    jax.block_until_ready(w)


take_turns(one, lambda: to_torch(work, w))
