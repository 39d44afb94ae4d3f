"""A public subset: who gets what, and what it does to the skew."""

import numpy as np
import pytest

from unalike.federation.build import federate
from unalike.federation.data import TEST, TRAIN, VALIDATION
from unalike.federation.datasets.digits import Digits
from unalike.federation.partition.limit_label import LimitLabel
from unalike.federation.shift.public_subset import PublicSubset, balanced
from unalike.federation.skew import emd_per_client
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.rounds import rounds


def made(**settings):
    shifts = [PublicSubset(**settings)] if settings else []
    return federate(Digits(), LimitLabel(clients=10, t=2), shifts)


def test_every_client_gets_all_of_a_balanced_set():
    """Its own rows are not given to it again; nothing else of the federation changes."""
    plain, shared = made(), made(share=0.1)
    n = len(plain.examples)
    for part in (TEST, VALIDATION):
        assert (plain.rows(part).order == shared.rows(part).order).all()
    assert (shared.owner[:n] == plain.owner).all()
    total = plain.counts.sum()
    quota = round(0.1 * total / 10)
    copies = shared.source[n:]
    public = np.unique(copies)
    assert len(public) == 10 * quota
    assert (np.bincount(plain.examples.strata[public]) == quota).all()
    for k in range(10):
        rows = shared.source[shared.rows(TRAIN).of(k).numpy()]
        assert len(np.unique(rows)) == len(rows)
        assert set(public) <= set(rows)


def test_less_skew():
    """The more is shared, the more alike clients are."""
    emds = [emd_per_client(made(**s).counts).mean() for s in ({}, {"share": 0.02}, {"share": 0.2})]
    assert emds[0] > emds[1] > emds[2]


def test_a_part_of_it():
    shared = made(share=0.2, given=0.25)
    size = len(np.unique(made(share=0.2).source[len(made().examples) :]))
    for k, mark in enumerate(shared.marks):
        own = int((shared.owner[len(made().examples) :] == k).sum())
        assert own <= round(0.25 * size)
        assert mark[-1] == f"given {own} public rows"


def test_classes_that_are_rare_give_what_they_have():
    labels = np.array([0] * 20 + [1] * 2)
    found = balanced(np.arange(22), labels, 12, np.random.default_rng(0))
    assert np.bincount(labels[found]).tolist() == [6, 2]


def test_what_is_handed_out_is_counted():
    raw = {"partition": {"name": "limit_label", "clients": 5}, "rounds": 1}
    plain, shared = (
        experiment(parse({**raw, "shift": s})) for s in ([], [{"name": "public_subset"}])
    )
    (one,), (other,) = ([s.record for s in rounds(e)] for e in (plain, shared))
    rows = len(shared.federation.examples) - len(plain.federation.examples)
    each = 64 * 4 + 8
    assert other["bytes_down"] - one["bytes_down"] == rows * each
    assert other["messages"] - one["messages"] == 5
    # Nobody's download is in the way of the first round.
    assert other["bytes_before"] - one["bytes_before"] == rows * each
    assert all(type(other[k]) is int for k in ("bytes_down", "bytes_up", "messages"))


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_shares_out_of_range(share):
    with pytest.raises(ValueError, match="share"):
        PublicSubset(share=share)
