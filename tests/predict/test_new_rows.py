"""New rows are read as the training rows were, and what differs is said."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from command_line import Unalike, mistake
from patients import patients, run

import unalike as library
from unalike.errors import RunWarning, warn_once
from unalike.predict.trained import Trained

TABLE = patients()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("rows"), TABLE, method="lg_fedavg")


@pytest.fixture
def trained(folder: Path) -> Trained:
    warn_once.cache_clear()
    return library.load(folder)


def test_frames_files_and_order_of_columns_agree(trained: Trained, tmp_path: Path) -> None:
    expected = trained.predict_proba(TABLE)
    np.testing.assert_allclose(expected.sum(1), 1)
    TABLE.write_csv(tmp_path / "t.csv")
    TABLE.write_csv(tmp_path / "t.tsv", separator="\t")
    TABLE.write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.tsv", "t.parquet"):
        assert np.array_equal(trained.predict_proba(tmp_path / name), expected)
    pandas = pd.DataFrame(TABLE.to_dict(as_series=False))
    assert np.array_equal(trained.predict_proba(pandas), expected)
    fewer = TABLE.select(["pressure", "job", "smokes", "age"])  # no label, no client
    assert np.array_equal(trained.predict_proba(fewer.lazy()), expected)
    assert trained.predict(TABLE[:1]).tolist()[0] in ("high", "low", "middle")
    assert trained.score(TABLE, TABLE["risk"]) == np.mean(
        trained.predict(TABLE) == TABLE["risk"].to_numpy()
    )
    assert trained.feature_names_in_.tolist() == ["age", "job", "smokes", "pressure"]
    assert trained.n_features_in_ == 4


def test_a_level_that_no_training_row_had_is_said_and_is_none_of_them(trained: Trained) -> None:
    odd = TABLE.with_columns(job=pl.lit("miller"))
    with pytest.warns(RunWarning, match="column 'job' has 'miller', which no training row had"):
        x = trained.read(odd).x
    width = trained.features.columns[1].width
    assert width == 4, "three jobs and a level for those that are missing"
    assert not x[:, 1 : 1 + width].any()


def test_a_missing_column_is_refused_by_name(trained: Trained) -> None:
    with pytest.raises(library.DataError, match="no column 'age': the model was trained with it"):
        trained.predict(TABLE.drop("age"))
    with pytest.raises(library.DataError, match="did you mean 'Age'"):
        trained.predict(TABLE.rename({"age": "Age"}))


def test_text_among_numbers_is_refused(trained: Trained) -> None:
    odd = TABLE.with_columns(pressure=pl.lit("high"))
    with pytest.raises(library.DataError, match="column 'pressure' holds numbers, but row 0"):
        trained.predict(odd)


def test_gaps_that_training_did_not_have_are_said(tmp_path: Path) -> None:
    whole = TABLE.drop_nulls()
    folder = run(tmp_path, whole, data={"missing": "error"}, rounds=1)
    gaps = whole.with_columns(age=pl.lit(None, pl.Float64))
    warn_once.cache_clear()
    with pytest.warns(RunWarning, match="column 'age' is missing in .* median of the training"):
        library.load(folder).predict(gaps)


def test_an_array_for_a_table_with_text_is_refused(trained: Trained) -> None:
    with pytest.raises(library.DataError, match="text column 'job'; give a data frame"):
        trained.predict(np.zeros((2, 4)))


def test_whole_labels_stay_whole_and_bytes_are_scaled(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (90, 6, 6), dtype=np.uint8), np.arange(90) % 3 + 4
    x[y == 5] //= 2
    np.savez(tmp_path / "a.npz", x=x, y=y, site=np.arange(90) % 2)
    raw = {
        "rounds": 2,
        "data": {"name": "files", "path": str(tmp_path / "a.npz"), "client": "site"},
        "partition": "natural",
        "run": {"folder": str(tmp_path / "run")},
    }
    trained = library.load(library.start(library.parse(raw)))
    assert trained.classes_.tolist() == [4, 5, 6]
    assert trained.classes_.dtype.kind == "i"
    from_file = trained.predict_proba(tmp_path / "a.npz")
    assert np.array_equal(trained.predict_proba(x), from_file)
    as_floats = torch.from_numpy(x)[:, None] / 255
    np.testing.assert_allclose(trained.predict_proba(as_floats), from_file, atol=1e-7)
    with pytest.raises(library.DataError, match=r"shape \(1, 5, 6\), but .* \(1, 6, 6\)"):
        trained.predict(x[:, :5])


def test_clients_by_name_and_number(trained: Trained) -> None:
    north = trained.clients.index("north")
    assert trained.personal("north").client == trained.personal(north).client == north
    with pytest.raises(library.ConfigError, match="unknown client 'nort': did you mean 'north'"):
        trained.personal("nort")
    with pytest.raises(library.ConfigError, match="there is no client 4; choose 0 to 3"):
        trained.personal(4)


def test_it_says_in_a_line_what_it_is(trained: Trained) -> None:
    assert (
        repr(trained)
        == f"<Trained: 4 models together of round {trained.round}, predicts high, low, middle>"
    )
    assert repr(trained.personal("north")).startswith("<Trained: the model of client north of")


def test_the_command(unalike: Unalike, folder: Path, tmp_path: Path) -> None:
    TABLE.write_csv(tmp_path / "new.csv")
    new = str(tmp_path / "new.csv")
    code, out, said = unalike("predict", str(folder), new, "--client", "north")
    assert code == 0
    assert out.splitlines()[0] == "row,client,prediction"
    assert len(out.splitlines()) == 241
    assert said.startswith("240 rows predicted by the model of client north, round ")
    table = str(tmp_path / "deep" / "p.parquet")
    code, out, said = unalike(
        "predict", str(folder), new, "--own", "--probabilities", "--out", table
    )
    assert (code, out) == (0, "")
    found = pl.read_parquet(table)
    assert found.columns == ["row", "client", "prediction", "p(high)", "p(low)", "p(middle)"]
    trained = library.load(folder)
    for name in trained.clients:
        mine = TABLE["hospital"] == name
        own = trained.personal(name).predict(TABLE.filter(mine))
        assert found.filter(mine)["prediction"].to_list() == own.tolist()
    assert "the mean of the clients' 4 models" in unalike("predict", str(folder), new)[2]


def test_mistakes_of_the_command(unalike: Unalike, folder: Path, tmp_path: Path) -> None:
    TABLE.drop("hospital").write_csv(tmp_path / "new.csv")
    new, place = str(tmp_path / "new.csv"), str(folder)
    assert "predict needs ROWS, a table" in mistake(unalike, "predict", place)
    assert "do not say which client they belong to" in mistake(
        unalike, "predict", place, new, "--own"
    )
    said = mistake(unalike, "predict", place, new, "--own", "--client", "north")
    assert "leave out --client" in said
    assert "must end in .csv or .parquet" in mistake(
        unalike, "predict", place, new, "--out", "p.txt"
    )
    assert "there is no file" in mistake(unalike, "predict", place, "nothing.csv")
    assert "there is no run folder" in mistake(unalike, "predict", "nowhere", new)
    assert "holds no images" in mistake(unalike, "predict", place, str(tmp_path))


def test_an_autoencoder_predicts_nothing(tmp_path: Path) -> None:
    vae = {"name": "vae", "hidden": [8]}
    folder = run(tmp_path, TABLE, model=vae, rounds=1)
    with pytest.raises(library.RunError, match="trained an autoencoder, which predicts nothing"):
        library.load(folder)


def test_reading_the_training_file_says_nothing(folder: Path) -> None:
    warn_once.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library.load(folder).predict(TABLE)


def test_codes_stay_levels_where_a_gap_made_their_column_fractional(tmp_path: Path) -> None:
    codes = ["1234567", "1234568", "A12", "0.1"] * 20
    seen = pd.DataFrame({"code": codes, "who": ["a", "b"] * 40, "y": ["yes", "no"] * 40})
    result = library.train(seen, "logistic", rounds=1, label="y", client="who")
    same = pd.DataFrame({"code": ["1234567", "1234568", "0.1"]})
    gap = pd.DataFrame({"code": [1234567, 1234568, 0.1, None]})  # a column of float64
    gap.to_csv(tmp_path / "gap.csv", index=False)  # with 1234567.0
    expected = result.trained().predict_proba(same)
    assert len(np.unique(expected[:, 0])) == 3
    for rows in (gap, tmp_path / "gap.csv"):
        warn_once.cache_clear()
        with pytest.warns(RunWarning, match="column 'code' is missing in 1 of 4 rows"):
            assert np.array_equal(result.trained().predict_proba(rows)[:3], expected)
