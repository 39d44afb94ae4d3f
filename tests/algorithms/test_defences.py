"""Median, trimmed mean, Krum and norm clipping as methods: limits, engines, refusals, a fight."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from federations import (
    Data,
    Named,
    cohort,
    composed,
    distance,
    federation,
    network_task,
    play,
    sampled,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unalike import rng, tree
from unalike.algorithms.krum import Krum
from unalike.algorithms.median import Median
from unalike.algorithms.norm_clip import NormClip
from unalike.algorithms.trimmed_mean import TrimmedMean
from unalike.engine.attacks import Attack, AttackedTransport, LabelFlip, ModelReplacement, SignFlip
from unalike.engine.loop import Loop
from unalike.engine.server.guard import Guard
from unalike.engine.simulation.simulate import Simulation
from unalike.errors import ConfigError
from unalike.federation.build import federate
from unalike.federation.data import TEST, TRAIN
from unalike.federation.datasets.digits import Digits
from unalike.federation.partition.iid import Iid
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.recipe import Filter
from unalike.tasks import MultiClass
from unalike.tree import mean

DEFENCES: list[Named] = [
    "median",
    ("trimmed_mean", {"trim": 0.2}),
    ("krum", {"attackers": 1}),
    ("krum", {"attackers": 1, "select": 3}),
    "norm_clip",
    ("norm_clip", {"bound": "fixed", "norm": 0.05}),
]


def ends(data: Data, *methods: Named, engine: Any = "vectorized", net: str = "dense") -> Any:
    task, _ = network_task(net)
    return play(composed(task, data, *methods), data, 3, engine=engine).x


EQUAL = federation(sizes=(12,) * 6)
RAGGED = federation()


@pytest.mark.parametrize(
    "method", [("trimmed_mean", {"trim": 0.0}), ("krum", {"attackers": 0, "select": 6})]
)
def test_trimming_nobody_or_selecting_all_is_fedavg_with_equal_weights(method: Named) -> None:
    assert distance(ends(EQUAL, "fedavg"), ends(EQUAL, method)) < 1e-6


@pytest.mark.parametrize("method", DEFENCES, ids=str)
def test_engines_agree_also_on_batch_statistics(method: Named) -> None:
    """Running statistics are part of an update and go through the same rule."""
    a, b = (ends(RAGGED, method, engine=e, net="conv") for e in ("sequential", "vectorized"))
    assert distance(a, b) < 1e-4
    assert (a["1.running_var"] > 0).all()


@pytest.mark.parametrize("other", ["fedprox", "fedadam", "lg_fedavg", "superfed_mm", "fedaug"])
@pytest.mark.parametrize("method", ["median", "norm_clip"])
def test_they_combine_with_other_parts(method: str, other: str) -> None:
    task, data = network_task("dense")
    before = task.init(rng.key(7))
    recipe = composed(task, data, other, method, rounds=2)
    after = play(recipe, data, 2, before).x
    assert all(torch.isfinite(x).all() for x in after.values())
    assert distance({k: before[k] for k in after}, after) > 1e-6


def test_phase_shift_is_filtered_among_those_who_answer() -> None:
    """Three of six answer in the first round, so the median is over three."""
    task, data = network_task("dense")
    recipe = composed(task, data, ("phase_shift", {"phases": 2}), "median")
    done = play(recipe, data, 2)
    assert len(done.rounds[0].ids) == 3


def test_edge_servers_filter_their_own_clients() -> None:
    """They exchange models after the second round; until then each has the median of its own."""
    task, data = network_task("dense")
    done = play(composed(task, data, "median", topology="clusters"), data, 1)
    loop, state = done.loop, done.states[0]
    plan = loop.recipe.schedule.plan(0, range(4), data.n_clients, loop.cohorts)
    (sent,) = loop.transport.train(0, plan, loop.downs(state), loop.home)
    ups = tree.row(sent.wire.delta, sent.ids.argsort())
    for server in (0, 1):
        for name, x in done.states[1].servers[server].x.items():
            middle = ups[name][server::2].median(0).values  # three clients each
            torch.testing.assert_close(x, state.servers[0].x[name] + middle)


@pytest.mark.parametrize(
    ("methods", "settings", "message"),
    [
        (
            ["fednova", "median"],
            {},
            "'fednova' cannot be combined with 'median': .*of the step",
        ),
        (["median", "fedep"], {}, "'median' cannot be combined with 'fedep': all clients count"),
        (["aaggff_d", "krum"], {}, "cannot be combined with"),
        (["median", "krum"], {}, "both set the defence"),
        (["fedevg", "median"], {}, "'fedevg' cannot .* 'median': it sends no updates"),
        (
            ["scaffold", "norm_clip"],
            {},
            "'scaffold' cannot .* 'norm_clip': .*mean of the clients' own",
        ),
        (["pooled", "median"], {}, "cannot be combined"),
        (["local_only", "krum"], {}, "cannot be combined"),
        (["median"], {"topology": "ring"}, "cannot run on topology 'ring'"),
        ([("krum", {"attackers": 2})], {}, "2 attackers needs at least 7 answers.*there are 6"),
        ([("krum", {"attackers": 1})], sampled(0.5), "needs at least 5 answers.*there are 3"),
        ([("krum", {"select": 6})], {}, "select = 6 is more than the 5 of 6 answers"),
        (["krum"], {"topology": "clusters"}, "needs at least 5 answers.*there are 3"),
        (["krum", ("phase_shift", {"phases": 2})], {}, "there are 3"),
        ([("trimmed_mean", {"trim": 0.1})], {}, "trim = 0.1 cuts off none of the 6.*0.167"),
    ],
)
def test_refusals(methods: list[Named], settings: dict[str, Any], message: str) -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match=message):
        composed(task, data, *methods, **settings)


# -- what every rule keeps to -----------------------------------------------------------------

RULES = {
    "median": Median(),
    "trimmed": TrimmedMean(trim=0.3),
    "krum": Krum(attackers=2),
    "multi_krum": Krum(attackers=2, select=3),
    "clip": NormClip(),
}
SEEDS = st.integers(0, 10_000)


def updates(seed: int, n: int = 7) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 3)))


def result(rule: Filter, x: Tensor) -> Tensor:
    n = len(x)
    ups, p = rule({"u": x}, torch.full((n,), 1 / n, dtype=torch.float64), cohort([1.0] * n))
    return mean(p, ups)["u"]


@pytest.mark.parametrize("name", RULES)
@given(seed=SEEDS)
def test_the_order_of_clients_does_not_matter(name: str, seed: int) -> None:
    x = updates(seed)
    order = torch.from_numpy(np.random.default_rng(seed + 1).permutation(len(x)))
    torch.testing.assert_close(result(RULES[name], x), result(RULES[name], x[order]))


@pytest.mark.parametrize("name", RULES)
@given(seed=SEEDS)
def test_if_all_agree_nothing_changes(name: str, seed: int) -> None:
    x = updates(seed, 1).expand(7, 3)
    torch.testing.assert_close(result(RULES[name], x), x[0])


@pytest.mark.parametrize("name", ["median", "trimmed", "krum", "multi_krum"])
@given(seed=SEEDS, lie=st.sampled_from([1e6, -1e6, 1e12]))
def test_two_liars_of_seven_stay_without_effect(name: str, seed: int, lie: float) -> None:
    """The result lies within the range of the honest, coordinate by coordinate."""
    x = updates(seed)
    honest, x = x[2:].clone(), x.clone()
    x[:2] = lie * torch.tensor([[1.0], [0.9]], dtype=x.dtype)
    found = result(RULES[name], x)
    assert (found >= honest.min(0).values - 1e-9).all()
    assert (found <= honest.max(0).values + 1e-9).all()


@given(seed=SEEDS, lie=st.sampled_from([1e6, -1e12]))
def test_a_clipped_liar_moves_the_mean_by_at_most_the_bound(seed: int, lie: float) -> None:
    """Two of seven can add at most 2/7 of an honest length each way."""
    x = updates(seed)
    longest = x[2:].norm(dim=1).max()
    x[:2] = lie
    assert result(RULES["clip"], x).norm() <= longest + 1e-9


@given(seed=SEEDS)
def test_the_mean_itself_is_at_the_mercy_of_one_liar(seed: int) -> None:
    """What the rules above are for."""
    x = updates(seed)
    x[0] = 1e6
    assert (result(TrimmedMean(trim=0.0), x) > 1e5).all()


# -- a fight ----------------------------------------------------------------------------------

DIGITS = federate(Digits(), Iid(clients=20), seed=1)


def accuracy(attack: Attack, *methods: Named, rounds: int = 30) -> float:
    """Test accuracy on digits dealt to 20 clients, 6 of whom attack if anybody does."""
    shape = tuple(DIGITS.examples.x.shape[1:])
    task = MultiClass(Network(MODELS["mlp"](hidden=[32]).build(shape, 10)))
    data = Data(DIGITS.examples, DIGITS.rows(TRAIN))
    liars = attack.attackers(20, seed=3)
    rows = torch.cat([data.rows.of(int(i)) for i in liars]) if len(liars) else torch.zeros(0).long()
    w = task.init(rng.key(1))
    recipe = composed(task, data, *methods, opt=Sgd(0.1), epochs=2.0)
    recipe = replace(recipe, batch_size=16)
    simulation = Simulation(recipe, attack.poison(DIGITS.examples, rows), data.rows, w, 20)
    transport = AttackedTransport(simulation, attack, liars, 3)
    loop = Loop(recipe, transport, range(rounds), 0, Guard())
    state = loop.begin(w)
    for t in range(rounds):
        state, _ = loop.advance(state, t)
    test = DIGITS.rows(TEST).order
    found = task.logits(state.servers[0].x, DIGITS.examples.x[test]).argmax(1)
    return float((found == DIGITS.examples.y[test]).float().mean())


KRUM = ("krum", {"attackers": 6})
MULTI = ("krum", {"attackers": 6, "select": 10})
TRIM = ("trimmed_mean", {"trim": 0.3})


def test_without_attackers_all_learn() -> None:
    """Robust rules cost little where clients are alike."""
    assert accuracy(Attack(), "fedavg") > 0.88
    for method in ("median", MULTI):
        assert accuracy(Attack(), method) > 0.87


def test_six_sign_flippers_of_twenty_break_fedavg_and_not_the_defences() -> None:
    """Six updates times -4 outweigh fourteen honest ones."""
    attack = SignFlip(share=0.3, scale=4.0)
    assert accuracy(attack, "fedavg") < 0.2
    for method in ("median", TRIM, KRUM, MULTI):
        assert accuracy(attack, method) > 0.85


def test_model_replacement_is_stopped_by_clipping() -> None:
    """Two boosted clients, whose labels are reversed, lead the mean but not the clipped one."""
    attack = ModelReplacement(number=2)
    assert accuracy(attack, "fedavg") < 0.6
    assert accuracy(attack, "norm_clip") > 0.85


def test_flipped_labels_mislead_the_mean_most() -> None:
    """Their updates are no longer than others, so a bound on lengths does not stop them."""
    attack = LabelFlip(share=0.4)
    mean, middle = accuracy(attack, "fedavg"), accuracy(attack, "median")
    assert mean < 0.8 < 0.85 < middle
