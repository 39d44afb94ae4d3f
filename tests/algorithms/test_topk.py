"""Compression around methods, on top-k: error feedback, bytes, engines, phases, lies."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from federations import (
    Data,
    Handmade,
    Played,
    composed,
    distance,
    kept_by,
    network_task,
    play,
    rows_of,
    same,
    sampled,
)
from torch import Tensor

from unalike import rng, tree
from unalike.batches import Batch
from unalike.engine.attacks import AttackedTransport, Noise, SignFlip
from unalike.engine.loop import Loop
from unalike.engine.server.guard import Guard
from unalike.engine.simulation.simulate import Simulation
from unalike.engine.transport import Opening
from unalike.errors import ConfigError
from unalike.federation.data import Examples
from unalike.parts.optim import Sgd
from unalike.parts.topology import Clusters, Ring, Rotating
from unalike.recipe import Decay
from unalike.tree import Params

METHODS = ["topk", "random_mask", "stc", "eight_bit", "sign"]
SETTINGS: dict[str, dict[str, Any]] = {"topk": {"share": 0.1}, "stc": {"share": 0.05}}
FREE = Guard(1e9)


def named(name: str, **settings: Any) -> tuple[str, dict[str, Any]]:
    return name, {**SETTINGS.get(name, {}), **settings}


# -- error feedback on a quadratic --------------------------------------------------------------


class Bowl(Handmade):
    """1/2 |w - x|^2: a row is the place of its own minimum."""

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        """The loss of every row."""
        return 0.5 * (w["w"] - batch.x).square().sum(-1)


D = 100  # one per cent is one entry
RATE = 0.01  # every entry waits about a hundred rounds, so that steps must be as short


def centres() -> np.ndarray:
    """Two clients that disagree most where their mean is right already."""
    draw = np.random.default_rng(0)
    c = np.stack([draw.normal(size=D)] * 2)
    c[:, 0] = [3.0, -3.0]
    return c


def bowl(centre: np.ndarray) -> Data:
    x = torch.from_numpy(centre)
    return Data(Examples(x, torch.zeros(len(x), dtype=torch.long), 2), rows_of([1] * len(x)))


def descended(rounds: int, *methods: Any, **parts: Any) -> Played:
    data, w = bowl(centres()), {"w": torch.zeros(D, dtype=torch.float64)}
    recipe = composed(Bowl(), data, *methods, rounds=rounds, opt=Sgd(RATE), **parts)
    return play(recipe, data, rounds, w, batch_size=1, guard=FREE)


def gap(played: Played) -> float:
    """The distance to the optimum, in units of where the run began."""
    best = centres().mean(0)
    return float(np.linalg.norm(played.x["w"].numpy() - best) / np.linalg.norm(best))


def test_one_per_cent_converges_with_feedback_alone() -> None:
    """Without it both clients send the entry in which they cancel, for ever."""
    rate = Decay("cosine", rounds=1000)
    assert gap(descended(1000, ("topk", {"share": 0.01}), decay=rate)) < 0.005
    assert gap(descended(30, ("topk", {"share": 0.01, "feedback": False}))) == 1.0


@pytest.mark.slow
def test_scaffold_converges_with_feedback() -> None:
    """Control variates are compressed like the model, and nothing of them is lost."""
    assert gap(descended(600, "scaffold", ("topk", {"share": 0.01}))) < 0.005


def test_feedback_step_by_step() -> None:
    """Against a program of a few lines of NumPy."""
    c, w, e = centres(), np.zeros(D), np.zeros((2, D))
    for _ in range(40):
        out = np.zeros((2, D))
        for k in range(2):
            v = e[k] + RATE * (c[k] - w)
            top = np.argsort(-np.abs(v))[:3]
            out[k, top] = v[top]
            e[k] = v - out[k]
        w = w + out.mean(0)
    played = descended(40, ("topk", {"share": 0.03}))
    np.testing.assert_allclose(played.x["w"].numpy(), w, rtol=1e-6)  # rates are single


# -- a round ------------------------------------------------------------------------------------

TASK, DATA = network_task("dense")
N = 188  # weights of the network, in six leaves


def first(*methods: Any, **parts: Any) -> tuple[int, int]:
    """Bytes (down, up) of the first round."""
    return play(composed(TASK, DATA, *methods, **parts), DATA, 1).rounds[0].traffic[:2]


def test_bytes_of_a_round() -> None:
    """Six clients; two statistics of four bytes come with every answer."""
    whole = 4 * N
    assert sum(x.numel() for x in TASK.init(rng.key(0)).values()) == N
    assert first(named("topk")) == (6 * whole, 6 * (18 * (4 + 1) + 8))
    assert first(named("random_mask")) == (6 * whole, 6 * (4 + 18 * 4 + 8))
    assert first("eight_bit") == (6 * whole, 6 * (N + 6 * 4 + 8))
    signs = sum(-(-x.numel() // 8) for x in TASK.init(rng.key(0)).values())
    assert first("sign") == (6 * whole, 6 * (signs + 6 * 4 + 8))
    assert first(named("topk"), "eight_bit") == (6 * whole, 6 * (18 * (1 + 1) + 4 + 8))
    assert first("scaffold", named("topk")) == (12 * whole, 6 * (2 * 18 * (4 + 1) + 8))


def test_every_answer_of_stc_has_its_own_length() -> None:
    """37 places in a Golomb code with b = 2: bytes differ, and what is counted is their sum."""
    recipe = composed(TASK, DATA, ("stc", {"share": 0.2}))
    found = {play(recipe, DATA, 4, seed=s).rounds[t].traffic.up for s in range(2) for t in range(4)}
    assert len(found) > 1
    least, most = 37 * (1 + 2), 37 * (1 + 2) + (N - 37) // 2**2  # bits of the places
    ends = (6 * (4 + 5 + -(-bits // 8) + 8) for bits in (least, most))
    assert all(low <= up <= high for low, high in [tuple(ends)] for up in found)


def test_the_host_of_a_round_sends_nothing_to_itself() -> None:
    down, up = first(named("topk"), topology=Rotating())
    assert (down, up) == (5 * 4 * N, 5 * (18 * 5 + 8))


def test_edge_servers_exchange_whole_models() -> None:
    found = play(composed(TASK, DATA, named("topk"), topology=Clusters(2)), DATA, 1).rounds[0]
    assert found.traffic == (6 * 4 * N, 6 * (18 * 5 + 8), 2 * 4 * N, 14)


@pytest.mark.parametrize("name", METHODS)
def test_share_one_or_no_compression(name: str) -> None:
    """To the last bit where that is a setting."""
    plain = play(composed(TASK, DATA, "fedavg"), DATA)
    if name in ("topk", "random_mask"):
        assert same(plain.x, play(composed(TASK, DATA, (name, {"share": 1.0})), DATA).x)
    else:
        assert not same(plain.x, play(composed(TASK, DATA, named(name)), DATA).x)


@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("beside", ["fedavg", "fedadam", "phase_shift", "lg_fedavg"])
def test_both_engines(name: str, feedback: bool, beside: str) -> None:
    task, data = network_task("dense", torch.float64)
    recipe = composed(task, data, beside, named(name, feedback=feedback))
    one, many = (play(recipe, data, engine=e) for e in ("sequential", "vectorized"))
    assert distance(one.x, many.x) < 1e-9
    assert [r.traffic for r in one.rounds] == [r.traffic for r in many.rounds]


def test_what_was_not_sent_is_not_remembered_as_sent() -> None:
    """In mid-phase a client uploads nothing, so it still owes what it owed."""
    recipe = composed(TASK, DATA, ("phase_shift", {"phases": 2}), named("topk"))
    w = TASK.init(rng.key(7))
    simulation = Simulation(recipe, DATA.examples, DATA.rows, w, 6)
    loop = Loop(recipe, simulation, range(4), 0, Guard())
    answered = set(loop.advance(loop.begin(w), 0)[1].ids.tolist())
    assert len(answered) == 3
    for i in range(6):
        (owed,) = tree.row(simulation.states.get(torch.tensor([i])), 0).channel
        assert (max(float(x.abs().max()) for x in owed.values()) > 0) == (i in answered)


def test_a_refused_answer_is_still_owed() -> None:
    """Too few usable answers: everybody keeps what it had before the round."""
    recipe = composed(TASK, DATA, named("topk"))
    played = play(recipe, DATA, 1, guard=Guard(min_replies=7))
    assert played.rounds[0].skipped
    (owed,) = tree.row(played.simulation.states.get(torch.tensor([0])), 0).channel
    assert all(float(x.abs().max()) == 0 for x in owed.values())


def test_privacy_comes_before_compression() -> None:
    """Whoever is named first: noise is added to whole updates."""
    dp = ("local_dp", {"delta": 0.01})
    one, two = (composed(TASK, DATA, *m) for m in ((dp, "topk"), ("topk", dp)))
    assert one.channel == two.channel
    assert [type(c).__name__ for c in one.channel] == ["Clipped", "Compressed"]


@pytest.mark.parametrize(
    ("methods", "parts", "words"),
    [
        (("topk", "random_mask"), {}, "both set the sparsity"),
        (("eight_bit", "sign"), {}, "both set the precision"),
        (("stc", "sign"), {}, "writes the numbers of an update in few bits"),
        (("scaffold", "eight_bit"), {}, "set feedback = true"),
        (("fedevg", "topk"), {}, "no update of a model"),
        (("local_only", "topk"), {}, "trains alone"),
        (("pooled", "sign"), {}, "in one place"),
        ((("topk", {"direction": "both"}),), {"topology": Ring()}, "neighbours have one kind"),
    ],
)
def test_what_is_refused(methods: tuple[str, ...], parts: dict[str, Any], words: str) -> None:
    for order in (methods, methods[::-1]):
        with pytest.raises(ConfigError, match=words):
            composed(TASK, DATA, *order, **parts)


def test_scaffold_takes_any_compression_that_remembers() -> None:
    composed(TASK, DATA, "scaffold", ("eight_bit", {"feedback": True}))
    for order in (("topk", "eight_bit"), ("eight_bit", "topk")):  # one memory for both
        composed(TASK, DATA, "scaffold", *order)


# -- lies ---------------------------------------------------------------------------------------


def lied(name: str, attack: Any) -> tuple[Any, Any]:
    """The wire of the first round, (honest, with client 0 lying)."""
    recipe = replace(composed(TASK, DATA, named(name)), batch_size=8)
    out = []
    for liars in ([], [0]):
        inner = Simulation(recipe, DATA.examples, DATA.rows, TASK.init(rng.key(7)), 6)
        transport = AttackedTransport(inner, attack, torch.tensor(liars, dtype=torch.long), 0)
        loop = Loop(recipe, transport, range(1), 0, Guard())
        transport.begin(Opening(recipe, inner.w))
        plan = recipe.schedule.plan(0, range(1), 6, loop.cohorts)
        (part,) = transport.train(0, plan, loop.downs(loop.begin(inner.w)), loop.home)
        ups = torch.func.vmap(recipe.channel[0].decode)(part.wire)
        out.append(tree.row(ups, 0))
    return tuple(out)


@pytest.mark.parametrize("name", METHODS)
def test_lies_travel_in_the_form_of_the_truth(name: str) -> None:
    honest, flipped = lied(name, SignFlip(scale=4.0))
    torch.testing.assert_close(flipped, tree.scale(-4.0, honest))
    _, noise = lied(name, Noise(std=1.0))
    size = {"topk": 18, "random_mask": 18, "stc": 9}.get(name, N)
    numbers = sum(int((x != 0).sum()) for x in noise.delta.values())
    assert size - 10 * (name == "eight_bit") <= numbers <= size  # small ones may round to zero


def test_memory_is_kept_by_the_store() -> None:
    """Beside what the method keeps."""
    played = play(composed(TASK, DATA, "scaffold", named("topk"), **sampled(0.5)), DATA, 3)
    assert kept_by(played.simulation).keys() == set(played.simulation.states.touched)
    for i in played.simulation.states.touched:
        kept = tree.row(played.simulation.states.get(torch.tensor([i])), 0)
        assert max(float(x.abs().max()) for x in kept.channel[0].values()) > 0
