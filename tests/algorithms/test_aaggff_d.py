"""AAggFF-D: responses to losses and the decision learned from them, on six clients."""

import math

import pytest
import torch
from federations import cohort
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unalike.algorithms.aaggff_d import AAggFFD, Memory
from unalike.parts.mixing.response import CDFS, respond

K = 6

# losses 0.01, 0.10, 0.02
RESPONSES = {
    "weibull": (0.051861, 0.995134, 0.191858),
    "frechet": (0.013124, 0.648344, 0.114559),
    "gumbel": (0.115544, 0.763041, 0.180258),
    "exponential": (0.206077, 0.900509, 0.369687),
    "logistic": (0.316646, 0.787127, 0.368546),
    "normal": (0.220878, 0.904511, 0.295129),
}


@pytest.mark.parametrize("cdf", RESPONSES)
def test_responses(cdf: str) -> None:
    """A CDF of the loss over its mean, stretched to [C1, C2]."""
    losses = torch.tensor([0.01, 0.10, 0.02], dtype=torch.float64)
    assert respond(losses, cdf, 0, 1).tolist() == pytest.approx(RESPONSES[cdf], abs=1e-6)
    want = [0.2 + 0.5 * r for r in RESPONSES[cdf]]
    assert respond(losses, cdf, 0.2, 0.7).tolist() == pytest.approx(want, abs=1e-6)
    assert respond(37 * losses, cdf, 0, 1).tolist() == pytest.approx(RESPONSES[cdf], abs=1e-6)


def test_every_cdf_is_tried() -> None:
    """A new one needs its numbers here."""
    assert CDFS.keys() == RESPONSES.keys()


def decide(
    rounds: list[tuple[list[int], list[float]]], n: int = K, rule: AAggFFD | None = None
) -> list[tuple[Tensor, Memory]]:
    """Weights and memory after every round of (who answered, their losses)."""
    rule = rule or AAggFFD()
    state, out = rule.init(n), []
    for ids, losses in rounds:
        p, state, *_ = rule.weights(state, cohort([1.0] * len(ids), ids, n=n, loss=losses))
        out.append((p, state))
    return out


ROUNDS = [([0, 2, 5], [0.3, 0.9, 0.6]), ([1, 2, 4], [0.5, 0.7, 1.2])]


def test_first_round() -> None:
    """C = 1/2; clients that were not seen share one value."""
    p, (total, decision, seen, *_) = decide(ROUNDS)[0]
    g = (-0.046830, -0.2, -0.353170, -0.2, -0.2, -0.2)
    assert total.tolist() == pytest.approx(g, abs=1e-6)
    want = (0.157188, 0.166573, 0.176519, 0.166573, 0.166573, 0.166573)
    assert decision.tolist() == pytest.approx(want, abs=1e-6)
    assert p.tolist() == pytest.approx((0.314201, 0.352839, 0.332960), abs=1e-6)
    assert float(seen) == 1


def test_second_round() -> None:
    """The linearisation's second term is at work: <p, r^ - m> = -0.000480."""
    (_, first), (p, second) = decide(ROUNDS)
    g = (-0.199602, -0.083783, -0.160974, -0.199602, -0.354049, -0.199602)
    assert (second.total - first.total).tolist() == pytest.approx(g, abs=1e-6)
    want = (0.158866, 0.160711, 0.172572, 0.166569, 0.174714, 0.166569)
    assert second.p.tolist() == pytest.approx(want, abs=1e-6)
    assert p.tolist() == pytest.approx((0.316361, 0.339711, 0.343928), abs=1e-6)


@pytest.mark.parametrize(
    "fingerprint",
    [
        (0.155538, 0.171125, 0.168972, 0.171125, 0.171125, 0.162115),  # p from 1/2, no + mean
        (0.165055, 0.172950, 0.155756, 0.172950, 0.172950, 0.160338),  # and erfc for erf
    ],
)
def test_known_mistakes_give_other_numbers(fingerprint: tuple[float, ...]) -> None:
    """The released program's decisions on the same losses."""
    _, memory = decide(ROUNDS)[0]
    assert max(abs(a - b) for a, b in zip(memory.p.tolist(), fingerprint, strict=True)) > 1e-3


def by_hand(rounds: list[tuple[list[int], list[float]]], n: int) -> list[float]:
    """The same decision written out in plain Python, with the normal CDF."""
    total, p = [0.0] * n, [1 / n] * n
    for t, (ids, losses) in enumerate(rounds, 1):
        c, mean = len(ids) / n, sum(losses) / len(losses)
        x = [f / mean if mean > 0 else 1.0 for f in losses]
        r = [c * 0.5 * (1 + math.erf((v - 1) / math.sqrt(2))) for v in x]
        m = sum(r) / len(r)
        robust = [m] * n
        for i, value in zip(ids, r, strict=True):
            robust[i] = m + (value - m) / c
        inner = sum(pi * (ri - m) for pi, ri in zip(p, robust, strict=True))
        g = [-ri / (1 + m) + m * inner / (1 + m) ** 2 for ri in robust]
        total = [a + b for a, b in zip(total, g, strict=True)]
        e = [math.exp(-math.sqrt(math.log(n)) / ((c + 2) * math.sqrt(t + 1)) * s) for s in total]
        p = [v / sum(e) for v in e]
    return p


def test_three_hundred_rounds_of_changing_cohorts() -> None:
    """Against the plain program, with cohorts of one to all clients."""
    draw, n, rounds = torch.Generator().manual_seed(0), 9, []
    for t in range(300):
        ids = torch.randperm(n, generator=draw)[: 1 + t % n].sort().values.tolist()
        rounds.append((ids, (10 * torch.rand(len(ids), generator=draw)).tolist()))
    _, memory = decide(rounds, n)[-1]
    assert memory.p.tolist() == pytest.approx(by_hand(rounds, n), abs=1e-9)


@pytest.mark.parametrize("losses", [[0.4] * 3, [0.0] * 3, [1e-30] * 3, [1e30] * 3])
def test_equal_losses_keep_the_weights_equal(losses: list[float]) -> None:
    """Also when all are zero: nothing is divided by their mean."""
    for cdf in CDFS:
        for p, memory in decide([([0, 2, 5], losses)] * 50, rule=AAggFFD(cdf=cdf)):
            assert p.tolist() == pytest.approx([1 / 3] * 3)
            assert memory.p.tolist() == pytest.approx([1 / K] * K)


def test_one_client_has_all_the_weight() -> None:
    """log K = 0 must not divide anything."""
    for p, memory in decide([([0], [0.7])] * 3, n=1):
        assert p.tolist() == memory.p.tolist() == [1.0]


def test_a_zero_loss_among_others() -> None:
    """The Frechet CDF is 0 there, not 0/0."""
    p, _ = decide([([0, 1, 2], [0.0, 1.0, 2.0])], rule=AAggFFD(cdf="frechet"))[0]
    assert torch.isfinite(p).all()
    assert p[0] < p[1] < p[2]


def test_a_client_that_always_suffers_gets_heavier_and_the_sum_stays_one() -> None:
    """Two thousand rounds: towards a vertex, but always a distribution."""
    history = decide([(list(range(K)), [5.0, 1, 1, 1, 1, 0.01])] * 2000)
    for p, memory in history[::200]:
        assert float(p.sum()) == pytest.approx(1)
        assert torch.isfinite(memory.p).all()
    last = history[-1][1].p
    assert last.argmax() == 0
    assert last.argmin() == 5
    assert last[0] > 0.9


positive = st.floats(0.01, 50)


@given(st.lists(positive, min_size=2, max_size=8, unique=True), st.floats(0.1, 100))
def test_properties(losses: list[float], factor: float) -> None:
    """Scale-free, equivariant, ordered like the losses, blind to sizes."""
    n = len(losses)
    p, _ = decide([(list(range(n)), losses)], n)[0]
    scaled, _ = decide([(list(range(n)), [factor * f for f in losses])], n)[0]
    assert torch.allclose(p, scaled, atol=1e-9)
    turned, _ = decide([(list(range(n)), losses[::-1])], n)[0]
    assert torch.allclose(p.flip(0), turned)
    assert p.argsort().tolist() == torch.tensor(losses).argsort().tolist()
    rule = AAggFFD()
    sized, *_ = rule.weights(rule.init(n), cohort(list(range(1, n + 1)), loss=losses))
    assert torch.allclose(p, sized)
    assert float(p.sum()) == pytest.approx(1)
    assert (p >= 0).all()


@given(st.lists(positive, min_size=1, max_size=6))
def test_responses_stay_in_their_range(losses: list[float]) -> None:
    """Whatever the CDF."""
    for cdf in CDFS:
        r = respond(torch.tensor(losses), cdf, 0.25, 0.75)
        assert (r >= 0.25).all()
        assert (r <= 0.75).all()


def test_doubly_robust_estimate_is_the_response_itself_when_all_answer() -> None:
    """C = 1: the gradient differs from the exact one by the linearisation only."""
    losses = torch.tensor([0.9, 1.0, 1.1, 1.05], dtype=torch.float64)
    _, memory = decide([([0, 1, 2, 3], losses.tolist())], 4)[0]
    r = respond(losses, "normal", 0, 1)
    exact = -r / (1 + r.mean())  # p is uniform
    assert torch.allclose(memory.total, exact, atol=1e-12)


def test_a_single_answer_moves_no_weight() -> None:
    """The imputed mean is that answer, so all have the same estimate: nothing can be learned."""
    rounds = [([t % K], [5.0 if t % K == 2 else 0.1]) for t in range(60)]
    for _, memory in decide(rounds):
        assert memory.p.tolist() == pytest.approx([1 / K] * K)


def test_regret_is_below_the_bound() -> None:
    """C = 1: at most 2 L sqrt(T log K), with the true losses -log(1 + <p, r>)."""
    draw, T, n = torch.Generator().manual_seed(3), 400, 5
    rule = AAggFFD()
    state, responses, paid = rule.init(n), [], 0.0
    for _ in range(T):
        losses = torch.rand(n, generator=draw, dtype=torch.float64) + torch.arange(n) / 4
        r = respond(losses, "normal", 0, 1)
        paid -= float(torch.log(1 + state.p @ r))
        responses.append(r)
        _, state, *_ = rule.weights(state, cohort([1.0] * n, loss=losses.tolist()))
    corners = -torch.log(1 + torch.stack(responses)).sum(0)
    assert paid - float(corners.min()) <= 2 * 3 * math.sqrt(T * math.log(n))
