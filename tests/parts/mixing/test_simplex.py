"""The projection and the quadratic programs against brute force and their conditions of optimality.

Every program is checked by its conditions (stationarity, signs, complementarity), which do not
depend on how it was solved; small ones also against the enumeration of all active sets.
"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from unalike.parts.mixing import simplex
from unalike.parts.mixing.simplex import minimise, project

Array = NDArray[np.float64]


def residual(A: Array, b: Array, p: Array, within: float = 1.0) -> float:
    """How far from optimal: the largest of Ap + b + nu - s over the best nu."""
    n, slope = len(p), A @ p + b
    grow = p < min(1.0, 1 / n + within) - 1e-12
    shrink = p > max(0.0, 1 / n - within) + 1e-12
    if not grow.any() or not shrink.any():
        return 0.0
    return float(max(0.0, slope[shrink].max() - slope[grow].min()))


def enumerated(A: Array, b: Array, low: float, high: float) -> Array:
    """The best feasible stationary point over all choices of what lies on a bound."""
    n, best, least = len(b), np.full(len(b), 1 / len(b)), np.inf
    for choice in product((-1, 0, 1), repeat=n):
        side = np.array(choice)
        free = side == 0
        p = np.where(side < 0, low, high).astype(float)
        if not np.isfinite(p[~free]).all():
            continue
        if not free.any():
            candidates = p
        else:
            k = int(free.sum())
            system = np.block([[A[np.ix_(free, free)], np.ones((k, 1))], [np.ones((1, k)), 0.0]])
            rest = np.append(-b[free] - A[np.ix_(free, ~free)] @ p[~free], 1 - p[~free].sum())
            candidates = p.copy()
            candidates[free] = np.linalg.solve(system, rest)[:-1]
        p = candidates
        feasible = abs(p.sum() - 1) < 1e-9 and (p > low - 1e-9).all() and (p < high + 1e-9).all()
        value = p @ A @ p / 2 + b @ p
        if feasible and value < least:
            best, least = p, value
    return best


def random_program(seed: int, n: int, ridge: float = 1.0) -> tuple[Array, Array]:
    draw = np.random.default_rng(seed)
    M = draw.standard_normal((int(draw.integers(1, n + 1)), n)) * 10 ** draw.uniform(-1, 1)
    return M.T @ M + ridge * np.eye(n), draw.standard_normal(n) * 10 ** draw.uniform(-2, 2)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12))
def test_projection_is_the_nearest_point(values: list[float]) -> None:
    """p = max(v - tau, 0): that is the condition of optimality itself."""
    v = np.array(values)
    p = project(v)
    assert abs(p.sum() - 1) < 1e-9
    assert (p >= 0).all()
    moved = v - p
    on = p > 0
    assert np.ptp(moved[on]) <= 1e-9 * (1 + np.abs(v).max())
    assert (moved[~on] <= moved[on].min() + 1e-9 * (1 + np.abs(v).max())).all()


def test_projection_leaves_the_simplex_alone() -> None:
    p = np.array([0.2, 0.0, 0.5, 0.3])
    assert np.allclose(project(p), p, atol=1e-15)
    assert np.allclose(project(p + 7.0), p, atol=1e-14)


def test_projection_of_huge_numbers() -> None:
    assert project(np.array([1e30, 0.0, -1e30])).tolist() == [1.0, 0.0, 0.0]
    assert project(np.full(4, -1e300)).tolist() == [0.25] * 4


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("within", [1.0, 0.5, 0.3, 0.05])
def test_programs_agree_with_enumeration(n: int, within: float) -> None:
    low, high = max(0.0, 1 / n - within), 1 / n + within
    for seed in range(25):
        A, b = random_program(seed, n)
        expected = enumerated(A, b, low, high if high < 1 else np.inf)
        assert np.allclose(minimise(A, b, within=within), expected, atol=1e-9)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 40),
    within=st.sampled_from([1.0, 0.5, 0.1, 0.02]),
    ridge=st.sampled_from([1e-8, 1e-3, 1.0, 10.0]),
)
def test_programs_meet_their_conditions(seed: int, n: int, within: float, ridge: float) -> None:
    """Also where the matrix is nearly singular, which makes the guesses run in circles."""
    A, b = random_program(seed, n, ridge)
    p = minimise(A, b, within=within)
    assert abs(p.sum() - 1) <= 1e-10
    assert p.min() >= max(0.0, 1 / n - within) - 1e-12
    assert p.max() <= 1 / n + within + 1e-12
    assert residual(A, b, p, within) <= 1e-10 * (1 + A.diagonal().max() + np.abs(b).max())


@pytest.mark.parametrize("within", [1.0, 0.08])
def test_both_methods_find_the_same_point(within: float) -> None:
    n = 12
    for seed in range(60):
        A, b = random_program(seed, n, 1e-4)
        high = 1 / n + within
        low, high = np.full(n, max(0.0, 1 / n - within)), np.full(n, high if high < 1 else np.inf)
        slow = simplex._descend(A, b, low, high, np.full(n, 1 / n))
        assert np.allclose(minimise(A, b, within=within), slow, atol=1e-7)


def test_guesses_that_run_in_circles_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second method is really used, and really needed."""
    used = []
    descend = simplex._descend

    def watched(*program: object) -> Array:
        used.append(1)
        return descend(*program)  # type: ignore[arg-type]

    monkeypatch.setattr(simplex, "_descend", watched)
    for seed in range(40):
        A, b = random_program(seed, 30, 1e-8)
        assert residual(A, b, minimise(A, b)) <= 1e-9 * (1 + A.diagonal().max() + np.abs(b).max())
    assert used


def test_vertices_and_faces() -> None:
    """A linear term that outweighs the rest drives p into a corner."""
    A = 4 * np.eye(5)
    for i in range(5):
        b = np.zeros(5)
        b[i] = -100.0
        assert minimise(A, b).tolist() == np.eye(5)[i].tolist()
    half = minimise(A, np.array([-100.0, -100.0, 0, 0, 0]))
    assert half.tolist() == [0.5, 0.5, 0, 0, 0]


def test_start_changes_nothing_but_the_time() -> None:
    for seed in range(30):
        A, b = random_program(seed, 15)
        cold = minimise(A, b)
        for start in (project(np.random.default_rng(seed).standard_normal(15)), np.eye(15)[3]):
            assert np.allclose(minimise(A, b, start=start), cold, atol=1e-10)


def test_no_spread_is_uniform() -> None:
    A, b = random_program(1, 6)
    assert np.allclose(minimise(A, b, within=0.0), 1 / 6, atol=1e-16)


def test_large_programs_are_solved_by_iterating_and_small_ones_directly() -> None:
    """Both ways to solve a system, and the change from one to the other, agree."""
    n = 400
    draw = np.random.default_rng(0)
    G = draw.random((300, n)) / n
    A, b = 4 * np.eye(n) + n / 4 * G.T @ G, -draw.random(n) * 0.05
    p = minimise(A, b)
    assert residual(A, b, p) <= 1e-10
    assert 200 < (p > 0).sum() < n
    stiff = A + np.diag(10 ** draw.uniform(0, 6, n))  # too many scales to iterate on
    p = minimise(stiff, b * 1e4)
    assert residual(stiff, b * 1e4, p) <= 1e-10 * stiff.max()


def test_an_indefinite_matrix_is_an_error() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="not definite"):
        minimise(np.diag([1.0, -1.0]), np.zeros(2))
