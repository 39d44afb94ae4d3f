"""Compressed downloads: bytes by hand, what clients get, and that nothing is forgotten."""

from typing import Any

import pytest
import torch
from federations import (
    Data,
    Linear,
    Played,
    Quadratic,
    at,
    composed,
    distance,
    network_task,
    play,
    same,
    sampled,
    scalars,
)

from unalike import tree
from unalike.deploy.joining import refuse_simulated
from unalike.errors import ConfigError
from unalike.federation.data import Examples
from unalike.parts.optim import Sgd
from unalike.parts.topology import Clusters, Ring
from unalike.run.configuration.config import parse

MODEL = 16 * 7 + 7 + 7 * 6 + 6 + 6 * 3 + 3  # numbers of the perceptron


def run(*methods: Any, rounds: int = 4, engine: Any = "sequential", **parts: Any) -> Played:
    task, data = network_task("dense")
    recipe = composed(task, data, *methods, **parts)
    return play(recipe, data, rounds, engine=engine, batch_size=16)


DOWN = {"direction": "down"}
SIZES = {  # of a message, by hand
    "topk": 4 * 18 + 18,  # 18 of 188 numbers, and their places in a byte each
    "random_mask": 4 * 18 + 4,  # and the seed
    "eight_bit": MODEL + 6 * 4,  # a byte each, and a scale for each of six leaves
    "sign": sum(-(-n // 8) for n in (112, 7, 42, 6, 18, 3)) + 6 * 4,
}


@pytest.mark.parametrize("name", SIZES)
def test_bytes_of_those_that_always_take_part(name: str) -> None:
    """The whole model at first, then a message; uploads are as they were."""
    settings = DOWN if name in ("eight_bit", "sign") else {**DOWN, "share": 0.1}
    found = [r.traffic for r in run((name, settings)).rounds]
    plain = run("fedavg", rounds=1).rounds[0].traffic
    assert plain.down == 6 * 4 * MODEL
    assert [t.down for t in found] == [plain.down, *3 * [6 * SIZES[name]]]
    assert {t.up for t in found} == {plain.up}


def test_who_was_absent_gets_what_it_missed_or_all_of_it() -> None:
    """Three of six clients in a round, by the plan of the run; messages are a third of a model."""
    played = run(("eight_bit", DOWN), rounds=9, **sampled(0.5))
    message, whole = SIZES["eight_bit"], 4 * MODEL
    last: dict[int, int] = {}
    for t, done in enumerate(played.rounds):
        ids = done.ids.tolist()
        due = [min(whole, (t - last[i]) * message) if i in last else whole for i in ids]
        assert done.traffic.down == sum(due)
        last |= dict.fromkeys(ids, t)
    assert len(last) == 6


def test_both_directions_are_counted() -> None:
    one, other = run(("topk", {**DOWN, "share": 0.1})), run(("topk", {"share": 0.1}))
    both = run(("topk", {"direction": "both", "share": 0.1})).rounds[-1].traffic
    assert both.down == one.rounds[-1].traffic.down
    assert both.up == other.rounds[-1].traffic.up


def test_the_busiest_link_has_its_own_bytes() -> None:
    last = run(("eight_bit", DOWN)).rounds[-1]
    assert last.load.link == SIZES["eight_bit"] + 4 * MODEL + 2 * 4
    assert last.worked["parameters"] == 12 * MODEL


def test_clients_train_from_what_they_were_told() -> None:
    """Top 1 of a vector of two: y follows x by its largest gap, one entry a round."""
    task = Linear(("w",))
    x = torch.tensor([[1.0, 0.0, 4.0], [0.0, 1.0, 1.5]], dtype=torch.float64)
    data = Data(Examples(x, torch.zeros(2, dtype=torch.long), 2), scalars([0.0], [2]).rows)
    recipe = composed(task, data, ("topk", {**DOWN, "share": 0.5}), opt=Sgd(1.0))
    w = {"w": torch.zeros(2, dtype=torch.float64)}
    played = play(recipe, data, 3, w, batch_size=2)
    told = [s.known.heard.told.x["w"][0].tolist() for s in played.states[1:]]
    model = [s.servers[0].x["w"].tolist() for s in played.states[1:]]
    assert told[0] == [0.0, 0.0]
    assert model[0] == [2.0, 0.75]  # the mean gradient of two rows, from the origin
    assert told[1] == [2.0, 0.0]  # the larger entry
    assert model[1] == [3.0, 1.5]  # by the gradient at what was told
    assert told[2] == [2.0, 1.5]  # the second, of which all is owed by now


def test_nothing_is_forgotten() -> None:
    """Where clients agree the model comes to rest at their optimum, in what they are told, too."""
    task, data = Quadratic(), scalars([3.0, 3.0])
    recipe = composed(task, data, ("sign", {"direction": "both"}), opt=Sgd(0.2))
    played = play(recipe, data, 60, at(w=-5.0), batch_size=1)
    assert float(played.x["w"]) == pytest.approx(3, abs=1e-4)
    assert float(played.states[-1].known.heard.told.x["w"][0]) == pytest.approx(3, abs=1e-4)


@pytest.mark.parametrize("method", ["fedprox", "scaffold", "phase_shift", "fedadam", "lg_fedavg"])
def test_beside_other_methods_on_both_engines(method: str) -> None:
    """It acts, and both engines agree."""
    part = ("topk", {"direction": "down", "share": 0.3})
    one, other = (run(method, part, engine=e) for e in ("sequential", "vectorized"))
    assert distance(one.x, other.x) < 1e-5
    assert distance(one.x, run(method).x) > 1e-4
    assert one.rounds[-1].traffic.down < run(method).rounds[-1].traffic.down


def test_every_edge_server_tells_its_own() -> None:
    played = run(("eight_bit", DOWN), topology=Clusters(2, 3))
    told = played.states[-1].known.heard.told.x
    assert not same(tree.row(told, 0), tree.row(told, 1))
    assert played.rounds[2].traffic.down == 6 * SIZES["eight_bit"]


def test_the_last_digits_of_a_whole_share_are_all_that_differs() -> None:
    """All entries of a difference: x - y + y."""
    assert distance(run("fedavg").x, run(("topk", {**DOWN, "share": 0.999})).x) < 1e-5


def test_what_has_no_server_sends_no_downloads() -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match="neighbours"):
        composed(task, data, ("topk", DOWN), topology=Ring())


def test_real_sites_are_sent_whole_models() -> None:
    config = parse({"method": {"name": "stc", "direction": "both"}})
    with pytest.raises(ConfigError, match="compresses downloads, which is for simulations"):
        refuse_simulated(config)


def test_real_neighbours_are_told_whole_models() -> None:
    config = parse({"method": "scaffold", "plus": ["topk"], "topology": "ring"})
    with pytest.raises(ConfigError, match="'topk' without a server is for simulations"):
        refuse_simulated(config)
    refuse_simulated(parse({"method": "topk", "topology": "rotating"}))
