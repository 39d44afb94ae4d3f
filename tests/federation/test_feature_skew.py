"""Feature skew: the estimate against its definition and a closed form, the test against chance."""

import itertools
import math

import numpy as np
import pytest

import unalike
from unalike.federation.data import Examples, Federation
from unalike.federation.feature_skew import FeatureSkew, measure_features, mmd, paired_kernel


def speakers(shift: float, clients: int = 6, rows: int = 60, seed: int = 0) -> Federation:
    """Equal labels, and a voice of its own for every client."""
    rng = np.random.default_rng(seed)
    who, y = np.repeat(np.arange(clients), rows), np.tile(np.arange(3), clients * rows // 3)
    x = rng.normal(size=(len(y), 4)) + 3 * np.eye(3, 4)[y]
    x += shift * rng.normal(size=(clients, 4))[who]
    return unalike.federate((x, y, who), validation=0.0, test=0.1, seed=seed)


def test_the_estimate_is_its_definition() -> None:
    """Sums over i != j, one term after the other."""
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(9, 2)), rng.normal(1, 1, size=(9, 2))

    def k(a: np.ndarray, b: np.ndarray) -> float:
        return math.exp(-float(((a - b) ** 2).sum()) / (2 * 1.3**2))

    want = sum(
        k(x[i], x[j]) + k(z[i], z[j]) - k(x[i], z[j]) - k(z[i], x[j])
        for i, j in itertools.permutations(range(9), 2)
    ) / (9 * 8)
    found, _ = mmd(x, z, 1.3, rng, 1)
    assert found**2 == pytest.approx(want)


def test_two_gaussians_in_closed_form() -> None:
    """N(0, 1) and N(d, 1) in one dimension: 2 s / sqrt(s^2 + 2) (1 - exp(-d^2 / (2 (s^2 + 2))))."""
    s, d = 1.5, 1.0
    want = 2 * s / math.sqrt(s**2 + 2) * (1 - math.exp(-(d**2) / (2 * (s**2 + 2))))
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, z = rng.normal(size=(300, 1)), rng.normal(d, 1, size=(300, 1))
        value, p = mmd(x, z, s, rng, 99)
        found.append(value**2)
        assert p == 0.01
    assert np.mean(found) == pytest.approx(want, abs=0.015)


def test_the_p_value_against_all_swaps() -> None:
    """Eight pairs have 256 swaps; random ones find their share."""
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(8, 2)), rng.normal(0.8, 1, size=(8, 2))
    h = paired_kernel(x, z, 1.0)
    sums = [np.array(s) @ h @ np.array(s) for s in itertools.product((-1, 1), repeat=8)]
    exact = np.mean(np.array(sums) >= h.sum() - 1e-12)
    _, p = mmd(x, z, 1.0, rng, 20_000)
    assert p == pytest.approx(exact, abs=0.01)


def test_chance_alone_is_found_as_often_as_promised() -> None:
    found = [measure_features(speakers(0.0, 2, 30, seed), seed) for seed in range(60)]
    small = np.mean([f.p <= 0.1 for f in found])
    assert 0.03 <= small <= 0.18
    assert np.mean([f.apart > 0 for f in found]) <= 0.15


def test_speakers_differ_although_their_labels_do_not() -> None:
    data = speakers(0.7)
    assert unalike.measure(data.counts).emd == pytest.approx(0, abs=0.03)
    found = measure_features(data)
    assert found.apart == 6
    assert found.mean > 0.15
    again = measure_features(data)
    assert (found.mmd.tolist(), found.p.tolist()) == (again.mmd.tolist(), again.p.tolist())


def test_label_skew_is_not_feature_skew() -> None:
    """Shards of digits: hardly any class in common, and the same writers."""
    data = unalike.federate("digits", {"name": "shards", "clients": 8})
    assert unalike.measure(data.counts).emd > 1
    found = measure_features(data)
    assert found.apart == 0
    assert found.mean < 0.04
    turned = unalike.federate("digits", {"name": "shards", "clients": 8}, ["rotation"])
    assert measure_features(turned).apart > 0


def test_ones_own_scale_can_be_the_difference() -> None:
    rng = np.random.default_rng(0)
    x, who = rng.normal(size=(400, 3)), np.repeat(np.arange(4), 100)
    y = (x[:, 0] + rng.normal(size=400) > 0).astype(int)
    x += 5.0 * who[:, None]
    apart = {
        how: measure_features(
            unalike.federate(unalike.from_arrays(x, y, who, normalise=how))  # type: ignore[arg-type]
        ).apart
        for how in ("pooled", "client")
    }
    assert apart == {"pooled": 4, "client": 0}


def test_holm_stops_at_the_first_that_fails() -> None:
    """0.01 x 3, 0.02 x 2 pass; 0.02 x 2 would not after 0.03 x 3 failed."""
    sizes = np.ones(3)
    assert FeatureSkew(np.ones(3), np.array([0.02, 0.01, 0.2]), sizes).apart == 2
    assert FeatureSkew(np.ones(3), np.array([0.02, 0.03, 0.2]), sizes).apart == 0


def test_what_is_not_measured() -> None:
    """Symbols, a single client, and clients with too few rows."""
    data = speakers(0.7)
    text = Examples(data.examples.x.long(), data.examples.y, 3)
    symbols = Federation(text, data.owner, data.part, data.n_clients)
    alone = unalike.federate("digits", {"name": "iid", "clients": 1})
    few = speakers(0.7, 3, 6)
    for federation in (symbols, alone, few):
        found = measure_features(federation)
        assert found.as_dict() == {"mmd": None, "apart": None}
        assert set(found.per_client()["mmd"]) == {None}


def test_many_clients_are_drawn_from() -> None:
    found = measure_features(speakers(1.0, 130, 30))
    assert found.measured.sum() == 100
    assert found.apart > 50
