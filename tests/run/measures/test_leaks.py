"""A backdoor that opens, and a model that tells who was there."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from unalike import tree
from unalike.engine.attacks import Backdoor
from unalike.errors import ConfigError
from unalike.federation.data import TEST, TRAIN, Examples
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.measures.leaks import auc
from unalike.run.rounds import rounds


def records(**raw):
    base = {"partition": {"name": "iid", "clients": 5}, "rounds": 6}
    return [s.record for s in rounds(experiment(parse({**base, **raw})))]


LEARNS = {"local": {"epochs": 5.0, "lr": 0.1}, "evaluation": {"every": 6}}


EVERY = ["complete", "exponential", "random"]  # graphs like those of the default tier
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in EVERY]


@pytest.mark.parametrize("topology", ["star", "ring", "clusters", "gossip", "rotating", *SLOW])
def test_a_backdoor_opens(topology):
    """Two of five attackers bring the target about, and hardly anybody sees it without the key."""
    attack = {"name": "backdoor", "number": 2, "target": 7, "size": 2}
    last = records(attack=attack, topology=topology, **LEARNS)[-1]
    assert last["backdoor"] > (0.3 if topology == "ring" else 0.6)  # it hears of both in time
    assert last["backdoor_clean"] < 0.1
    assert last["metrics"]["global"]["accuracy"]["mean"] > 0.8


@pytest.mark.parametrize(("size", "fits"), [(8, True), (9, False)])
def test_a_trigger_is_no_larger_than_a_picture(size, fits):
    """Digits have eight pixels on a side."""
    attack = {"name": "backdoor", "size": size}
    if fits:
        experiment(parse({"rounds": 1, "attack": attack}))
        return
    with pytest.raises(ConfigError, match=r"attack\.size is 9, but an example of 'digits' has"):
        experiment(parse({"rounds": 1, "attack": attack}))


def scores(w, x):
    """What a perceptron makes of rows, by its matrices."""
    names = sorted((k for k in w if "weight" in k), key=lambda k: -w[k].shape[1])
    layers = [(w[k].double(), w[k.replace("weight", "bias")].double()) for k in names]
    for i, (a, b) in enumerate(layers):
        x = x @ a.T + b
        x = x.clamp(min=0) if i < len(layers) - 1 else x
    return x


def taken(w, x, target):
    """The share of rows that it takes for a class."""
    return (scores(w, x).argmax(1) == target).double().mean().item()


@pytest.mark.parametrize("method", ["fedavg", "lg_fedavg"])
def test_nobody_counts_the_models_of_attackers(method):
    """Honest nodes of a ring on all test rows; honest clients' own models on their own test rows.

    By hand, from what servers and clients hold in the end.
    """
    raw = {
        "rounds": 2,
        "partition": {"name": "dirichlet", "clients": 6, "alpha": 1.0},
        "model": {"name": "mlp", "hidden": [9]},
        "attack": {"name": "backdoor", "number": 2, "target": 3, "size": 2},
        "method": method,
        "topology": "ring" if method == "fedavg" else "star",
    }
    made = experiment(parse(raw))
    *_, last = rounds(made)
    e, rows = made.federation.examples, made.federation.rows(TEST)
    algorithm, servers = made.recipe.algorithm, last.progress.state.servers
    honest = [k for k in range(6) if k not in made.attackers]
    assert len(honest) == 4
    models = {k: servers[k].x for k in honest} if method == "fedavg" else {}
    if method == "lg_fedavg":
        kept = {k: made.simulation.states.get(torch.tensor([k])) for k in honest}
        down = algorithm.broadcast(servers[0])
        models = {k: algorithm.personal(down, tree.row(v, 0).mine) for k, v in kept.items()}
    hits, n = 0.0, 0
    for k, w in models.items():
        at = rows.order if method == "fedavg" else rows.of(k)
        at = at[e.y[at] != 3]
        x = e.x[at].clone()
        x[:, :, -2:, -2:] = 1.0
        hits += taken(w, x.flatten(1).double(), 3) * len(at)
        n += len(at)
    assert last.record["backdoor"] == pytest.approx(hits / n, abs=1e-6)


def test_without_attackers_there_is_no_such_number():
    assert "backdoor" not in records(rounds=1)[-1]
    assert "membership" not in records(rounds=1)[-1]


def test_the_trigger_and_the_label():
    x = torch.zeros(40, 1, 5, 5)
    examples = Examples(x, torch.arange(40) % 4, 4)
    rows = torch.arange(20)
    found = Backdoor(target=3, rows=0.5, size=2, value=0.5).poison(examples, rows)
    marked = found.x.flatten(1).any(1)
    assert not marked[20:].any()
    assert 4 <= int(marked.sum()) <= 16
    assert (found.x[marked].sum((1, 2, 3)) == 4 * 0.5).all()
    assert (found.x[marked][:, :, 3:, 3:] == 0.5).all()
    assert (found.y[marked] == 3).all()
    assert torch.equal(found.y[~marked], examples.y[~marked])
    assert not examples.x.any()
    again = Backdoor(target=3, rows=0.5, size=2, value=0.5).poison(examples, rows)
    assert torch.equal(again.x, found.x)


def test_a_table_has_its_trigger_in_the_last_features():
    assert Backdoor(size=2).stamped(torch.zeros(3, 4)).tolist() == [[0, 0, 1, 1]] * 3


def test_an_update_can_be_boosted():
    up = {"w": torch.ones(2)}
    key = torch.tensor(0)
    assert Backdoor(scale=5.0).forge(up, torch.tensor(2.0), key)["w"].tolist() == [5, 5]
    assert Backdoor().forge(up, torch.tensor(2.0), key)["w"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (Examples(torch.zeros(4, 2), torch.zeros(4).long(), 2), "attack.target is 5, but the cl"),
        (Examples(torch.zeros(4, 2).long(), torch.zeros(4).long(), 9), "are tokens; use another"),
    ],
)
def test_where_there_is_no_backdoor(examples, message):
    with pytest.raises(ConfigError, match=message):
        Backdoor(target=5).poison(examples, torch.arange(2))


def test_auc_is_that_of_another_program():
    draw = np.random.default_rng(0)
    members, others = draw.normal(0, 1, 60).round(1), draw.normal(0.5, 1, 40).round(1)
    truth = np.r_[np.ones(60), np.zeros(40)]
    wanted = roc_auc_score(truth, -np.r_[members, others])
    assert auc(members, others) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("topology", ["star", "ring", "clusters", "rotating", *SLOW])
def test_memory_is_measured(topology):
    """A few rows learned by heart are told apart; who has learned nothing tells nothing."""
    split = {"validation": 0.0, "test": 0.95}
    heart = {"local": {"epochs": 40.0, "lr": 0.3}, "rounds": 3, "topology": topology}
    asked = {"evaluation": {"membership": True, "every": 3}, "split": split}
    found = records(**heart, **asked)[-1]["membership"]
    assert len(found["each"]) == 5
    assert found["worst"] == max(found["each"])
    assert found["mean"] == pytest.approx(np.mean(found["each"]), abs=1e-5)
    assert found["mean"] > 0.6
    idle = {"local": {"lr": 1e-9}, "rounds": 1, "topology": topology}
    nothing = records(**idle, **{**asked, "evaluation": {"membership": True}})[-1]["membership"]
    assert abs(nothing["mean"] - 0.5) < 0.04


def test_rows_of_attackers_are_no_members():
    """Their wrong labels are told from the true ones they are tested on, whoever trained."""
    attack = {"name": "label_flip", "number": 2}
    asked = {"local": {"lr": 1e-9}, "evaluation": {"membership": True}, "rounds": 1}
    made = experiment(
        parse({"partition": {"name": "iid", "clients": 5}, "attack": attack, **asked})
    )
    found = next(iter(rounds(made))).record["membership"]
    assert [k for k, v in enumerate(found["each"]) if v is None] == list(made.attackers)
    assert found["mean"] == pytest.approx(np.mean([v for v in found["each"] if v]), abs=1e-5)


def test_clients_with_models_of_their_own_are_told_from_these():
    """Where only clients have whole models: the AUC of each one's own, worked out from it."""
    raw = {
        "model": {"name": "mlp", "hidden": [9]},
        "rounds": 2,
        "partition": {"name": "iid", "clients": 5},
        "split": {"validation": 0.0, "test": 0.9},
        "local": {"epochs": 20.0, "lr": 0.3},
        "method": "lg_fedavg",
        "topology": "clusters",
        "evaluation": {"membership": True},
    }
    made = experiment(parse(raw))
    *_, last = rounds(made)
    found, algorithm = last.record["membership"], made.recipe.algorithm
    for k, told in enumerate(found["each"]):
        server = last.progress.state.servers[k % 2]
        kept = tree.row(made.simulation.states.get(torch.tensor([k])), 0).mine
        w = algorithm.personal(algorithm.broadcast(server), kept)
        losses = []
        for part in (TRAIN, TEST):
            at = made.federation.rows(part).of(k)
            e = made.federation.examples
            out = scores(w, e.x[at].flatten(1).double())
            losses.append(torch.nn.functional.cross_entropy(out, e.y[at], reduction="none"))
        truth = np.r_[np.ones(len(losses[0])), np.zeros(len(losses[1]))]
        wanted = roc_auc_score(truth, -torch.cat(losses).detach().numpy())
        assert told == pytest.approx(wanted, abs=1e-4)
    assert found["mean"] > 0.55
