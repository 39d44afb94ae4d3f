"""The networks of the workloads in JAX: channels last, weights as (inputs, outputs)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from workload import HIDDEN, Work, first

SQUARE = 7  # what is left of an image after both convolutions


def from_torch(work: Work, weights: list[np.ndarray]) -> list[np.ndarray]:
    """Weights in JAX's layout."""
    if work.model == "lstm":
        return [weights[0], *(w.T for w in weights[1:])]
    made = [w.T if w.ndim == 2 else w for w in weights]
    if work.model == "cnn":
        for i in (0, 2):
            made[i] = weights[i].transpose(2, 3, 1, 0)
        hidden = weights[4].reshape(-1, 64, SQUARE, SQUARE)
        made[4] = hidden.transpose(2, 3, 1, 0).reshape(-1, len(hidden))
    return made


def to_torch(work: Work, weights: list[np.ndarray]) -> list[np.ndarray]:
    """And back."""
    weights = [np.asarray(w) for w in weights]
    if work.model == "lstm":
        return [weights[0], *(w.T for w in weights[1:])]
    made = [w.T if w.ndim == 2 else w for w in weights]
    if work.model == "cnn":
        for i in (0, 2):
            made[i] = weights[i].transpose(3, 2, 0, 1)
        hidden = weights[4].reshape(SQUARE, SQUARE, 64, -1)
        made[4] = hidden.transpose(3, 2, 0, 1).reshape(hidden.shape[-1], -1)
    return made


def start(work: Work) -> list[jax.Array]:
    """The weights that everybody starts from."""
    return [jnp.array(w) for w in from_torch(work, first(work))]


def inputs(work: Work, x: np.ndarray) -> np.ndarray:
    """The examples as the networks take them."""
    if work.model == "lstm":
        return x.astype(np.int32)
    return x.reshape(len(x), 28, 28, 1) if work.model == "cnn" else x.reshape(len(x), -1)


def dense(w, x):
    for i in (0, 2):
        x = jax.nn.relu(x @ w[i] + w[i + 1])
    return x @ w[4] + w[5]


def cnn(w, x):
    """As products and shifted slices: with XLA's own, W2 took minutes on a CPU."""
    for i in (0, 2):
        x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        size, inner = x.shape[1] - 4, w[i].shape[2]
        parts = [x[:, a : a + size, b : b + size] for a in range(5) for b in range(5)]
        patches = jnp.concatenate(parts, -1)
        x = jax.nn.relu(patches @ w[i].reshape(25 * inner, -1) + w[i + 1])
        x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))  # of no weight in a maximum of these
        half = x.shape[1] // 2
        x = x.reshape(len(x), half, 2, half, 2, -1).max((2, 4))
    x = jax.nn.relu(x.reshape(len(x), -1) @ w[4] + w[5])
    return x @ w[6] + w[7]


def lstm(w, x):
    embedding, layers, last = w[0], (w[1:3], w[3:5]), w[5]
    x = embedding[x].swapaxes(0, 1)  # steps first
    for into, recurrent in layers:
        nothing = 0 * (x @ into)[0, :, :HIDDEN]  # zeros of the kind that the steps return

        def step(state, gates, recurrent=recurrent):
            h, c = state
            i, f, g, o = jnp.split(gates + h @ recurrent, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        x = jax.lax.scan(step, (nothing, nothing), x @ into)[1]
    return x[-1] @ last


def losses(work: Work) -> Callable[..., jax.Array]:
    """From weights, inputs and classes to the loss of each example."""
    forward = {"dense": dense, "cnn": cnn, "lstm": lstm}[work.model]

    def each(w, x, y):
        logits = jax.nn.log_softmax(forward(w, x))
        return -jnp.take_along_axis(logits, y[:, None], 1)[:, 0]

    return each
