"""Broken answers are named, left out and forgotten; the round goes on with the others."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from federations import Data, composed, distance, network_task, play, same, sampled, state_of
from torch import Tensor

from unalike import tree
from unalike.engine import loop as loops
from unalike.engine.faults import Faults
from unalike.engine.loop import Loop
from unalike.engine.server.gather import Held
from unalike.engine.server.guard import Guard
from unalike.engine.transport import Replies, Through, Transport
from unalike.errors import RunError
from unalike.federation.data import Examples
from unalike.parts.schedule import Participation


def replies(*lengths: float, **stats: list[float]) -> Replies:
    """Updates of given lengths, numbered from 10."""
    n = len(lengths)
    ups = {"w": torch.tensor(lengths)[:, None] * torch.tensor([0.6, 0.8]), "b": torch.zeros(n)}
    numbers = {k: torch.tensor(v) for k, v in {"examples": [1.0] * n, **stats}.items()}
    return Replies(10 + torch.arange(n), ups, numbers)


def check(sent: Replies, scale: float = 1.0, **settings: Any) -> tuple[list[int], dict[int, str]]:
    """(who is left, who was refused and why), for a model of length ``scale``."""
    held = Held((), sent.ids)
    held.take(sent)
    ids, norms, _ = held.numbers()
    usable, why = Guard(**settings).check(ids, norms, scale)
    left = ids[usable]
    assert sorted(left.tolist() + list(why)) == ids.tolist()
    if len(left):
        assert len(held.uploads(left)(left).stack()["w"]) == len(left)
    return left.tolist(), why


def test_sound_answers_pass_untouched() -> None:
    """The very same object, so that nothing is copied."""
    sent = replies(1.0, 2.0, 900.0)
    assert check(sent) == ([10, 11, 12], {})
    held = Held((), sent.ids)
    held.take(sent)
    assert held.uploads(sent.ids)(sent.ids).stack() is sent.wire


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_an_update_that_is_not_finite(bad: float) -> None:
    """Named by the client's number."""
    left, why = check(replies(1.0, bad, 2.0))
    assert left == [10, 12]
    assert why == {11: "a number that is not finite"}


def test_a_statistic_that_is_not_finite() -> None:
    """It would spoil the mixing weights."""
    left, why = check(replies(1.0, 1.0, loss=[torch.nan, 0.5]))
    assert left == [11]
    assert list(why) == [10]


def test_an_exploded_update() -> None:
    """More than 1000 times the median, of 2; the message says by how much."""
    left, why = check(replies(1.0, 2.0, 3.0, 5000.0), scale=20.0)
    assert left == [10, 11, 12]
    assert why == {13: "an update of length 5e+03, 2500 times the median"}
    assert check(replies(1.0, 2.0, 3.0, 1999.0), scale=20.0)[1] == {}
    assert list(check(replies(1.0, 2.0, 3.0, 30.0), scale=20.0, explode=10)[1]) == [13]


def test_an_honest_client_among_converged_ones_is_kept() -> None:
    """100,000 times the median, but a twentieth of the model's length of 20."""
    assert check(replies(1e-5, 1e-5, 1e-5, 1e-5, 1.0), scale=20.0)[1] == {}
    left, why = check(replies(1e-5, 1e-5, 1e-5, 1e-5, 20.5), scale=20.0)
    assert left == [10, 11, 12, 13]
    assert why == {14: "an update of length 20.5, 2050000 times the median"}


def test_most_of_a_round_may_explode() -> None:
    """Four of six: their length is the median, but no training makes a model 10^12 times longer."""
    left, why = check(replies(1e12, 1.0, 2e12, 1e12, 2.0, 1e12), scale=20.0)
    assert left == [11, 14]
    said = re.fullmatch(r"an update of length 1e\+12, (\d+) times the model", why[10])
    assert said is not None
    assert int(said[1]) == pytest.approx(5e10, rel=1e-6)
    assert check(replies(1e12, 1e12), scale=20.0)[0] == []


def test_who_answers_alone_may_explode() -> None:
    """1000 times the model's length is the most that an update may have, whoever else answers."""
    assert check(replies(20_000.0), scale=20.0)[1] == {}
    assert check(replies(20_001.0), scale=20.0)[0] == []


def test_a_model_that_begins_at_zero_may_grow() -> None:
    """It counts as one of length 1."""
    assert check(replies(999.0), scale=0.0)[1] == {}
    assert check(replies(1001.0), scale=0.0)[1] == {
        10: "an update of length 1e+03, 1001 times the model"
    }


def test_even_of_two_clients_the_wild_one_is_found() -> None:
    """The median is the lower of the two."""
    assert check(replies(1.0, 1e6))[0] == [10]


def test_updates_of_length_zero_are_no_measure() -> None:
    """If most did nothing, whoever did something is not wild."""
    assert check(replies(0.0, 0.0, 1.0))[1] == {}
    assert check(replies(0.0, 0.0, 7.0))[1] == {}


def test_numbers_too_large_to_square_in_single_precision() -> None:
    """1e30 is finite and wild, not infinite."""
    _, why = check(replies(1.0, 1.0, 1e30))
    assert why[12].startswith("an update of length 1e+30")


def test_nobody_and_everybody() -> None:
    """No answers, and none that is sound."""
    assert check(replies()) == ([], {})
    assert check(replies(torch.nan, torch.nan))[0] == []


def test_a_guard_that_never_refuses_for_length() -> None:
    """As with differential privacy; what is not finite it still refuses."""
    left, _ = check(replies(0.0, 0.0, 1e30, torch.nan), explode=torch.inf)
    assert left == [10, 11, 12]


@dataclass
class Wild(Through):
    """Some clients send their updates 10^12 times longer."""

    inner: Transport
    who: tuple[int, ...]

    def train(self, *args: Any) -> Iterator[Replies]:
        """As the inner transport, but for them."""
        for part in self.inner.train(*args):
            factor = 1.0 + (1e12 - 1) * torch.isin(part.ids, torch.tensor(self.who))

            def longer(x: Tensor, factor: Tensor = factor) -> Tensor:
                return x * factor.to(x).reshape(-1, *[1] * (x.ndim - 1))

            yield part._replace(wire=tree.map(longer, part.wire))


@pytest.mark.parametrize("held", [loops.HELD, 0], ids=["held", "summed"])
def test_two_honest_clients_of_six_make_the_round(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the four were not there, also where answers are summed as they come."""
    monkeypatch.setattr(loops, "HELD", held)
    task, data = network_task("dense", torch.float64)
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    played = play(recipe, data, 0, chunk=2)
    loop = Loop(played.loop.recipe, Wild(played.simulation, (0, 2, 3, 5)), range(1), 0, Guard())
    after, done = loop.advance(loop.begin(played.simulation.w), 0)
    assert sorted(done.rejected) == [0, 2, 3, 5]
    assert all("times the model" in why for why in done.rejected.values())
    assert done.ids.tolist() == [1, 4]
    n = torch.tensor([9.0, 30.0], dtype=torch.float64)
    assert torch.allclose(done.weights.double(), n / n.sum())
    alone = play(composed(task, data, "local_only", **sampled(1.0)), data, 1).simulation
    both = tree.stack([state_of(alone, i) for i in (1, 4)])
    assert distance(after.servers[0].x, tree.mean(n / n.sum(), both)) < 1e-12


def test_a_round_of_one_client_that_explodes_is_skipped() -> None:
    """In every round, and the model is as it was."""
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", participation=Participation(number=1))
    played = play(recipe, data, 3, faults=Faults(garbage=1.0, kind="huge"))
    for done in played.rounds:
        (why,) = done.rejected.values()
        assert "times the model" in why
        assert done.skipped == "0 usable answers, 1 needed"
    assert same(played.states[0], played.states[-1])


def spoiled(data: Data, client: int, value: float) -> Data:
    """The data with one client's features replaced."""
    x = data.examples.x.clone()
    x[data.rows.of(client)] = value
    return Data(Examples(x, data.examples.y, data.examples.classes), data.rows)


def without(data: Data, client: int) -> Data:
    """The data with one client's rows left out of everybody's."""
    keep = [i for i in range(data.n_clients) if i != client]
    order = torch.cat([data.rows.of(i) for i in keep])
    sizes = torch.tensor([len(data.rows.of(i)) for i in keep])
    start = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)]).numpy()
    return Data(data.examples, type(data.rows)(order, start))


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
@pytest.mark.parametrize("name", ["fedavg", "scaffold", "superfed_mm", "lg_fedavg"])
def test_a_client_whose_data_are_not_numbers(name: str, engine: Any) -> None:
    """It is named in every round, keeps its first state, and the others go on."""
    task, data = network_task("dense")
    settings: Any = (name, {"start": 0.0}) if name == "superfed_mm" else name
    recipe = composed(task, data, settings, **sampled(1.0))
    played = play(recipe, spoiled(data, 2, torch.nan), 3, engine=engine)
    assert [list(r.rejected) for r in played.rounds] == [[2]] * 3
    assert all(r.ids.tolist() == [0, 1, 3, 4, 5] for r in played.rounds)
    fresh = play(recipe, data, 0).simulation
    assert same(state_of(played.simulation, 2), state_of(fresh, 2))
    assert all(torch.isfinite(v).all() for v in played.x.values())


def test_the_others_average_as_if_it_were_not_there() -> None:
    """One round of FedAvg over five clients."""
    task, data = network_task("dense")
    with_it = play(composed(task, data, "fedavg"), spoiled(data, 5, torch.nan), 1)
    five = without(data, 5)
    assert distance(with_it.x, play(composed(task, five, "fedavg"), five, 1).x) < 1e-6


def test_an_exploded_clients_state_is_forgotten() -> None:
    """Finite but wild: its own model would otherwise stay broken for good."""
    task, data = network_task("dense")
    recipe = composed(task, data, ("superfed_mm", {"start": 0.0, "nu": 0.0}), **sampled(1.0))
    wild = spoiled(data, 4, 1e4)
    played = play(recipe, wild, 2, guard=Guard(explode=20))
    assert all("times the median" in r.rejected[4] for r in played.rounds)
    fresh = play(recipe, data, 0).simulation
    assert same(state_of(played.simulation, 4), state_of(fresh, 4))
    assert not same(state_of(played.simulation, 3), state_of(fresh, 3))


def test_scaffolds_invariant_survives_refusals() -> None:
    """c is the mean of c_i: a refused client's variate must not move either."""
    task, data = network_task("dense")
    recipe = composed(task, data, "scaffold", **sampled(1.0))
    played = play(recipe, data, 5, faults=Faults(garbage=0.4), seed=3)
    assert sum(len(r.rejected) for r in played.rounds) >= 3
    states = [state_of(played.simulation, i) for i in range(6)]
    for name, c in played.server.c.items():
        mean = torch.stack([s.c[name] for s in states]).mean(0)
        assert torch.allclose(c, mean, atol=1e-6)


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "phase_shift"])
def test_a_round_with_too_few_answers_changes_nothing(name: str) -> None:
    """Neither servers nor clients, and it says why."""
    task, data = network_task("dense")
    recipe = composed(task, data, name)
    played = play(recipe, data, 3, faults=Faults(garbage=1.0), guard=Guard(min_replies=2))
    assert all(r.skipped == "0 usable answers, 2 needed" for r in played.rounds)
    assert same(played.states[0], played.states[-1])
    fresh = play(recipe, data, 0).simulation
    for i in range(6):
        assert same(state_of(played.simulation, i), state_of(fresh, i))


def test_a_skipped_round_does_not_undo_the_one_before() -> None:
    """If everybody drops out there is nothing to fall back from."""
    task, data = network_task("dense")
    recipe = composed(task, data, "scaffold")
    for seed in range(40):
        played = play(recipe, data, 2, faults=Faults(drop=0.8), seed=seed)
        first, second = played.rounds
        if not first.skipped and second.skipped.startswith("0 usable") and not second.rejected:
            for i in first.ids.tolist():
                assert same(played.kept[1][i], played.kept[0][i])
                assert any(bool(v.any()) for v in played.kept[1][i].c.values())
            return
    pytest.fail("no seed had a good round followed by an empty one")


def test_too_few_answers_can_end_the_run() -> None:
    """With what to do about it."""
    task, data = network_task("dense")
    with pytest.raises(RunError, match=r"round 1 got 0 usable answers, 1 needed; lower faults"):
        play(
            composed(task, data, "fedavg"),
            data,
            faults=Faults(garbage=1.0),
            guard=Guard(too_few="stop"),
        )
