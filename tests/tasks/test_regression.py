"""Numbers to predict, from a table to the report of a comparison."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from patients import patients, run
from sklearn.linear_model import LinearRegression
from torch import nn

import unalike
from unalike import rng
from unalike.batches import Batch
from unalike.compare.specification.spec import comparison
from unalike.errors import ConfigError, RunError, UnalikeError
from unalike.federation.data import TEST, TRAIN
from unalike.federation.datasets.diabetes import Diabetes
from unalike.gradient import gradient
from unalike.kinds import Unit
from unalike.network import Network
from unalike.run.experiment.build import experiment
from unalike.run.experiment.fit import fit
from unalike.tasks import Regression

ONE = {"name": "iid", "clients": 1}


def table() -> pl.DataFrame:
    """The patients with a fee in place of a class."""
    found = patients()
    fee = 3000 + 20 * found["pressure"] + 300 * found["smokes"].cast(pl.Float64)
    return found.drop("risk").with_columns(risk=fee)


def test_the_loss_and_its_gradient_by_hand() -> None:
    """f = 2, y = 1 and f = 4, y = 1: losses 1 and 9; d/db of their mean is 1 + 3."""
    network = Network(nn.Linear(1, 1))
    w = {"weight": torch.tensor([[2.0]]), "bias": torch.tensor([0.0])}
    batch = Batch(torch.tensor([[1.0], [2.0]]), torch.ones(2), torch.ones(2).bool(), rng.key(0))
    task = Regression(network)
    assert task.each_loss(w, batch).tolist() == [1, 9]
    slope = gradient(lambda v: task.loss(v, batch), w)[0]
    assert slope["bias"].item() == pytest.approx(4)
    assert slope["weight"].item() == pytest.approx(1 + 6)


def test_numbers_are_judged_in_their_own_unit() -> None:
    """Scaled errors 1 and 3 at a spread of 10 are 10 and 30."""
    task = Regression(Network(nn.Linear(1, 1))).scaled(Unit(100.0, 10.0))
    out, y = torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 0.0])
    found = task.judge(out, y, torch.zeros(2).long(), 1).metrics
    assert found["rmse"].item() == pytest.approx(500**0.5)
    assert found["mae"].item() == pytest.approx(20)
    assert found["loss"].item() == pytest.approx(5)
    assert task.predictions(out).tolist() == [110, 130]
    assert task.delivered(nn.Identity())(out).tolist() == [[110], [130]]


def test_an_ensemble_says_the_mean() -> None:
    members = [torch.tensor([[1.0]]), torch.tensor([[4.0]])]
    assert Regression(Network(nn.Linear(1, 1))).merge(members, "probabilities").item() == 2.5


def test_the_target_is_scaled_by_training_rows_alone() -> None:
    data = unalike.federate(Diabetes(), {"name": "iid", "clients": 3}, test=0.3)
    raw = Diabetes().load().y
    train = data.part == TRAIN
    unit = data.examples.unit
    assert unit.centre == pytest.approx(float(raw[train].mean()))
    assert unit.spread == pytest.approx(float(raw[train].std(correction=0)))
    again = data.examples.y.double() * unit.spread + unit.centre
    torch.testing.assert_close(again, raw.double(), rtol=1e-5, atol=1e-4)


def test_one_client_and_many_steps_are_least_squares() -> None:
    """The closed form of scikit-learn, from the raw rows."""
    data = unalike.federate(Diabetes(), ONE, validation=0.0, test=0.25)
    found = unalike.train(
        data, "logistic", rounds=60, local={"lr": 0.15, "batch_size": 442, "epochs": 20}
    )
    raw = Diabetes().load()
    train, test = (np.flatnonzero(data.part == part) for part in (TRAIN, TEST))
    x, y = raw.x.numpy(), raw.y.numpy()
    line = LinearRegression().fit(x[train], y[train])
    error = line.predict(x[test]) - y[test]
    judged = found.summary["last"]["local"]
    assert judged["rmse"]["mean"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=2e-3)
    assert judged["r2"]["mean"] == pytest.approx(line.score(x[test], y[test]), abs=5e-3)
    assert found.summary["selected_on"].startswith("validation rmse")


@pytest.mark.parametrize("method", ["fedavg", "feddisco", "local_only", "superfed_mm"])
def test_a_run_predicts_what_it_recorded(method: str, tmp_path: Path) -> None:
    """Client by client, from the file and after the folder was moved."""
    rows = table()
    folder = run(tmp_path, rows, method=method, rounds=2)
    summary = json.loads((folder / "summary.json").read_text())
    assert set(summary["last"]["local"]) == {"rmse", "mae", "r2", "loss"}
    trained, where = unalike.load(folder), np.load(folder / "rows.npz")
    lines = [json.loads(line) for line in (folder / "clients.jsonl").read_text().splitlines()]
    found = next(line for line in lines if line["round"] == summary["selected"]["round"])
    for k, name in enumerate(trained.clients):
        mine = where["row"][(where["part"] == TEST) & (where["client"] == k)]
        own, truth = rows[mine], rows["risk"].to_numpy()[mine]
        said = trained.personal(name).predict(own)
        assert np.sqrt(np.mean((said - truth) ** 2)) == pytest.approx(
            found["local"]["rmse"][k], rel=1e-5
        )
        assert trained.personal(name).score(own, truth) == pytest.approx(
            found["local"]["r2"][k], abs=1e-5
        )
    with pytest.raises(RunError, match="no classes, so there are no probabilities"):
        trained.predict_proba(rows)
    if method == "fedavg":
        x = trained.features.apply(trained.read(rows).x)
        with torch.no_grad():
            delivered = trained.module(x)[:, 0]
        np.testing.assert_allclose(delivered.numpy(), trained.predict(rows), rtol=1e-5)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "lg_fedavg", "fedadam"])
def test_engines_agree(method: str) -> None:
    model = {"name": "mlp", "hidden": [4]}
    found = [
        unalike.train("diabetes", model, method, rounds=2, engine={"kind": kind})
        for kind in ("sequential", "vectorized")
    ]
    one, other = (r.summary["last"]["local"]["rmse"]["mean"] for r in found)
    assert one == pytest.approx(other, rel=1e-5)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({"shift": [{"name": "label_noise", "ratio": 0.2}]}, "label_noise replaces classes"),
        ({"attack": {"name": "label_flip"}}, "has a number to predict; use sign_flip or noise."),
        ({"attack": {"name": "backdoor"}}, "has a number to predict; use sign_flip or noise."),
        ({"local": {"class_weights": "balanced"}}, "for classes, and this is a regression"),
        ({"evaluation": {"select": "f1"}}, "'f1', which a regression does not have; use rmse."),
        ({"method": "fedevg"}, "needs a multi-class task, this one is a regression"),
        ({"method": "fedcvae"}, "needs a multi-class task, this one is a regression"),
        ({"method": "propfair_loss"}, "made for a classification loss, and this is a regression"),
    ],
)
def test_what_is_made_for_classes_is_refused(raw: dict[str, Any], sentence: str) -> None:
    config = unalike.parse({"data": "diabetes", "rounds": 1, "model": "logistic", **raw})
    with pytest.raises(UnalikeError, match=re.escape(sentence)):
        experiment(config)


def test_a_network_of_another_shape_is_refused() -> None:
    data = unalike.federate("diabetes", ONE)
    sentence = r"gives outputs of shape \(2, 3\).*takes one number for each: \(2, 1\)"
    with pytest.raises(ConfigError, match=sentence):
        fit(nn.Linear(10, 3), data.examples, "the model")


def test_comparisons_look_at_the_error() -> None:
    asked = {"methods": ["fedavg", "local_only"], "seeds": 1}
    assert comparison({"data": "diabetes", "compare": asked}).judging.metric == "rmse"
    assert comparison({"data": "digits", "compare": asked}).judging.metric == "accuracy"


def test_frames_and_arrays_in_python() -> None:
    frame = table().drop("age", "job")
    for task in ("auto", "regression"):
        data = unalike.federate(frame, label="risk", client="hospital", task=task)
        assert data.examples.kind == "regression"
    x, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60)
    result = unalike.train((x, y), "logistic", rounds=1, task="regression", partition=ONE)
    assert "rmse" in result.summary["last"]["local"]
    with pytest.raises(ConfigError, match="unknown task 'regresion': did you mean 'regression'"):
        unalike.federate((x, y), ONE, task="regresion")


@pytest.mark.slow
def test_the_report_has_no_calibration(tmp_path: Path) -> None:
    asked = {"methods": ["fedavg", "local_only"], "seeds": 2}
    raw = {"data": "diabetes", "rounds": 1, "model": "logistic", "compare": asked}
    found = unalike.comparison(raw, tmp_path / "c", processes=1)
    heads = [head for t in found.tables for head in t.columns]
    assert "RMSE" in heads
    assert "ECE" not in heads
    page = unalike.write_report(found, tmp_path / "report.html").read_text()
    assert "RMSE" in page
    assert "eliability" not in page
    assert "range of the target" in page
