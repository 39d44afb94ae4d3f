"""Tables with gaps and text at sites that know nothing of each other's rows."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from deployed import SITES, table
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

import unalike
from unalike.deploy.coordinator.desk import Desk
from unalike.deploy.coordinator.listener import Listener
from unalike.deploy.coordinator.serving import serve
from unalike.deploy.security.audit import Audit
from unalike.deploy.setup import targets
from unalike.deploy.setup.agreement import agree, read_hello, welcome
from unalike.deploy.setup.joining import hello, join
from unalike.deploy.setup.preprocessing import counted, learned
from unalike.deploy.site.policy import Policy
from unalike.deploy.site.worker import work
from unalike.deploy.wire.connection import Line
from unalike.deploy.wire.messages import message
from unalike.errors import DataError, RunError
from unalike.federation.build import federate
from unalike.federation.columns import Column, Pending
from unalike.federation.datasets.own import Files
from unalike.federation.partition.natural import Natural
from unalike.federation.readers import from_arrays
from unalike.federation.readers.targets import read_measured
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import assemble
from unalike.run.experiment.task import task
from unalike.run.folder.records import read_lines


def parted(site: str, held: pl.DataFrame) -> pl.DataFrame:
    """With the patient of each row, and at one site some rows that are for testing."""
    n = len(held)
    part = ["test" if site == "hills" and i % 5 == 0 else "" for i in range(n)]
    patient = [f"{site} {i // 3}" for i in range(n)]
    return held.with_columns(pl.Series("part", part), pl.Series("patient", patient))


@pytest.mark.parametrize(
    ("scale", "more"),
    [
        ("pooled", {}),
        ("client", {}),
        pytest.param("pooled", {"split": "part", "drop": ["patient"]}, marks=pytest.mark.slow),
        pytest.param("none", {"together": "patient", "drop": ["part"]}, marks=pytest.mark.slow),
        ("none", {"split": "part", "together": "patient"}),
    ],
)
def test_a_messy_table_gives_the_simulated_model(
    scale: str, more: dict[str, Any], tmp_path: Path
) -> None:
    tables = {site: table(site, seed) for seed, site in enumerate(SITES)}
    if more:
        tables = {site: parted(site, held) for site, held in tables.items()}
    pl.concat(tables.values()).write_csv(tmp_path / "all.csv")
    for site, held in tables.items():
        held.drop("site").write_csv(tmp_path / f"{site}.csv")
    settings: dict[str, Any] = {"label": "ill", "missing": "impute", "normalise": scale, **more}
    same_as_simulated(settings, "logistic", tmp_path)


@pytest.mark.parametrize("more", [{}, pytest.param({"split": "part"}, marks=pytest.mark.slow)])
def test_numbers_are_predicted_as_in_a_simulation(more: dict[str, Any], tmp_path: Path) -> None:
    """Ranges that rows are dealt by, and the scale of the target, are those of all sites."""
    tables = {}
    for seed, site in enumerate(SITES):
        held = table(site, seed)
        draw = np.random.default_rng(9 + seed).normal(size=len(held))
        cost = np.round(1000 * (1 + seed) + 300 * draw + 500 * held["smoker"].to_numpy(), 2)
        held = parted(site, held) if more else held
        tables[site] = held.drop("patient", "ill", strict=False).with_columns(cost=cost)
    pl.concat(tables.values()).write_csv(tmp_path / "all.csv")
    for site, held in tables.items():
        held.drop("site").write_csv(tmp_path / f"{site}.csv")
    settings: dict[str, Any] = {"label": "cost", "missing": "impute", **more}
    run = same_as_simulated(settings, "mlp", tmp_path)
    new = tables["town"].drop("site", "cost")
    new.write_csv(tmp_path / "new.csv")
    told = unalike.load(run).predict(str(tmp_path / "new.csv"))
    assert 500 < float(np.mean(told)) < 5000, "in the unit of the data"


def same_as_simulated(settings: dict[str, Any], model_name: str, tmp_path: Path) -> Path:
    """Sites of files of their own, and all rows in one file: the same model."""
    model_of = {"name": model_name, **({"hidden": [8]} if model_name == "mlp" else {})}
    config = parse({"rounds": 3, "model": model_of, "local": {"lr": 0.2}, "seed": 1})

    data = federate(
        Files(path=str(tmp_path / "all.csv"), client="site", **settings), Natural(), seed=1
    )
    near = assemble(config, data, task(config, data.examples))
    progress = near.course.begin()
    for t in range(3):
        progress, _, _ = near.course.advance(progress, t)

    desk = Desk(SITES, Audit(tmp_path / "run" / "audit.jsonl"))
    listener = Listener(desk, "127.0.0.1:0", None)
    threads = []
    for site in SITES:
        examples = Files(path=str(tmp_path / f"{site}.csv"), **settings).load()
        line = Line(site, f"127.0.0.1:{listener.port}", None)
        given = (site, examples, line, tmp_path / site, Policy(), print, 30.0)
        threads.append(threading.Thread(target=work, args=given, daemon=True))
        threads[-1].start()
    serve(config, SITES, tmp_path / "run", desk, print, seconds=60, arrive=60)
    for thread in threads:
        thread.join(20)
    listener.close()
    found = load_file(tmp_path / "run" / "model.safetensors")
    model = near.course.model(progress)
    assert model is not None
    for name, x in model.items():
        assert torch.allclose(x, found[name], atol=1e-5), name
    wanted = near.evaluator(progress.state).clients["local"]
    told = read_lines(tmp_path / "run" / "clients.jsonl")[-1]["local"]
    for metric in told:
        ours, theirs = (np.array(each[metric], dtype=float) for each in (told, wanted))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, err_msg=metric)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("classes", "kind"),
    [
        (("none mild grave", "none mild"), "multiclass"),
        (("none mild", "mild grave"), "multiclass"),
        (("none mild", "none mild"), "binary"),
        (("none", "mild"), "binary"),
        (("none", "mild grave"), "multiclass"),
    ],
)
def test_a_site_may_lack_a_class(classes: tuple[str, str], kind: str) -> None:
    sites = {}
    for name, words in zip("ab", classes, strict=True):
        y = np.array(words.split() * 10)
        sites[name] = from_arrays(np.random.default_rng(0).normal(size=(len(y), 3)), y)
    said = {n: read_hello(message("hello", "", 0, n, note=hello(e))) for n, e in sites.items()}
    agreed = agree(said, 0)
    assert agreed.shape.kind == kind
    assert agreed.class_names == tuple(sorted({c for words in classes for c in words.split()}))
    for name, examples in sites.items():
        joined = join(examples, welcome(agreed, name, parse({"rounds": 1}), "run"))
        found = joined.federation.examples
        assert (found.kind, found.classes) == (kind, agreed.shape.classes)


def test_one_class_at_all_sites_is_nothing_to_learn() -> None:
    examples = from_arrays(np.zeros((9, 3)), ["none"] * 9)
    said = {n: read_hello(message("hello", "", 0, n, note=hello(examples))) for n in "ab"}
    with pytest.raises(RunError, match="all labels of all sites are 'none'"):
        agree(said, 0)


def test_texts_that_may_name_persons_are_not_told(tmp_path: Path) -> None:
    held = table("town", 2)
    names = [f"patient {i // 2}" for i in range(len(held))]
    held.drop("site").with_columns(pl.Series("who", names)).write_csv(tmp_path / "town.csv")
    given: dict[str, Any] = {"path": str(tmp_path / "town.csv"), "label": "ill"}
    examples = Files(**given, missing="impute").load()
    with pytest.raises(DataError, match="column 'who' has 40 different texts in 80 rows"):
        hello(examples)
    assert "patient 3" in str(hello(examples, ["who"]))
    without = Files(**given, missing="impute", drop=["who"]).load()
    assert "patient" not in str(hello(without))


@given(st.lists(st.floats(-1e100, 1e100), min_size=2, max_size=60))
@settings(max_examples=25, deadline=None)
def test_ranges_are_found_by_counting(values: list[float]) -> None:
    held = [torch.tensor(values[k::2], dtype=torch.float64) for k in (0, 1)]
    y = np.array(values)
    assume(len(np.unique(y)) > 1)

    def ask(told: Any, like: Any) -> list[Any]:
        named = {f"['{k}']": v for k, v in dict(told).items() if "so_far" not in k}
        return [targets.counted(v, torch.arange(len(v)), named) for v in held]

    found = targets.learned(len(values), ask)
    known = read_measured(y)
    assert int(found["ranges"]) == len(known.names)
    codes = np.searchsorted(found["edges"].numpy(), y, side="left")
    assert (codes == known.ranges).all()


@given(
    st.lists(
        st.lists(st.floats(width=32, allow_nan=True, allow_infinity=False), min_size=1, max_size=9),
        min_size=1,
        max_size=4,
    ).filter(lambda sites: any(not np.isnan(v) for site in sites for v in site))
)
@settings(max_examples=60, deadline=None)
def test_medians_are_found_by_counting(sites: list[list[float]]) -> None:
    held = [torch.tensor(site, dtype=torch.float32)[:, None] for site in sites]
    gap = torch.full((1, 1), torch.nan)  # so that there is something to fill
    held.append(gap)

    def ask(told: Any, like: Any) -> list[Any]:
        named = {f"['{k}']": v for k, v in dict(told).items()}
        return [counted(rows, named) for rows in held]

    found = learned(Pending((Column("age"),)), (1,), "float32", ask)
    wanted = np.nanmedian(torch.cat(held).double().numpy())
    assert float(found["fill"]) == pytest.approx(float(np.float32(wanted)), rel=1e-6, abs=1e-38)
