"""FedAug beside a method: the method's equations, on the rows that FedAug lets a client see.

Which rows a minibatch holds is drawn, so they are noted as they come; one local step a round, and
no noise, so that a variant is the row itself.
"""

from collections import Counter
from typing import Any

import by_hand as hand
import numpy as np
import pytest
import rounds_by_hand as course
import torch
from by_hand import COUNTS, ETA, EVERYBODY, POINTS, SIZES, START
from federations import Data, Named, Played, drafted, rows_of, walk
from test_pairs_by_hand import HALVES, check, lambdas
from torch import Tensor
from two_weights import NAMES, TwoWeights, model

from unalike.batches import Batch
from unalike.federation.data import Examples
from unalike.parts.optim import Sgd
from unalike.tree import Params

__all__ = ["lambdas"]  # a fixture

ROUNDS, TARGET = 4, 0.2
OWNED = [
    [(x + 0.1 * c, y - 0.3 * c) for c in np.repeat(range(3), row.astype(int))]
    for row, (x, y) in zip(COUNTS, POINTS, strict=True)
]
FEDAUG: Named = ("fedaug", {"target": TARGET, "noise": 0.0})
SEEN: list[tuple[tuple[int, ...], Tensor]] = []  # (the key of a minibatch, its rows)


class Watched(TwoWeights):
    """The model of two numbers, which notes what it trains on."""

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row."""
        SEEN.append((tuple(batch.key.flatten().tolist()), batch.x[batch.real].clone()))
        return super().each_loss(w, batch)


def run(*methods: Named) -> tuple[Played, list[list[np.ndarray]]]:
    """(the run, the rows of each client in each of its rounds)."""
    x = torch.tensor([row for own in OWNED for row in own], dtype=torch.float64)
    y = torch.tensor([c for row in COUNTS for c, n in enumerate(row) for _ in range(int(n))])
    data = Data(Examples(x, y, 3), rows_of([int(n) for n in SIZES]))
    SEEN.clear()
    made = drafted(Watched(NAMES), data, *methods, rounds=ROUNDS, opt=Sgd(ETA), epochs=1.0)
    played = walk(
        made.program(), data, w=model(START), batch_size=16, engine="sequential", traced=False
    )
    rows: list[list[np.ndarray]] = [[] for _ in EVERYBODY]
    for batch in dict(SEEN).values():  # a method may look at one several times
        (owner,) = {k for k in EVERYBODY for r in batch.tolist() if tuple(r) in OWNED[k]}
        rows[owner].append(batch.numpy())
    return played, rows


def follow(rows: list[list[np.ndarray]], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let a client's gradient on paper be that of the rows it sees in the round."""
    now = [0]
    monkeypatch.setattr(hand, "STEPS", 1)

    def slope(w: np.ndarray, k: int) -> np.ndarray:
        x, y = rows[k][now[0]].T
        return float(((w[0] * w[1] * x - y) * x).mean()) * w[::-1]

    monkeypatch.setattr(hand, "slope", slope)
    return lambda t: now.__setitem__(0, t)


@pytest.mark.parametrize("name", HALVES)
def test_a_method_on_augmented_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients count by the examples they own, not by those that augmentation adds."""
    method, half = HALVES[name]
    played, rows = run(method, FEDAUG)
    begin = follow(rows, monkeypatch)
    check(played, *course.rounds(half(), ROUNDS, begin=begin))


def test_feddyn_on_augmented_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    played, rows = run(("feddyn", {"alpha": 0.5}), FEDAUG)
    begin = follow(rows, monkeypatch)
    x = course.feddyn(hand.by_size(EVERYBODY, EVERYBODY), ROUNDS, 0.5, begin)
    check(played, x, [x] * len(EVERYBODY))


def test_finetuning_on_augmented_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last round as well."""
    played, rows = run("finetune", FEDAUG)
    begin = follow(rows, monkeypatch)
    x, _ = course.rounds(hand.FedAvg(), ROUNDS - 1, begin=begin)
    begin(ROUNDS - 1)
    own = [hand.walk(x, lambda w, k=k: hand.slope(w, k)) for k in EVERYBODY]
    check(played, x, own)


def test_an_epoch_is_as_long_as_before_and_fuller_of_rare_classes() -> None:
    """Client 3 has 1 and 5 of two classes: at most as far from uniform as it can come is 5 and 5.

    Of ten rows, five of either class, six are drawn; without FedAug it would be all of its own.
    """
    _, rows = run("fedavg", FEDAUG)
    assert all(len(batch) == SIZES[k] for k in EVERYBODY for batch in rows[k])
    rare = OWNED[3][0]
    times = [Counter(map(tuple, batch.tolist()))[rare] for batch in rows[3]]
    assert min(times) >= 1  # six of ten rows cannot leave all five out
    assert max(times) > 1
