"""Training, federating and reading in one line, whatever the data are."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import unalike
from unalike.run.folder.records import read_json


class TestInOneLine:
    """Data go straight into training, and what comes out can be used."""

    def test_a_frame(self, tmp_path: Path):
        pd = pytest.importorskip("pandas")
        rng = np.random.default_rng(0)
        x, where = rng.normal(50, 20, size=(300, 2)), rng.choice(["North", "South"], 300)
        sick = np.where(x.sum(1) > 100, "sick", "well")
        frame = pd.DataFrame({"age": x[:, 0], "weight": x[:, 1], "where": where, "state": sick})
        options = {"label": "state", "client": "where", "rounds": 5, "local": {"lr": 0.5}}
        result = unalike.train(frame, "logistic", "fedprox", **options)
        assert result.federation.names[result.federation.number("North")] == "North"
        assert result.predict(frame).tolist()[0] in ("sick", "well")
        assert np.mean(result.predict(frame) == sick) > 0.9
        path = tmp_path / "t.csv"
        frame.to_csv(path, index=False)
        raw = {"rounds": 5, "partition": "natural", "model": "logistic", "method": "fedprox"}
        raw["data"] = {"name": "files", "path": str(path), "label": "state", "client": "where"}
        raw["local"] = {"lr": 0.5}
        folder = unalike.start(unalike.parse({**raw, "run": {"folder": str(tmp_path / "run")}}))
        same = read_json(folder / "summary.json")["last"]["global"]["loss"]["mean"]
        assert result.summary["last"]["global"]["loss"]["mean"] == pytest.approx(same, abs=1e-6)

    def test_how_a_frame_is_read(self, tmp_path: Path):
        """What the sentence says is what helps."""
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"a": [1.0, None, 3.0] * 20, "b": range(60), "y": [0, 1, 1] * 20})
        options = {"label": "y", "partition": "iid", "rounds": 1}
        with pytest.raises(unalike.DataError, match=r"set data\.missing = 'impute'"):
            unalike.train(frame, "logistic", **options)
        reading = {"missing": "impute", "drop": ["b"]}
        result = unalike.train(frame, "logistic", **options, data=reading)
        assert result.federation.examples.x.shape[1] == 1
        with pytest.raises(unalike.ConfigError, match="unknown setting of data 'mising'"):
            unalike.train(frame, "logistic", **options, data={"mising": "impute"})
        with pytest.raises(unalike.ConfigError, match=r"'data\.missing' is for a pandas"):
            unalike.train((np.ones((9, 2)), np.arange(9) % 2), "logistic", data=reading)
        with pytest.raises(unalike.ConfigError, match="digits"):
            unalike.train("digits", "logistic", rounds=1, data={"bogus": 1})

    def test_personal_models_by_name(self):
        x, y = np.random.default_rng(0).normal(size=(90, 3)), np.arange(90) % 3
        who = np.array(["a", "b"])[np.arange(90) // 3 % 2]
        result = unalike.train((x, y, who), nn.Linear(3, 3), "local_only", rounds=2)
        one, other = result.personal("a"), result.personal("b")
        assert not torch.equal(one.weight, other.weight)
        assert torch.equal(result.personal(result.federation.number("a")).weight, one.weight)
        own = result.trained("last").personal("a")
        logits = one(result.federation.examples.x)
        assert np.array_equal(own.predict(x), logits.argmax(1).numpy())

    def test_saved_loaded_and_reported(self, tmp_path: Path):
        from unalike.report.html import write_report

        result = unalike.train("digits", "mlp", "lg_fedavg", rounds=3)
        folder = result.save(tmp_path / "run")
        rows = np.random.default_rng(0).uniform(size=(4, 1, 8, 8))
        for which in ("selected", "last"):
            ours, theirs = result.trained(which), unalike.load(folder, which)
            assert ours.round == theirs.round
            for client in (0, 3):
                assert np.array_equal(
                    ours.personal(client).predict_proba(rows),
                    theirs.personal(client).predict_proba(rows),
                )
        assert write_report(folder).stat().st_size > 10_000
        with pytest.raises(unalike.RunError, match="not an empty folder"):
            result.save(folder)

    def test_a_saved_folder_names_the_partition_of_the_data(self, tmp_path: Path):
        x, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
        result = unalike.train((x, y, np.arange(60) % 4), "logistic", rounds=1)
        config = json.loads((result.save(tmp_path / "run") / "config.json").read_text())
        assert config["partition"]["name"] == "natural"

    def test_a_given_module_is_needed_again(self, tmp_path: Path):
        x, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
        result = unalike.train((x, y), nn.Linear(2, 3), rounds=1, partition="iid")
        folder = result.save(tmp_path / "run")
        with pytest.raises(unalike.RunError, match=r"load it with module=Linear\(...\)"):
            unalike.load(folder)
        again = unalike.load(folder, module=nn.Linear(2, 3))
        assert np.array_equal(again.predict_proba(x), result.predict_proba(x))

    def test_a_notebook_shows_tests_and_pictures(self):
        result = unalike.train("digits", "logistic", rounds=2)
        shown = result._repr_html_()
        assert shown.count("<svg") == 2
        assert "global" in shown
        assert "<script" not in shown

    def test_settings_of_data_beside_a_federation(self):
        data = unalike.federate("digits", "iid")
        with pytest.raises(unalike.ConfigError, match="'label' is set by the federation"):
            unalike.train(data, "logistic", label="x")
        with pytest.raises(unalike.ConfigError, match="'data' comes from"):
            unalike.train("digits", "logistic", data="digits")

    def test_a_report_of_results_in_memory(self, tmp_path: Path):
        named = {m: unalike.train("digits", "logistic", m, rounds=2) for m in ("fedavg", "fedprox")}
        path = unalike.report(named, tmp_path / "both.html")
        text = path.read_text()
        assert "fedprox" in text
        assert "2 runs" in text
        assert unalike.report(named["fedavg"], tmp_path / "one.html").exists()
        with pytest.raises(unalike.ConfigError, match="must be a result of train, got int"):
            unalike.report([3])

    @pytest.mark.slow  # as the one of data in memory below, from what a file would hold
    def test_a_comparison(self, tmp_path: Path):
        raw = {"rounds": 2, "data": "digits", "model": "logistic"}
        raw["partition"] = {"name": "iid", "clients": 3}
        raw["compare"] = {"methods": ["fedavg", "fedprox"], "seeds": 2}
        found = unalike.compare(raw, folder=tmp_path / "c", processes=1)
        assert [t.title for t in found.tables]
        assert "<table" in found._repr_html_()
        assert "fedprox" in repr(found)
        assert unalike.report(found).name == "report.html"
        with pytest.raises(unalike.ConfigError, match="give methods to compare on data"):
            unalike.compare(raw, "logistic")
        with pytest.raises(unalike.ConfigError, match="a report takes a folder"):
            unalike.report(3)
