"""Evaluation across the border: clients judge on their rows, a server sees verdicts alone."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from federations import composed, keep, network_task, play, sampled, state_of
from torch import Tensor, nn
from unit_vectors import EYE, SWAP, Two, built, linear
from unit_vectors import federation as unit_federation

import unalike
from unalike import rng, tree
from unalike.algorithm import Algorithm, Stateless, Wrapper
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.table import METHODS
from unalike.engine.evaluation import judging
from unalike.engine.evaluation.client import Examiner
from unalike.engine.evaluation.judging import at_once, merged, outputs, side_by_side
from unalike.engine.evaluation.server import Evaluator
from unalike.engine.transport import Opening
from unalike.federation.data import TEST, TRAIN, VALIDATION
from unalike.metrics.calibration import Reliability
from unalike.network import Network
from unalike.parts.representation.private import Private
from unalike.run.folder.records import plain as readable
from unalike.run.rounds import conclusion, rounds
from unalike.tasks import Judged, MultiClass
from unalike.tree import Params, Tree

# (client, part, feature, label): W = I has 2 of 3 training rows right, then 1 of 3, then 3 of 3.
ROWS = [
    *[(0, TRAIN, 0, 0), (0, TRAIN, 1, 1), (0, TRAIN, 2, 0)],
    *[(1, TRAIN, 0, 0), (1, TRAIN, 1, 0), (1, TRAIN, 2, 0)],
    *[(2, TRAIN, 0, 0), (2, TRAIN, 1, 1), (2, TRAIN, 2, 2)],
    *[(0, TEST, 0, 0), (0, TEST, 1, 1), (1, TEST, 0, 1), (1, TEST, 2, 2), (2, TEST, 2, 2)],
    (0, VALIDATION, 0, 0),
]
OWN = {"test_x": EYE[[0, 1, 2, 0]], "test_y": torch.tensor([0, 1, 2, 2])}
ENGINES = pytest.mark.parametrize("engine", ["sequential", "vectorized"])


class Remote:
    """A transport that has nothing but what the border lets through; it remembers the calls."""

    def __init__(self, sections: dict[str, Judged], out: Tensor | None = None) -> None:
        self.sections, self.out, self.calls = sections, out, list[str]()

    def evaluate(self, downs: Tree, models: list[Params | None]) -> dict[str, Judged]:
        self.calls.append("evaluate")
        self.downs, self.models = downs, models
        return dict(self.sections)

    def ensemble(self, downs: Tree, x: Tensor, noise: Tensor, how: str) -> Tensor:
        self.calls.append(f"ensemble by {how} of {len(x)} rows")
        assert self.out is not None
        return self.out

    def mean_weights(self, downs: Tree) -> Params:
        self.calls.append("mean_weights")
        return {"body.weight": EYE, "top.weight": 10 * EYE}

    def in_flight(self) -> dict[int, Params]:
        return {}


def evaluator(algorithm: Algorithm, remote: Any, tests: Any, ensemble: Any = "probabilities"):
    """A server's side on its own: an algorithm and a transport are all that it knows."""
    loop = SimpleNamespace(recipe=SimpleNamespace(algorithm=algorithm))
    course: Any = SimpleNamespace(transport=remote, loop=loop)
    return Evaluator(course, tests, 0, ensemble)


def verdict(*accuracy: float) -> Judged:
    n = len(accuracy)
    bins = Reliability(torch.ones(n, 15), torch.full((n, 15), 0.5), torch.full((n, 15), 0.5))
    return Judged({"accuracy": torch.tensor(accuracy), "n": torch.full((n,), 4)}, bins)


def test_a_server_needs_a_transport_and_no_simulation() -> None:
    """With a test set of its own it judges there, and takes everything else as it is told."""
    made = built(unit_federation(ROWS, 3, **OWN), linear(10 * EYE))
    remote = Remote({"new": verdict(0.25), "local": verdict(0.5, 0.75)})
    tests = (OWN["test_x"], OWN["test_y"])
    found = evaluator(made.recipe.algorithm, remote, tests)(made.loop.begin(made.w))
    assert remote.calls == ["evaluate"]
    assert list(found.clients) == ["local", "global", "new"]
    assert found.clients["local"]["accuracy"] == [0.5, 0.75]
    assert found.clients["global"]["accuracy"] == [0.75]
    assert found.clients["new"]["accuracy"] == [0.25]
    assert torch.equal(remote.models[0]["weight"], 10 * EYE)  # type: ignore[index]
    assert remote.downs.x["weight"].shape == (1, 3, 3)  # stacked over servers


def test_clients_leave_the_global_test_to_a_server_that_has_one() -> None:
    """Then no client needs a test row."""
    untested = [row for row in ROWS if row[1] != TEST]
    made = built(unit_federation(untested, 3, **OWN), linear(10 * EYE))
    downs = tree.stack(
        [made.recipe.algorithm.broadcast(s) for s in made.loop.begin(made.w).servers]
    )
    assert list(made.simulation.evaluate(downs, [made.w])) == ["validation"]
    found = made.evaluator(made.loop.begin(made.w))
    assert list(found.clients) == ["validation", "global"]
    assert found.clients["global"]["accuracy"] == [0.75]


def test_a_server_without_test_rows_never_computes() -> None:
    made = built(unit_federation(ROWS, 3), linear(10 * EYE))
    remote = Remote({"local": verdict(0.5), "global": verdict(0.125)})
    found = evaluator(made.recipe.algorithm, remote, None)(made.loop.begin(made.w))
    assert found.clients["global"]["accuracy"] == [0.125]


@pytest.mark.parametrize(
    ("ensemble", "call"),
    [
        ("probabilities", "ensemble by probabilities of 4 rows"),
        ("votes", "ensemble by votes of 4 rows"),
        ("weights", "mean_weights"),
    ],
)
def test_where_clients_alone_hold_models_the_server_asks_for_an_ensemble(
    ensemble: str, call: str
) -> None:
    made = built(unit_federation(ROWS, 3, **OWN), Two(), method="lg_fedavg")
    remote = Remote({"local": verdict(0.5)}, out=10 * OWN["test_x"])
    tests = (OWN["test_x"], OWN["test_y"])
    found = evaluator(made.recipe.algorithm, remote, tests, ensemble)(made.loop.begin(made.w))
    assert sorted(remote.calls) == sorted([call, "evaluate"])
    assert found.clients["global"]["accuracy"] == [0.75]


@pytest.mark.parametrize("own", [{}, OWN], ids=["pooled rows", "a test set of its own"])
def test_every_node_is_recorded_beside_the_mean(own: dict[str, Tensor]) -> None:
    """I has 4 of the 5 pooled rows right, the swap 3; of the test set 3 and 1 of 4."""
    made = built(unit_federation(ROWS, 3, **own), linear(EYE), topology="ring")
    state = made.loop.begin(made.w)
    x = {"weight": 10 * torch.stack([EYE, SWAP, EYE])}
    found = made.evaluator(state._replace(stack=state.stack._replace(x=x)))
    want = [0.75, 0.25, 0.75] if own else [0.8, 0.6, 0.8]
    assert found.nodes["accuracy"] == pytest.approx(want)
    assert found.nodes["n"] == [4.0 if own else 5.0] * 3
    assert found.clients["global"]["accuracy"] == pytest.approx([sum(want) / 3])
    assert found.reliability["global"]["counts"][-1] == (12 if own else 15)


def test_nodes_are_in_the_clients_file_only_where_there_are_several() -> None:
    for topology, there in (("ring", True), ("star", False), ("rotating", False)):
        made = built(unit_federation(ROWS, 3), linear(EYE), topology=topology, rounds=1)
        (step,) = rounds(made)
        assert step.clients is not None
        assert ("nodes" in step.clients) == there
        if there:
            assert len(step.clients["nodes"]["loss"]) == 3
        assert "nodes" not in step.record["metrics"]


@ENGINES
def test_training_rows_are_judged_if_asked(engine: str) -> None:
    """By personal models: client 1 swaps, takes (0, 0) for 1 and (1, 0) for 0; (2, 0) for 2."""
    settings = {"engine": {"kind": engine}, "evaluation": {"train": True}}
    made = built(unit_federation(ROWS, 3), Two(), method="lg_fedavg", **settings)
    keep(made.simulation, {k: {"body.weight": w} for k, w in enumerate((EYE, SWAP, EYE))})
    found = made.evaluator(made.loop.begin(made.w))
    assert list(found.clients) == ["train", "validation", "local", "global"]
    assert found.clients["train"]["accuracy"] == pytest.approx([2 / 3, 1 / 3, 1.0])
    assert found.clients["train"]["n"] == [3.0, 3.0, 3.0]
    loss = found.clients["train"]["loss"]
    assert loss[2] == pytest.approx(float(torch.log(torch.tensor(10.0).exp() + 2)) - 10, abs=1e-6)


def test_training_rows_are_left_alone_otherwise() -> None:
    """And are no part of a summary, but for the loss that a pooled run is asked for."""
    plain = built(unit_federation(ROWS, 3), linear(EYE), rounds=1)
    asked = built(unit_federation(ROWS, 3), linear(EYE), rounds=1, evaluation={"train": True})
    one, two = (readable(next(rounds(m)).record) for m in (plain, asked))
    assert "train" not in one["metrics"]
    short, long = readable(conclusion(plain, [one])), readable(conclusion(asked, [two]))
    assert long.pop("train_loss") > 0
    assert short == long
    assert two["metrics"].pop("train")["accuracy"]["clients"] == 3
    assert one == two


def test_pooled_training_judges_training_rows_by_client() -> None:
    settings = {"method": "pooled", "evaluation": {"train": True}}
    made = built(unit_federation(ROWS, 3), linear(10 * EYE), **settings)
    found = made.evaluator(made.loop.begin(made.w))
    assert found.clients["train"]["accuracy"] == pytest.approx([2 / 3, 1 / 3, 1.0])


TINY = {"trimmed_mean": {"trim": 0.34}, "krum": {"attackers": 0}}
TINY |= {
    "fedbuff": {"buffer": 2, "concurrency": 3},
    "dp": {"delta": 0.01},
    "local_dp": {"delta": 0.01},
    "superfed_mm": {"start": 0.0},
    "superfed_lm": {"start": 0.0},
}
# Need a stage before, one client for all, and no model that travels.
OTHERS = {"latent_disco", "fedmix", "pooled", "fedevg", "fedcvae", "fedcgan"}


@pytest.mark.parametrize("name", sorted(METHODS.keys() - OTHERS))
def test_methods_know_whether_clients_differ(name: str) -> None:
    """After a round, personal models of clients differ if and only if the method says so."""
    task, data = network_task("normed" if name == "fedbn" else "dense")
    some = sampled(0.5) if name in ("by_size", "power_of_choice") else {}
    played = play(composed(task, data, (name, TINY.get(name, {})), **some), data, 1)
    algorithm = played.simulation.recipe.algorithm
    down = algorithm.broadcast(played.server)
    models = [
        algorithm.personal(down, state_of(played.simulation, i)) for i in range(data.n_clients)
    ]
    assert all(m is not None for m in models)
    gaps = [float(tree.sqnorm(tree.sub(m, models[0]))) for m in models]
    assert (max(gaps) > 0) == algorithm.personal_models


def test_running_statistics_of_ones_own_make_a_model_personal() -> None:
    task, _ = network_task("conv")
    own = Private(names=frozenset(task.network.buffers))
    assert FedAvg(task, private=own).personal_models
    assert not FedAvg(task).personal_models
    assert not FedAvg(task, private=Private(("nothing of this name",))).personal_models


@dataclass(frozen=True)
class Scaled(Stateless):
    """A method of one's own that says by what its clients are judged, and nothing more."""

    task: MultiClass

    def personal(self, down: Any, mine: Any) -> Params | None:
        return tree.scale(2.0, down.x)


def test_a_method_that_says_what_it_is_judged_by_is_believed() -> None:
    """Nothing else has to be said: the careful answer is that clients differ."""
    task = MultiClass(Network(linear(EYE)))
    assert Scaled(task).personal_models

    class Around(Wrapper):
        base = FedAvg(task)

    class Other(Around):
        def personal(self, down: Any, mine: Any) -> Params | None:
            return down.x

    assert not Around().personal_models
    assert Other().personal_models


@ENGINES
def test_models_without_anything_kept_are_judged_client_by_client(engine: str) -> None:
    """Twice the weights are twice the logits, and clients that keep nothing can have them."""
    made = built(unit_federation(ROWS, 3), linear(EYE), engine={"kind": engine})
    state = made.loop.begin(made.w)
    plain = made.evaluator(state).clients["local"]["loss"][0]
    algorithm = Scaled(made.recipe.algorithm.task)
    made.simulation.begin(Opening(replace(made.recipe, algorithm=algorithm), made.w))
    found = evaluator(algorithm, made.simulation, None)(state)
    # Rows (0, 0) and (1, 1) of client 0, right with logits (2, 0, 0).
    right = float(torch.log(torch.tensor(2.0).exp() + 2)) - 2
    assert found.clients["local"]["loss"][0] == pytest.approx(right, rel=1e-6)
    assert plain == pytest.approx(float(torch.log(torch.tensor(1.0).exp() + 2)) - 1, rel=1e-6)


@pytest.mark.parametrize(
    ("module", "device", "rows"),
    [
        (nn.Linear(2, 2), "cpu", 4096),
        (nn.Conv2d(1, 1, 1), "cpu", 128),
        (nn.LSTM(2, 2), "cpu", 128),
        (nn.Conv2d(1, 1, 1), "cuda", 4096),
    ],
)
def test_rows_of_a_pass_suit_the_network(module: nn.Module, device: str, rows: int) -> None:
    assert at_once(Network(module), torch.device(device)) == rows


def test_rows_that_depend_on_one_another_are_not_cut_smaller() -> None:
    net = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))
    here = torch.device("cpu")
    assert at_once(Network(net, track_statistics=False), here) == 4096
    assert at_once(Network(net), here) == 128


def test_passes_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    task, data = network_task("conv", torch.float64)
    w, x = tree.map(Tensor.double, task.init(rng.key(3))), data.examples.x
    whole = outputs(task, w, x, torch.zeros(len(x), 0))
    monkeypatch.setattr(judging, "FEW", 7)
    torch.testing.assert_close(outputs(task, w, x, torch.zeros(len(x), 0)), whole)


def test_verdicts_of_models_are_averaged_where_they_are_defined() -> None:
    """Two models, two clients; the second client has no value under the first model."""
    one, two = verdict(0.5, torch.nan), verdict(0.25, 0.75)
    found = merged(side_by_side([one, two]), 2)
    assert found.metrics["accuracy"].tolist() == [0.375, 0.75]
    assert found.metrics["n"].tolist() == [4.0, 4.0]
    assert found.bins is not None
    assert found.bins.counts.tolist() == [[4.0] * 15]


def test_neither_side_reaches_into_the_other() -> None:
    """The evaluator imports no client's side, the examiner no simulation and no server."""
    root = Path(unalike.__file__).parent / "engine" / "evaluation"

    def imports(name: str) -> set[str]:
        text = (root / f"{name}.py").read_text(encoding="utf-8")
        known = re.findall(r"^from unalike\.engine\.([\w.]+) import (.*)", text, re.MULTILINE)
        whole = ((n if m == "evaluation" else m).removeprefix("evaluation.") for m, n in known)
        return set(whole)

    pure = {"judging", "interpolation", "landscape"}  # which know neither rows nor transports
    assert imports("server") <= {"loop", "course", "transport", *pure}
    assert imports("client") <= {*pure, "probe"}
    assert set().union(*map(imports, pure)) <= {"inference"}  # how a processor computes
    assert imports("inference") == set()


def test_only_verdicts_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is measured, a section has a number for each client or model, never for a row."""
    seen: list[dict[str, Judged]] = []
    real = Examiner.evaluate

    def watched(self: Examiner, *args: Any) -> dict[str, Judged]:
        seen.append(real(self, *args))
        return seen[-1]

    monkeypatch.setattr(Examiner, "evaluate", watched)
    made = built(unit_federation(ROWS, 3), linear(EYE), evaluation={"train": True})
    made.evaluator(made.loop.begin(made.w))
    sizes = {s: {len(v) for v in found.metrics.values()} for s, found in seen[0].items()}
    assert sizes == {"train": {3}, "validation": {3}, "local": {3}, "global": {1}}
    assert all(found.bins is not None and len(found.bins.counts) == 1 for found in seen[0].values())
