"""What every kind of task owes the rest: ensembles, refusals, a curve, use in other processes."""

import math
import pickle
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from operator import methodcaller
from pathlib import Path
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from autoencoders import vae
from federations import conv
from torch import Tensor, nn
from unit_vectors import federation

import unalike
from unalike import rng
from unalike.algorithms.propfair import Bargain
from unalike.batches import Batch
from unalike.errors import ConfigError, RunError
from unalike.federation.data import TEST, TRAIN, VALIDATION
from unalike.metrics.segments import segment_mean
from unalike.models import MODELS
from unalike.network import Network
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import assemble
from unalike.run.experiment.fit import fit
from unalike.run.measures.selecting import headline
from unalike.run.rounds import conclusion, rounds
from unalike.tasks import (
    TASKS,
    Autoencoding,
    Binary,
    Judged,
    MultiClass,
    NetworkTask,
    Regression,
    Sequences,
    Task,
)
from unalike.tree import Params


def lstm() -> nn.Module:
    return MODELS["stacked_lstm"](embedding=3, hidden=4, every_step=True, layers=1).build((4,), 7)


SAMPLES: dict[str, tuple[NetworkTask, Tensor, Tensor]] = {
    "multiclass": (MultiClass(Network(conv())), torch.rand(5, 1, 4, 4), torch.arange(5) % 3),
    "binary": (Binary(Network(nn.Linear(3, 1))), torch.rand(5, 3), torch.arange(5) % 2),
    "characters": (
        Sequences(Network(lstm())),
        torch.arange(20).reshape(5, 4) % 7,
        torch.arange(20).reshape(5, 4) % 5,
    ),
    "regression": (Regression(Network(nn.Linear(3, 1))), torch.rand(5, 3), torch.rand(5)),
    "autoencoding": (vae(torch.float32), torch.rand(5, 1, 4, 4), torch.zeros(5).long()),
}
EVERY = pytest.mark.parametrize("name", list(TASKS))


def sample(name: str) -> tuple[NetworkTask, Params, Batch]:
    task, x, y = SAMPLES[name]
    return task, task.init(rng.key(1)), Batch(x, y, torch.arange(5) < 4, rng.key(2))


def test_every_kind_is_tried_here() -> None:
    assert SAMPLES.keys() == TASKS.keys()
    assert all(type(task) is TASKS[name] for name, (task, _, _) in SAMPLES.items())


@EVERY
def test_a_pickled_task_is_the_same_task(name: str) -> None:
    """Also after it was used, when a thread has copies of the network."""
    task, w, batch = sample(name)
    loss, _ = task.loss(w, batch)
    again = pickle.loads(pickle.dumps(task))
    assert torch.equal(again.loss(w, batch)[0], loss)
    assert torch.equal(again.each_loss(w, batch), task.each_loss(w, batch))
    assert again.network.weights == task.network.weights
    assert all(torch.equal(v, again.init(rng.key(1))[k]) for k, v in w.items())
    assert {task: 1}[task] == 1  # hashable
    assert {again.curved(Bargain(3.0)): 1}


def test_tasks_work_in_a_spawned_process() -> None:
    """Losses there are those here, bit for bit."""
    samples = {name: sample(name) for name in TASKS}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = {
            name: pool.submit(methodcaller("each_loss", w, batch), task)
            for name, (task, w, batch) in samples.items()
        }
        found = {name: future.result() for name, future in there.items()}
    for name, (task, w, batch) in samples.items():
        assert torch.equal(found[name], task.each_loss(w, batch)), name


@EVERY
def test_a_curve_bends_the_training_loss_alone(name: str) -> None:
    task, w, batch = sample(name)
    curved = task.curved(Bargain(1000.0))
    plain = float(task.loss(w, batch)[0])
    assert float(curved.loss(w, batch)[0]) == pytest.approx(-math.log1p(-plain / 1000), rel=1e-3)
    assert torch.equal(curved.each_loss(w, batch), task.each_loss(w, batch))
    assert type(curved) is type(task)


@EVERY
def test_judging_names_the_metrics_that_are_promised(name: str) -> None:
    """What a user may select by is what is measured; top5 needs more than five classes."""
    task, w, batch = sample(name)
    noise = torch.zeros(5, task.draws)
    found = task.judge(task.outputs(w, batch.x, noise), batch.y, torch.tensor([0, 0, 1, 1, 1]), 2)
    assert found.metrics.keys() - {"n"} == set(task.metrics) - {"top5"} | (
        {"top5"} if name == "characters" else set()
    )
    assert task.headline in found.metrics
    assert (found.bins is not None) == task.classifies


@EVERY
def test_outputs_that_are_not_finite_end_the_run(name: str) -> None:
    task, w, batch = sample(name)
    out = task.outputs(w, batch.x, torch.zeros(5, task.draws)) * torch.nan
    with pytest.raises(RunError, match=r"diverged; lower local\.lr"):
        task.judge(out, batch.y, torch.zeros(5).long(), 1)


def test_an_ensemble_of_probabilities() -> None:
    """Three to one for class 0 and one to one: 5/8 and 3/8, as logits."""
    task = SAMPLES["multiclass"][0]
    members = [torch.tensor([[math.log(3), 0.0]]), torch.tensor([[0.0, 0.0]])]
    found = task.merge(iter(members), "probabilities")
    assert found.tolist()[0] == pytest.approx([math.log(5 / 8), math.log(3 / 8)])
    votes = task.merge(iter([members[0], members[0], -members[0]]), "votes")
    assert votes.tolist()[0] == pytest.approx([math.log(2 / 3), math.log(1 / 3)])


def test_an_ensemble_of_single_logits() -> None:
    """3/4 and 1/2 for class 1: 5/8, as a logit; a logit of zero is no vote for it."""
    task = SAMPLES["binary"][0]
    members = [torch.tensor([[math.log(3)]]), torch.tensor([[0.0]])]
    found = task.merge(iter(members), "probabilities")
    assert float(found) == pytest.approx(math.log(5 / 3), rel=1e-6)
    assert float(task.merge(iter(members), "votes")) == pytest.approx(0.0, abs=1e-6)


def test_an_ensemble_of_sequences_has_an_opinion_after_every_step() -> None:
    task = SAMPLES["characters"][0]
    members = [torch.randn(2, 4, 7, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    found = task.merge(iter(members), "probabilities")
    want = torch.stack([F.softmax(m, -1) for m in members]).mean(0).log()
    torch.testing.assert_close(found, want)


def test_an_ensemble_of_autoencoders_has_their_mean_terms() -> None:
    members = [torch.tensor([[2.0, 1.0]]), torch.tensor([[4.0, 0.0]])]
    found = SAMPLES["autoencoding"][0].merge(iter(members), "probabilities")
    assert found.tolist() == [[3.0, 0.5]]


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("autoencoding", {"select": "f1"}, "'f1', which an autoencoder does not have; use loss"),
        ("characters", {"select": "auroc"}, "'auroc', which a prediction of characters does not"),
        ("regression", {"select": "accuracy"}, "which a regression does not have; use rmse"),
        ("regression", {"ensemble": "votes"}, "'votes', but a regression has no such ensemble"),
        ("autoencoding", {"ensemble": "votes"}, "'votes', but an autoencoder has no such ensemble"),
        ("binary", {"target": 90.0}, "evaluation.target is 90, and an accuracy is at most 1"),
        ("characters", {"target": 1.5}, "evaluation.target is 1.5, and an accuracy is at most 1"),
    ],
)
def test_what_a_task_does_not_have_is_refused(
    name: str, settings: dict[str, object], sentence: str
) -> None:
    asked = {"select": "auto", "ensemble": "probabilities", "target": None, **settings}
    with pytest.raises(ConfigError, match=sentence):
        SAMPLES[name][0].refuse(**asked)


@EVERY
@pytest.mark.parametrize("ensemble", ["probabilities", "weights"])
def test_what_every_task_has(name: str, ensemble: str) -> None:
    for select in ("auto", "loss"):
        SAMPLES[name][0].refuse(select, ensemble, 0.9)
    SAMPLES["autoencoding"][0].refuse("auto", ensemble, 90.0)  # a loss may be that high


def test_the_model_says_what_it_is_for() -> None:
    assert {m.task for m in MODELS.values()} == {"", "autoencoding"}
    for data, model, metric in (
        ("digits", "mlp", "accuracy"),
        ("digits", "vae", "loss"),
        ("diabetes", "mlp", "rmse"),
        ("diabetes", "vae", "loss"),
    ):
        assert headline(parse({"data": data, "model": model})) == metric


def test_no_other_part_asks_what_kind_a_task_is() -> None:
    """The names of kinds are written where data get one, and in the table of tasks."""
    root = Path(unalike.__file__).parent
    named = re.compile("|".join(f'"{name}"' for name in TASKS))
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if named.search(path.read_text(encoding="utf-8"))
    }
    allowed = {"tasks/__init__.py", "models/vae.py", "kinds.py"}
    allowed |= {"deploy/rehearsal.py"}  # made-up data of every kind
    allowed |= {"parts/representation/local.py"}  # a setting of LG-FedAvg that has such a name
    assert {p for p in found - allowed if not p.startswith("federation/")} == set()


@dataclass(frozen=True)
class Counting(NetworkTask):
    """A kind of task that is not in the library: the number of the class is learned."""

    headline: ClassVar[str] = "loss"
    metrics: ClassVar[tuple[str, ...]] = ("loss",)
    ensembles: ClassVar[tuple[str, ...]] = ("probabilities", "weights")
    called: ClassVar[str] = "counting"

    @classmethod
    def width(cls, classes: int) -> int:
        return 1

    def training(self, w: Params, batch: Batch) -> tuple[Tensor, Params]:
        out, buffers = self.network.train(w, batch.x, batch.key, batch.real)
        return (out[:, 0] - batch.y) ** 2, buffers

    def each_loss(self, w: Params, batch: Batch) -> Tensor:
        return (self.outputs(w, batch.x, batch.x) - batch.y) ** 2

    def outputs(self, w: Params, x: Tensor, noise: Tensor, real: Tensor | None = None) -> Tensor:
        return self.network.eval(w, x, real)[:, 0]

    def measure(self, outputs: Tensor, y: Tensor, owner: Tensor, n: int) -> Judged:
        loss = segment_mean((outputs - y).double() ** 2, owner, n)
        return Judged({"loss": loss, "n": torch.bincount(owner, minlength=n)}, None)

    def misfit(self, x: Tensor, y: Tensor, classes: int, data: str) -> str:
        return ""


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
@pytest.mark.parametrize("method", ["fedavg", "local_only"])
def test_one_more_kind_of_task_takes_one_more_class(engine: str, method: str) -> None:
    """It trains, is judged in every section, selected by its headline and has ensembles."""
    parts = (TRAIN, TRAIN, VALIDATION, TEST)
    rows = [(k, part, c, c) for k in range(3) for part in parts for c in range(3)]
    data = federation([*rows, (3, TEST, 2, 2)], 3, 1)
    task: Task = fit(nn.Linear(3, 1), data.examples, "the model", learn=Counting)
    raw = {"rounds": 30, "method": method, "engine": {"kind": engine}, "local": {"lr": 0.2}}
    made = assemble(parse({**raw, "run": {"init": "given"}}), data, task)
    records = [step.record for step in rounds(made)]
    assert set(records[-1]["metrics"]) == {"validation", "local", "global", "new"}
    # A unit vector's number is linear in it, so that nothing is left to lose.
    assert records[-1]["metrics"]["global"]["loss"]["mean"] < 1e-3
    assert records[-1]["metrics"]["new"]["loss"]["mean"] < 1e-3
    assert conclusion(made, records)["selected_on"] == "validation loss, mean over clients"


def test_an_autoencoder_keeps_its_options_on_the_way() -> None:
    model = MODELS["vae"](latent=3, beta=2.0, judge="mean")
    made = Autoencoding(Network(model.build((4,), 1)), **model.options())
    assert (made.latent, made.beta, made.sampled, made.draws) == (3, 2.0, False, 0)


@pytest.mark.parametrize("name", ["multiclass", "binary", "characters"])
@pytest.mark.parametrize("how", ["votes", "probabilities"])
def test_a_member_that_diverged_spoils_the_ensemble(name: str, how: str) -> None:
    """It has no vote that could be outvoted, so that judging the ensemble ends the run."""
    task, w, batch = sample(name)
    out = task.outputs(w, batch.x, torch.zeros(5, 0))
    wild = out.clone()
    wild[0] = torch.nan
    found = task.merge(iter([out, wild, out]), how)
    assert not torch.isfinite(found[0]).any()
    assert torch.isfinite(found[1:]).all()
