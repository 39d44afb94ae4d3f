"""How similar generated examples are to real ones, in the features of a trained network.

fid       ||m - m'||^2 + tr(S + S' - 2 (S S')^(1/2)), means and covariances of features of real and
          made examples                                       (Heusel et al. 2017, Frechet distance)
kid       the squared distance of the mean features under the kernel (x'y / d + 1)^3, without the
          pairs of an example with itself: unlike fid, right on average for few made examples
                                                              (Binkowski et al. 2018, unbiased MMD)
coverage  of each class, the share of real examples that have a made one of their class within
          their own k-th nearest real neighbour                         (Naeem et al. 2020, k = 5)

The network is a small one, trained here on the clients' training rows, so that nothing has to be
downloaded; its distances compare methods on the same data and are not comparable with published
FIDs. The user's own function from examples to features, or Inception, can take its place
(``extractor.py``). The experimenter measures this: no client sends anything for it.
"""

from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unalike import rng
from unalike.algorithms.table import METHODS
from unalike.engine.course import Progress
from unalike.errors import ConfigError
from unalike.federation.data import TEST, TRAIN
from unalike.generator import seeded
from unalike.run.experiment.build import Experiment
from unalike.run.measures.extractor import Extractor, extractor
from unalike.traits import Trait

STEPS, BATCH, FEATURES = 300, 128, 32  # of the small network
NEIGHBOUR = 5
ROWS = 512  # in one forward pass
EACH = 500  # real examples of a class that coverage looks at


class Fidelity:
    """Measures the synthetic set of every evaluated round against the test rows."""

    def __init__(self, made: Experiment) -> None:
        """Refuses a method that makes no examples, before the first round."""
        algorithm, w = made.recipe.algorithm, made.course.w
        if "synthetic" not in algorithm.products(algorithm.server_init(w, rng.key(0))):
            makers = (name for name, m in METHODS.items() if Trait.MAKES_EXAMPLES in m.traits)
            raise ConfigError(
                "evaluation.fidelity measures generated examples, and this method generates "
                f"none; use it with one of {', '.join(makers)}, or leave it out."
            )
        data = made.federation
        e, path = data.examples, made.config.evaluation.extractor
        rows = data.rows(TEST).order
        self.x = e.x[rows] if e.test_x is None else e.test_x
        self.y = e.y[rows] if e.test_y is None else e.test_y
        if len(self.x) < 2:
            raise ConfigError(
                "evaluation.fidelity compares how examples are spread, and there is one test row; "
                "raise split.test, or leave evaluation.fidelity out."
            )
        self.classes = e.classes
        seen = data.rows(TRAIN).order
        key = rng.stream(made.config.seed, "evaluation")
        self.extract = extractor(path) if path else trained(e.x[seen], e.y[seen], e.classes, key)
        self.real = features(self.extract, self.x)

    def __call__(self, made: Experiment, progress: Progress) -> dict[str, Any]:
        """The numbers for a round's record."""
        found = made.course.products(progress)["synthetic"]
        drawn, y = features(self.extract, found["x"].cpu()), found["y"].cpu().numpy()
        labels = self.y.numpy()
        cover = [
            coverage(self.real[labels == c][:EACH], drawn[y == c]) for c in range(self.classes)
        ]
        return {
            "fid": round(frechet(self.real, drawn), 6),
            "kid": round(kernel_distance(self.real, drawn), 6),
            "fid_rows": [len(self.real), len(drawn)],
            "coverage": [None if v is None else round(v, 6) for v in cover],
        }


def network(shape: tuple[int, ...], classes: int) -> tuple[nn.Module, nn.Module]:
    """(the features, the head): two convolutions of an image, two dense layers of anything else."""
    if len(shape) == 3 and min(shape[1:]) >= 8:
        width = 32 * (shape[1] // 4) * (shape[2] // 4)
        body: list[nn.Module] = [nn.Conv2d(shape[0], 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        body += [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    else:
        width = 64
        body = [nn.Flatten(), nn.Linear(prod(shape), width), nn.ReLU()]
    return nn.Sequential(*body, nn.Linear(width, FEATURES), nn.Tanh()), nn.Linear(FEATURES, classes)


def trained(x: Tensor, y: Tensor, classes: int, key: rng.Key) -> Extractor:
    """The small network after a few hundred steps of Adam; the same for the same key."""
    with seeded(rng.fold_in(key, 2)):
        body, head = network(tuple(x.shape[1:]), classes)
    body, head = body.to(x.dtype), head.to(x.dtype)
    adam = torch.optim.Adam([*body.parameters(), *head.parameters()], 1e-3)
    for step in range(STEPS):
        u = rng.uniform(rng.fold_in(key, 3 + step), min(BATCH, len(x)))
        some = (u * len(x)).long()
        adam.zero_grad()
        nn.functional.cross_entropy(head(body(x[some])), y[some]).backward()
        adam.step()
    return body.eval()


def features(extract: Extractor, x: Tensor) -> np.ndarray:
    """[n, d] in double precision."""
    parts = []
    with torch.no_grad():
        for some in x.split(ROWS):
            found = extract(some)
            if not isinstance(found, Tensor) or found.ndim < 2 or len(found) != len(some):
                shown = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
                raise ConfigError(
                    "evaluation.extractor must give a tensor with a row of features for each of "
                    f"{len(some)} examples, got {shown}."
                )
            parts.append(found.flatten(1).double().cpu())
    joined = torch.cat(parts)
    if not joined.isfinite().all():
        raise ConfigError("evaluation.extractor gives features that are not finite.")
    return joined.numpy()


def frechet(a: np.ndarray, b: np.ndarray) -> float:
    """The distance between the normal distributions of two sets of features.

    >>> frechet(np.array([[0.0], [2.0]]), np.array([[3.0], [5.0]]))
    9.0
    """
    gap = a.mean(0) - b.mean(0)
    s, t = (np.atleast_2d(np.cov(v, rowvar=False)) for v in (a, b))
    roots = np.sqrt(np.clip(np.linalg.eigvals(s @ t).real, 0, None))
    return float(max(0.0, gap @ gap + np.trace(s) + np.trace(t) - 2 * roots.sum()))


def kernel_distance(a: np.ndarray, b: np.ndarray) -> float:
    """The unbiased squared distance of two sets of features; not a number for a set of one.

    Among 0 and 1 the kernel is 1, among 2 and 2 it is 125, between them 1 and 27.

    >>> kernel_distance(np.array([[0.0], [1.0]]), np.array([[2.0], [2.0]]))
    98.0
    """
    if min(len(a), len(b)) < 2:
        return float("nan")
    one, other = (
        (_kernel(v, v) - (((v**2).sum(1) / v.shape[1] + 1) ** 3).sum()) / (len(v) * (len(v) - 1))
        for v in (a, b)
    )
    return float(one + other - 2 * _kernel(a, b) / (len(a) * len(b)))


def _kernel(a: np.ndarray, b: np.ndarray) -> float:
    """The sum of the kernel over all pairs, some rows at a time."""
    d = a.shape[1]
    return float(sum(((a[i : i + ROWS] @ b.T / d + 1) ** 3).sum() for i in range(0, len(a), ROWS)))


def coverage(real: np.ndarray, made: np.ndarray) -> float | None:
    """The share of real examples with a made one nearby; None if either is missing."""
    if len(real) < 2 or not len(made):
        return None
    k = min(NEIGHBOUR, len(real) - 1)
    radius = np.sort(_apart(real, real), 1)[:, k]  # the nearest is the example itself
    return float((_apart(real, made).min(1) <= radius).mean())


def _apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.sqrt(np.clip(squares, 0, None))
