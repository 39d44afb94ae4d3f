"""The evaluation protocol on cases that can be worked out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from federations import keep
from torch import Tensor, nn
from unit_vectors import EYE, SWAP, Two, built, federation, linear

from unalike.api import train
from unalike.engine.evaluation import judging
from unalike.engine.evaluation.server import Evaluation
from unalike.engine.loop import State
from unalike.errors import ConfigError, RunError
from unalike.federation.build import federate
from unalike.federation.data import TEST, TRAIN, VALIDATION, Examples, Federation
from unalike.federation.datasets.digits import Digits
from unalike.federation.partition.dirichlet import Dirichlet
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import Experiment, assemble
from unalike.run.experiment.fit import fit


def judged(made: Experiment, state: State | None = None) -> Evaluation:
    return made.evaluator(made.loop.begin(made.w) if state is None else state)


TRAINING = [(k, TRAIN, c, c) for k in range(3) for c in range(3)]
ROWS = [
    *TRAINING,
    *[(0, TEST, 0, 0), (0, TEST, 1, 1), (0, TEST, 2, 1), (0, TEST, 2, 0)],  # 2 of 4 by W = I
    *[(1, TEST, 0, 0), (1, TEST, 1, 2)],  # 1 of 2
    *[(0, VALIDATION, 0, 0), (1, VALIDATION, 1, 0), (2, VALIDATION, 2, 2)],  # 1, 0 and 1
    *[(3, TEST, 0, 0), (3, TEST, 1, 1), (3, TEST, 2, 2), (3, TEST, 2, 1)],  # a new client: 3 of 4
    (4, TEST, 0, 1),  # another one: 0 of 1
]


def test_each_section_by_hand():
    found = judged(built(federation(ROWS, n=3, new=2), linear(10 * EYE)))
    accuracy = {s: m["accuracy"] for s, m in found.clients.items()}
    assert accuracy["validation"] == [1.0, 0.0, 1.0]
    assert accuracy["local"][:2] == [0.5, 0.5]
    assert np.isnan(accuracy["local"][2])
    assert accuracy["global"] == [0.5]  # 3 of the 6 test rows of training clients
    assert accuracy["new"] == [0.75, 0.0]
    assert found.clients["new"]["n"] == [4.0, 1.0]


def test_a_client_without_test_rows_is_counted_and_enters_nothing():
    local = judged(built(federation(ROWS, n=3, new=2), linear(10 * EYE))).spread["local"]
    assert (local["accuracy"]["clients"], local["accuracy"]["undefined"]) == (2, 1)
    assert local["accuracy"]["mean"] == 0.5


def test_loss_by_hand():
    found = judged(built(federation(ROWS, n=3, new=2), linear(2 * EYE)))
    right = float(np.log(np.exp(2) + 2) - 2)  # logits (2, 0, 0), label first
    wrong = float(np.log(np.exp(2) + 2))
    assert found.clients["local"]["loss"][0] == pytest.approx((2 * right + 2 * wrong) / 4)
    assert found.clients["global"]["loss"][0] == pytest.approx((3 * right + 3 * wrong) / 6)


def test_a_test_set_of_its_own_is_the_global_one():
    own = {"test_x": EYE[[0, 1, 2, 0]], "test_y": torch.tensor([0, 1, 2, 2])}
    found = judged(built(federation(ROWS, n=3, new=2, **own), linear(10 * EYE)))
    assert found.clients["global"]["accuracy"] == [0.75]
    assert found.clients["local"]["accuracy"][:2] == [0.5, 0.5]


def test_without_validation_rows_there_is_no_such_section():
    found = judged(built(federation([r for r in ROWS if r[1] != VALIDATION], 3, 2), linear(EYE)))
    assert list(found.spread) == ["local", "global", "new"]


def test_nothing_to_test_on_is_refused():
    with pytest.raises(ConfigError, match=r"nothing to test on.*split\.test"):
        built(federation(TRAINING, n=3), linear(EYE))


@pytest.mark.parametrize("weight", [torch.nan, torch.inf, 1e38])
def test_a_diverged_model_is_called_so(weight: float):
    made = built(federation(ROWS, n=3, new=2), linear(EYE))
    state = made.loop.begin({"weight": weight * torch.ones(3, 3)})
    if weight == 1e38:
        made.simulation.x.mul_(100)
    with pytest.raises(RunError, match=r"diverged; lower local\.lr"):
        judged(made, state)


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
def test_personal_models_are_judged_on_their_own_rows(engine: str):
    made = built(federation(ROWS, 3, 2), Two(), method="lg_fedavg", engine={"kind": engine})
    keep(
        made.simulation,
        {
            0: {"body.weight": EYE},
            1: {"body.weight": SWAP},
            2: {"body.weight": EYE},
        },
    )
    found = judged(made)
    # Client 1 sees (0, 0) and (1, 2): swapped, neither is right.
    assert found.clients["local"]["accuracy"][:2] == [0.5, 0.0]
    assert found.clients["validation"]["accuracy"] == [1.0, 1.0, 1.0]


def test_where_only_clients_hold_models_their_ensemble_meets_strangers():
    made = built(federation(ROWS, 3, 2), Two(), method="lg_fedavg")
    bodies = [EYE, 0.1 * SWAP, 0.1 * SWAP]
    keep(made.simulation, {k: {"body.weight": w} for k, w in enumerate(bodies)})
    found = judged(made)
    rows = made.federation.rows(TEST).order[:6]  # those of training clients
    x, y = made.federation.examples.x[rows], made.federation.examples.y[rows]
    mean = torch.stack([(10 * x @ w.T).softmax(1) for w in bodies]).mean(0)
    # Two unsure clients are outvoted by a sure one: probabilities count, not votes.
    assert mean.argmax(1).tolist() == x.argmax(1).tolist()
    assert found.clients["global"]["accuracy"] == [0.5]
    loss = float(-mean.gather(1, y[:, None]).log().mean())
    assert found.clients["global"]["loss"][0] == pytest.approx(loss, rel=1e-5)
    assert found.clients["new"]["accuracy"] == [0.75, 0.0]


def test_several_servers_are_averaged_metric_by_metric():
    made = built(federation(ROWS, 3, 2), linear(EYE), topology="ring")
    state = made.loop.begin(made.w)
    x = {"weight": 10 * torch.stack([EYE, SWAP, EYE])}
    found = judged(made, state._replace(stack=state.stack._replace(x=x)))
    assert found.clients["local"]["accuracy"][:2] == [0.5, 0.0]
    # Global rows are (0,0) (1,1) (2,1) (2,0) (0,0) (1,2): 3 right by I, none by the swap.
    assert found.clients["global"]["accuracy"] == pytest.approx([(3 + 0 + 3) / 18])
    # New: (0,0) (1,1) (2,2) (2,1) is 3 of 4 by I and 1 by the swap; (0,1) is 0 and 1.
    assert found.clients["new"]["accuracy"] == pytest.approx([7 / 12, 1 / 3])


def test_pooled_training_judges_every_client_by_the_one_model():
    found = judged(built(federation(ROWS, 3, 2), linear(10 * EYE), method="pooled"))
    assert found.clients["local"]["accuracy"][:2] == [0.5, 0.5]


def test_a_binary_task_by_hand():
    x = torch.tensor([[1.0], [-1.0], [2.0], [-2.0], [1.0], [1.0]])
    y = torch.tensor([1, 0, 0, 0, 1, 1])
    part = np.array([TEST, TEST, TEST, TEST, TRAIN, TRAIN], np.int8)
    data = Federation(Examples(x, y, 2, "binary"), np.array([0, 0, 0, 1, 0, 1]), part, 2)
    found = judged(built(data, linear(torch.ones(1, 1))))
    assert found.clients["local"]["accuracy"] == [pytest.approx(2 / 3), 1.0]
    assert found.clients["local"]["loss"][1] == pytest.approx(np.log1p(np.exp(-2)))
    # Client 0 ranks 1, -1, 2 with labels 1, 0, 0: one of two pairs is in order.
    assert found.clients["local"]["auroc"][0] == 0.5
    assert np.isnan(found.clients["local"]["auroc"][1])
    assert found.spread["local"]["auroc"]["undefined"] == 1


class Echo(nn.Module):
    """Predicts that every character repeats."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(10 * torch.eye(4), freeze=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.table(x)


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
def test_a_sequence_counts_every_step(engine: str):
    x = torch.tensor([[0, 1, 2], [3, 3, 3], [1, 1, 1], [0, 0, 0], [2, 2, 2]])
    y = torch.tensor([[0, 1, 3], [3, 3, 3], [0, 0, 1], [0, 0, 0], [2, 2, 2]])
    part = np.array([TEST, TEST, TEST, TRAIN, TRAIN], np.int8)
    data = Federation(Examples(x, y, 4, "characters"), np.array([0, 0, 1, 0, 1]), part, 2)
    found = judged(built(data, Echo(), engine={"kind": engine}))
    assert found.clients["local"]["accuracy"] == pytest.approx([5 / 6, 1 / 3])
    assert found.clients["local"]["n"] == [6.0, 3.0]
    assert found.clients["global"]["accuracy"] == pytest.approx([6 / 9])
    assert "auroc" not in found.clients["local"]


def test_selecting_by_auroc_is_refused_for_characters():
    x = torch.zeros(4, 3, dtype=torch.long)
    part = np.array([TRAIN, TEST, TRAIN, TEST], np.int8)
    data = Federation(Examples(x, x, 4, "characters"), np.array([0, 0, 1, 1]), part, 2)
    with pytest.raises(ConfigError, match=r"evaluation\.select is 'auroc'"):
        built(data, Echo(), evaluation={"select": "auroc"})


@pytest.fixture(scope="module")
def digits() -> Federation:
    return federate(Digits(), Dirichlet(clients=7, alpha=0.3), new_clients=1)


class Normed(nn.Module):
    """A network whose outputs depend on the batch if no statistics are kept."""

    head = ("last.",)

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.norm(self.first(x.flatten(1)))))


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "fedavg"},
        {"method": "scaffold"},
        {"method": "lg_fedavg"},
        {"method": {"name": "superfed_mm", "start": 0.0}, "run": {"buffers": "drop"}},
        {"method": "local_only"},
        {"method": "phase_shift", "local": {"momentum": 0.5}},
        {"topology": "ring"},
        {"topology": {"name": "clusters", "servers": 2}},
        {"run": {"buffers": "drop"}},
        {"run": {"buffers": "drop"}, "method": "lg_fedavg"},
        {"run": {"buffers": "local"}},
    ],
    ids=str,
)
def test_engines_judge_one_state_alike(digits: Federation, settings: dict[str, Any], monkeypatch):
    def evaluation(kind: str) -> Evaluation:
        engine = {"kind": kind, "chunk": 4}
        raw = {**settings, "rounds": 2, "engine": engine}
        config = parse({**raw, "run": {"init": "given", **settings.get("run", {})}})
        track = config.run.buffers != "drop"
        made = assemble(config, digits, fit(Normed(), digits.examples, "the model", track))
        made.simulation.engine = "sequential"  # train alike, so that only judging differs
        state, _ = made.loop.advance(made.loop.begin(made.w), 0)
        made.simulation.examiner.vectorized = kind == "vectorized"
        return made.evaluator(state)

    alone, together = evaluation("sequential"), evaluation("vectorized")
    monkeypatch.setattr(judging, "MANY", 64)
    pieces = evaluation("vectorized") if "run" not in settings else together
    for section, metrics in alone.clients.items():
        for name, values in metrics.items():
            for other in (together, pieces):
                found = other.clients[section][name]
                assert found == pytest.approx(values, rel=1e-4, abs=1e-5, nan_ok=True), name


def test_without_running_statistics_a_client_is_judged_among_its_own_rows(digits: Federation):
    config = parse({"run": {"buffers": "drop", "init": "given"}})
    made = assemble(config, digits, fit(Normed(), digits.examples, "the model", track=False))
    task, rows = made.recipe.algorithm.task, digits.rows(TEST)
    found = judged(made).clients["local"]["accuracy"]
    for k in range(digits.n_clients):
        mine = rows.of(k)
        own = task.logits(made.w, digits.examples.x[mine]).argmax(1)
        assert found[k] == pytest.approx((own == digits.examples.y[mine]).double().mean().item())


def test_selection_never_looks_at_test_rows(digits: Federation):
    y = digits.examples.y.clone()
    tested = torch.from_numpy(np.flatnonzero(digits.part == TEST))
    y[tested] = y[tested.flip(0)]
    other = replace(digits, examples=replace(digits.examples, y=y))
    settings = {"rounds": 6, "local": {"lr": 0.5}, "evaluation": {"every": 1}}
    true, permuted = (train(d, "logistic", **settings) for d in (digits, other))

    def column(result: Any, section: str) -> list[float]:
        return [r["metrics"][section]["accuracy"]["mean"] for r in result.rounds]

    assert column(true, "validation") == column(permuted, "validation")
    assert true.summary["selected"]["round"] == permuted.summary["selected"]["round"]
    assert max(column(permuted, "local")) < min(column(true, "local")[2:])
