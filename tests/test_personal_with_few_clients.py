"""Personal models where two of four clients answer in a round, on plain numbers.

Momentum, weight decay and a rate that falls from round to round; what a client keeps waits for it,
and who was never asked is judged by what it began with. The model is that of ``by_hand``: w = (f,
g), client k's loss is 1/2 (g f x - y)^2, and all of its examples make one minibatch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from by_hand import OWN, POINTS, SIZES, START
from federations import Named, Played, drafted, state_of, walk
from two_weights import DATA, NAMES, TASK, model

from unalike.parts.optim import Sgd
from unalike.parts.schedule import Participation
from unalike.recipe import Decay

Vector = np.ndarray
ROUNDS, STEPS, RATE, RHO, WEIGHT_DECAY, FALLS = 5, 3, 0.1, 0.5, 0.05, 0.8
CLIENTS = range(len(POINTS))
CLOSE = {"abs": 3e-6, "rel": 3e-6}  # numbers of examples travel in single precision


def slope(w: Vector, k: int) -> Vector:
    """The gradient of client k's loss."""
    (x, y), (f, g) = POINTS[k], w
    return (g * f * x - y) * x * np.array([g, f])


@dataclass
class Heavy:
    """PyTorch's SGD: m <- rho m + (g + decay w), w <- w - eta m."""

    eta: float
    rho: float = RHO
    decay: float = WEIGHT_DECAY
    m: Any = 0.0

    def __call__(self, w: Vector, g: Vector) -> Vector:
        """A step, which remembers."""
        self.m = self.rho * self.m + (g + self.decay * w)
        return w - self.eta * self.m


# A client's half: (its number, the received model, what it keeps, its rate in the round) ->
# (the model it ends with, what it keeps then).
Half = Callable[[int, Vector, Any, float], tuple[Vector, Any]]


def fedavg(k: int, x: Vector, mine: Any, eta: float) -> tuple[Vector, Any]:
    """Nothing is kept."""
    w, step = x, Heavy(eta)
    for _ in range(STEPS):
        w = step(w, slope(w, k))
    return w, mine


@dataclass
class Apfl:
    """Deng et al., equations 9 to 11; kept are (v, alpha)."""

    adapt: str
    against: str

    def __call__(self, k: int, x: Vector, mine: Any, eta: float) -> tuple[Vector, Any]:
        """w, v and alpha from where they were before the minibatch."""
        (v, alpha), w, of_w, of_v = mine, x, Heavy(eta), Heavy(eta)
        for s in range(STEPS):
            beside = w if self.against == "local" else x
            u = alpha * v + (1 - alpha) * beside
            g = slope(u, k)
            moved = alpha - eta * float((v - beside) @ g)
            w, v = of_w(w, slope(w, k)), of_v(v, alpha * g)
            if self.adapt == "step" or (self.adapt == "round" and s == 0):
                alpha = min(max(moved, 0.0), 1.0)
        return w, (v, alpha)


def pfedme(k: int, x: Vector, mine: Any, eta: float) -> tuple[Vector, Any]:
    """Two steps of theta with lambda = 2 on a minibatch, then 0.2 lambda of the way; kept: theta.

    The rate of the way falls as that of the steps does.
    """
    w = theta = x
    step = Heavy(eta)
    for _ in range(STEPS):
        for _ in range(2):
            theta = step(theta, slope(theta, k) + 2.0 * (theta - w))
        w = w - 0.2 * eta / RATE * 2.0 * (w - theta)
    return w, theta


@dataclass
class Meta:
    """Per-FedAvg with alpha = 0.2, and the exact Hessian or none."""

    exact: bool

    def __call__(self, k: int, x: Vector, mine: Any, eta: float) -> tuple[Vector, Any]:
        """(I - alpha H) grad F(w - alpha grad F(w)); alpha does not fall, beta does."""
        w, step, (a, y) = x, Heavy(eta), POINTS[k]
        for _ in range(STEPS):
            g = slope(w - 0.2 * slope(w, k), k)
            f, h = w
            r = h * f * a - y
            bend = np.array([[(h * a) ** 2, f * h * a**2 + r * a], [0.0, (f * a) ** 2]])
            bend[1, 0] = bend[0, 1]
            w = step(w, g - 0.2 * bend @ g if self.exact else g)
        return w, mine


def fedrep(k: int, x: Vector, mine: Any, eta: float) -> tuple[Vector, Any]:
    """g is private and goes first over two thirds more minibatches; each part has new momentum."""
    w = np.array([x[0], mine])
    for i, count in ((1, STEPS), (0, 2)):
        step = Heavy(eta)
        for _ in range(count):
            w = w.copy()
            w[i] = step(w[i], slope(w, k)[i])
    return w, w[1]


@dataclass
class SuPerFed:
    """Equation 3 with these places; mixing begins in round 2, before it the own end is frozen."""

    mix: Vector
    nu: float
    t: int = 0

    def __call__(self, k: int, x: Vector, mine: Any, eta: float) -> tuple[Vector, Any]:
        """Both ends by one optimizer."""
        f, l, of_f, of_l = x, mine, Heavy(eta), Heavy(eta)
        on = self.t >= 2
        for _ in range(STEPS):
            lam = self.mix * on
            g = slope((1 - lam) * f + lam * l, k)
            a, b = np.sqrt(f @ f), np.sqrt(l @ l)
            c = f @ l / a / b
            by_f = (1 - lam) * g + 0.3 * (f - x)
            by_f = by_f + on * self.nu * 2 * c * (l / (a * b) - c * f / a**2)
            by_l = lam * g + self.nu * 2 * c * (f / (a * b) - c * l / b**2)
            f = of_f(f, by_f)
            l = of_l(l, by_l) if on else l
        return f, l


def ditto(k: int, x: Vector, mine: Any, eta: float) -> tuple[Vector, Any]:
    """v is pulled to what was received, by a rate of its own that falls alike; kept: v."""
    v, step = mine, Heavy(eta / RATE * 0.05)
    for _ in range(STEPS):
        v = step(v, slope(v, k) + 0.7 * (v - x))
    return fedavg(k, x, None, eta)[0], v


def shared(x: Vector, mine: Any) -> Vector:
    """Clients are judged by the shared model."""
    return x


@dataclass
class Case:
    """A method, its client's half, what a client begins with, and what it is judged by."""

    method: Named
    half: Half
    first: Any = None
    judged: Callable[[Vector, Any], Vector] = shared
    server: float = 1.0  # how far the server goes
    sent: list[int] = field(default_factory=lambda: [0, 1])


PER = {"alpha": 0.2, "minibatches": "same", "adapt": 0}
CASES = {
    "fedavg": Case("fedavg", fedavg),
    **{
        f"apfl {adapt} {against}": Case(
            ("apfl", {"alpha": 0.4, "adapt": adapt, "against": against}),
            Apfl(adapt, against),
            (START, 0.4),
            lambda x, mine: mine[1] * mine[0] + (1 - mine[1]) * x,
        )
        for adapt in ("never", "round", "step")
        for against in ("local", "received")
    },
    "pfedme": Case(
        ("pfedme", {"pull": 2.0, "steps": 2, "lr": 0.2, "beta": 0.5}),
        pfedme,
        START,
        lambda x, mine: mine,
        server=0.5,
    ),
    "per_fedavg first order": Case(
        ("per_fedavg", {**PER, "gradients": "first_order"}), Meta(exact=False)
    ),
    "per_fedavg": Case(("per_fedavg", {**PER, "delta": 1e-4}), Meta(exact=True)),
    "fedrep": Case(
        ("fedrep", {"personal": ["g."], "body_epochs": 2}),
        fedrep,
        START[1],
        lambda x, mine: np.array([x[0], mine]),
        sent=[0],
    ),
    "superfed_mm": Case(
        ("superfed_mm", {"start": 0.4, "mu": 0.3, "nu": 1.5, "at": 0.25}),
        SuPerFed(np.array([0.3, 0.3]), 1.5),
        OWN,
        lambda x, mine: 0.75 * x + 0.25 * mine,
    ),
    "superfed_lm": Case(
        ("superfed_lm", {"start": 0.4, "mu": 0.3, "nu": 1.5, "at": 0.25}),
        SuPerFed(np.array([0.3, 0.8]), 1.5),
        OWN,
        lambda x, mine: 0.75 * x + 0.25 * mine,
    ),
    "ditto": Case(("ditto", {"pull": 0.7, "lr": 0.05}), ditto, START, lambda x, mine: mine),
}


def run(*methods: Named, **parts: Any) -> Played:
    """On the library's side; two of the four clients answer in a round."""
    given = {
        "rounds": ROUNDS,
        "opt": Sgd(RATE, RHO, WEIGHT_DECAY),
        "epochs": float(STEPS),
        "decay": Decay("exponential", FALLS),
        "participation": Participation(number=2),
        **parts,
    }
    program = drafted(TASK, DATA, *methods, **given).program()
    return walk(program, DATA, w=model(START), batch_size=16, engine="sequential")


def check(played: Played, x: Vector, judged: list[Vector], sent: list[int]) -> None:
    """The shared numbers, and the model that every client is judged by."""
    for i in sent:
        assert float(played.x[NAMES[i]]) == pytest.approx(x[i], **CLOSE)
    algorithm = played.loop.recipe.algorithm
    down = algorithm.broadcast(played.server)
    for k in CLIENTS:
        own = algorithm.personal(down, state_of(played.simulation, k))
        assert [float(own[n]) for n in NAMES] == pytest.approx(list(judged[k]), **CLOSE)


@pytest.fixture(autouse=True)
def lambdas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The places between SuPerFed's two ends, which are otherwise drawn."""
    chosen = torch.tensor([0.3, 0.8], dtype=torch.float64)
    monkeypatch.setattr("unalike.algorithms.superfed.rng.uniform", lambda key, n: chosen[:n])


@pytest.mark.parametrize("name", CASES)
def test_two_of_four_clients(name: str) -> None:
    case = CASES[name]
    played = run(case.method)
    x, kept, seen = START.copy(), [case.first for _ in CLIENTS], set[int]()
    for t, done in enumerate(played.rounds):
        who = done.ids.tolist()
        assert len(who) == 2
        seen |= set(who)
        if isinstance(case.half, SuPerFed):
            case.half.t = t
        ends = {k: case.half(k, x, kept[k], RATE * FALLS**t) for k in who}
        kept = [ends[k][1] if k in ends else kept[k] for k in CLIENTS]
        p = {k: SIZES[k] / SIZES[who].sum() for k in who}
        mean = sum(p[k] * ends[k][0] for k in who)
        new = x + case.server * (mean - x)
        x = np.array([new[i] if i in case.sent else x[i] for i in (0, 1)])
    check(played, x, [case.judged(x, mine) for mine in kept], case.sent)


def test_somebody_is_absent_and_somebody_returns() -> None:
    """Or the test above would say nothing about either."""
    cohorts = [set(done.ids.tolist()) for done in run("fedavg").rounds]
    assert any(len(cohorts[t] & cohorts[t + 2] - cohorts[t + 1]) for t in range(ROUNDS - 2))


@pytest.mark.parametrize("averaging", ["uniform", "size"])
def test_ditto_around_scaffold(averaging: str) -> None:
    """Variates of absent clients wait, c moves by 2 / 4 of the cohort's; v is pulled to x."""
    plain = {"opt": Sgd(RATE), "decay": Decay("exponential", FALLS)}
    played = run(("scaffold", {"averaging": averaging}), ("ditto", {"pull": 0.7}), **plain)
    x, c, own, v = START.copy(), np.zeros(2), np.zeros((4, 2)), np.tile(START, (4, 1))
    pi = SIZES / SIZES.sum() if averaging == "size" else np.full(4, 0.25)
    for t, done in enumerate(played.rounds):
        who, eta, moved, change = done.ids.tolist(), RATE * FALLS**t, np.zeros(2), np.zeros(2)
        for k in who:
            y = x
            for _ in range(STEPS):
                y = y - eta * (slope(y, k) - own[k] + c)
                v[k] = v[k] - eta * (slope(v[k], k) + 0.7 * (v[k] - x))
            new = own[k] - c + (x - y) / (STEPS * eta)
            moved += pi[k] / pi[who].sum() * (y - x)
            change += pi[k] * (new - own[k])
            own[k] = new
        x, c = x + moved, c + change
    check(played, x, list(v), [0, 1])
    assert [float(played.server.c[n]) for n in NAMES] == pytest.approx(list(c), **CLOSE)


def test_finetuning_reaches_those_who_were_never_asked() -> None:
    """One client a round, so that somebody is left out; momentum begins anew in the last."""
    played = run("finetune", participation=Participation(number=1), rounds=3)
    x = START.copy()
    for t, done in enumerate(played.rounds[:-1]):
        (k,) = done.ids.tolist()
        x, _ = fedavg(k, x, None, RATE * FALLS**t)
    own = [fedavg(k, x, None, RATE * FALLS**2)[0] for k in CLIENTS]
    check(played, x, own, [0, 1])
