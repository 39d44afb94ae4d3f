"""Rounds of methods as plain arithmetic: who answers, what servers make of it, whom they hear."""

from collections.abc import Callable
from typing import Any

import by_hand as hand
import numpy as np
from by_hand import ETA, EVERYBODY, SIZES, START, Vector, by_size, plain, walk


def nothing(t: int) -> None:
    """At the beginning of a round."""


def rounds(
    half: Any,
    n: int,
    rule: Callable[[Vector, Vector], Vector] = by_size,
    server: Callable[[Vector, Vector, Vector], Vector] = plain,
    late: Any = None,
    begin: Callable[[int], None] = nothing,
    start: Vector = START,
    loss: Callable[[Vector, int], float] = hand.loss,
) -> tuple[Vector, list[Vector]]:
    """(the shared model, every client's judged one) after n rounds.

    With ``late``, the two clients that answer first, it is phase-shift with two groups.
    """
    x, mine = start.copy(), [half.first(k) for k in EVERYBODY]
    shared = list(half.shared)
    flying, behind = [x] * len(EVERYBODY), 0.0
    for t in range(n):
        begin(t)
        losses = np.array([loss(half.received(x, mine[k]), k) for k in EVERYBODY])
        answers = np.isin(EVERYBODY, late) == (t % 2 == 0) if late is not None else EVERYBODY >= 0
        ends = np.empty((len(EVERYBODY), len(x)))
        for k in EVERYBODY:
            # Whoever answers in an ordinary round of phase-shift is in mid-phase.
            keeps = SIZES[k] / (behind + SIZES[k]) if late is not None and answers[k] else 0.0
            first = (1 - keeps) * x + keeps * flying[k]
            ends[k], mine[k] = half.round(k, x, mine[k], first)
            flying[k] = ends[k]
        who = EVERYBODY if t == n - 1 else EVERYBODY[answers]
        deltas = np.zeros_like(ends[who])
        deltas[:, shared] = (ends[who] - x)[:, shared]
        x = server(x, deltas, rule(who, losses))
        behind = SIZES[who].sum()
    return x, [half.judged(x, mine[k]) for k in EVERYBODY]


def pulled(k: int, to: Vector, strength: float, shift: Vector) -> Callable[[Vector], Vector]:
    """Client k's gradient with a shift and a pull."""
    return lambda w: hand.slope(w, k) + shift + strength * (w - to)


def scaffold(
    p: Vector, n: int, server: Callable[[Vector, Vector, Vector], Vector] = plain
) -> tuple[Vector, list[Vector]]:
    """(the model after n rounds, the models that were sent out); all take part, so pi is p."""
    x, c, own, sent = START.copy(), np.zeros(2), np.zeros((len(EVERYBODY), 2)), []
    for _ in range(n):
        sent.append(x)
        ends = np.array([walk(x, pulled(k, x, 0.0, c - own[k])) for k in EVERYBODY])
        new = own - c + (x - ends) / (hand.STEPS * ETA)
        x, c, own = server(x, ends - x, p), c + p @ (new - own), new
    return x, sent


def near(k: int, sent: list[Vector], strength: float) -> Vector:
    """A model of client k's own that is pulled to each of these in turn."""
    v = START.copy()
    for x in sent:
        v = walk(v, pulled(k, x, strength, np.zeros(2)))
    return v


def cut_scaffold(p: Vector, n: int, shared: int, apart: bool) -> tuple[Vector, list[Vector]]:
    """(the model, everybody's own) after n rounds in which one of the two numbers is shared.

    Variates are of that number. ``apart``: the other one takes all its steps first.
    """
    x, c, variates = START[shared], 0.0, np.zeros(len(EVERYBODY))
    models, on = np.tile(START, (len(EVERYBODY), 1)), np.arange(2) == shared
    for _ in range(n):
        models[:, shared], new = x, np.zeros(len(EVERYBODY))
        for k in EVERYBODY:
            for some in (~on, on) if apart else (on | ~on,):
                shift = np.where(on, c - variates[k], 0.0)
                to = pulled(k, models[k], 0.0, shift)
                models[k] = walk(models[k], lambda w, s=some, to=to: s * to(w))
            new[k] = variates[k] - c + (x - models[k, shared]) / (hand.STEPS * ETA)
        x, c = x + p @ (models[:, shared] - x), c + p @ (new - variates)
        variates = new
    models[:, shared] = x
    return np.where(on, x, START), list(models)


def feddyn(p: Vector, n: int, alpha: float, begin: Callable[[int], None] = nothing) -> Vector:
    """The model after n rounds in which all take part."""
    x, h, g = START.copy(), np.zeros(2), np.zeros((len(EVERYBODY), 2))
    for t in range(n):
        begin(t)
        ends = np.array([walk(x, pulled(k, x, alpha, -g[k])) for k in EVERYBODY])
        g = g - alpha * (ends - x)
        h = h - alpha * p @ (ends - x)
        x = p @ ends - h / alpha
    return x


def largest(v: Vector, count: int) -> Vector:
    """The entries of largest size, zero elsewhere."""
    kept = np.argsort(-np.abs(v))[:count]
    return np.where(np.isin(np.arange(len(v)), kept), v, 0.0)


def servers(
    half: Any,
    n: int,
    home: Vector,
    hears: Callable[[int], dict[int, list[int]]],
    rule: Callable[[Vector, Vector], Vector] = by_size,
    server: Callable[[], Callable[[Vector, Vector, Vector], Vector]] = lambda: plain,
    count: int | None = None,
) -> list[Vector]:
    """Every server's model after n rounds, each with a step of its own.

    After round t server j hears ``hears(t)[j]``. With ``count``, so many numbers of an update
    travel to a server, and the others are owed.
    """
    k_servers, shared = int(home.max()) + 1, list(half.shared)
    x, steps = [START.copy() for _ in range(k_servers)], [server() for _ in range(k_servers)]
    mine, owed = [half.first(k) for k in EVERYBODY], np.zeros((len(EVERYBODY), 2))
    for t in range(n):
        deltas = np.zeros((len(EVERYBODY), 2))
        for k in EVERYBODY:
            end, mine[k] = half.round(k, x[home[k]], mine[k], x[home[k]])
            deltas[k, shared] = (end - x[home[k]])[shared]
            if count is not None:
                v = deltas[k] + owed[k]
                deltas[k] = largest(v, count)
                owed[k] = v - deltas[k]
        for j in range(k_servers):
            members = EVERYBODY[home == j]
            x[j] = steps[j](x[j], deltas[members], rule(members, EVERYBODY))
        told = list(x)
        for j, others in hears(t).items():
            cohort = EVERYBODY[np.isin(home, others)]
            p = rule(cohort, EVERYBODY)
            x[j] = sum(p[home[cohort] == i].sum() * told[i] for i in others)
    return x
