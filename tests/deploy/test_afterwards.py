"""After a run its folders are put to use: predictions at sites, reports on both sides."""

import threading
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
import torch
from deployed import SITES, table

from unalike.cli.training import check
from unalike.deploy.audit import Audit
from unalike.deploy.desk import Desk
from unalike.deploy.network import Line, Listener
from unalike.deploy.policy import Policy
from unalike.deploy.serving import serve
from unalike.deploy.working import work
from unalike.engine.evaluation.server import Evaluation
from unalike.errors import RunError
from unalike.federation.build import federate
from unalike.federation.datasets.own import Files
from unalike.federation.partition.natural import Natural
from unalike.predict.trained import load
from unalike.report.html import write_report
from unalike.report.live import Desk as Watching
from unalike.run.configuration.config import parse
from unalike.run.execute import resume
from unalike.run.experiment.build import Experiment, assemble, task
from unalike.run.folder.records import alone, read_json, read_lines

READ: dict[str, Any] = {"label": "ill", "missing": "impute", "normalise": "client"}
RAW: dict[str, Any] = {
    "rounds": 3,
    "seed": 1,
    "model": {"name": "mlp", "hidden": [4]},
    "method": {"name": "ditto"},
    "local": {"lr": 0.2},
    "split": {"validation": 0.2},
}


class Over(NamedTuple):
    """A run that is over, and the simulation that it should be."""

    folder: Path
    near: Experiment
    judged: dict[int, Evaluation]  # by round

    def site(self, name: str) -> Path:
        (place,) = (self.folder / name / "runs").iterdir()
        return place


@pytest.fixture(scope="module")
def over(tmp_path_factory: pytest.TempPathFactory) -> Over:
    folder = tmp_path_factory.mktemp("over")
    tables = {site: table(site, seed) for seed, site in enumerate(SITES)}
    pl.concat(tables.values()).write_csv(folder / "all.csv")
    config = parse(RAW)
    desk = Desk(SITES, Audit(folder / "run" / "audit.jsonl"))
    listener, threads = Listener(desk, "127.0.0.1:0", None), []
    for site, held in tables.items():
        held.drop("site").write_csv(folder / f"{site}.csv")
        examples = Files(path=str(folder / f"{site}.csv"), **READ).load()
        line = Line(site, f"127.0.0.1:{listener.port}", None)
        policy = Policy(evaluate=site != "town")
        given = (site, examples, line, folder / site, policy, print, 30.0)
        threads.append(threading.Thread(target=work, args=given, daemon=True))
        threads[-1].start()
    serve(config, SITES, folder / "run", desk, print, seconds=60, arrive=60)
    for thread in threads:
        thread.join(20)
    listener.close()
    rows = Files(path=str(folder / "all.csv"), client="site", **READ)
    data = federate(rows, Natural(), validation=0.2, seed=1)
    near = assemble(config, data, task(config, data.examples))
    progress, judged = near.course.begin(), {}
    for t in range(3):
        progress, _, _ = near.course.advance(progress, t)
        judged[t + 1] = near.evaluator(progress.state)
    return Over(folder, near, judged)


def test_every_site_predicts_with_its_own_model(over: Over) -> None:
    """What its model says of its own file is what the simulation's says of the same rows."""
    data, last = over.near.federation, over.judged[3]
    for i, site in enumerate(data.names):
        w = over.near.simulation.examiner.model(last.downs, i)
        rows = torch.from_numpy(data.owner == i).nonzero()[:, 0]
        wanted = over.near.recipe.algorithm.task.outputs(w, data.examples.x[rows], None)
        held = load(over.site(site), "last").personal(site)
        found = held.logits(over.folder / f"{site}.csv")
        assert torch.allclose(found, wanted, atol=1e-4), site
        assert held.classes_.tolist() == [0, 1]


def test_the_shared_model_is_at_the_coordinator_and_at_every_site(over: Over) -> None:
    rows = over.folder / "hills.csv"
    here = load(over.folder / "run").logits(rows)
    for site in SITES:
        assert torch.equal(load(over.site(site)).logits(rows), here)
    with pytest.raises(RunError, match="each site keeps its personal model to itself"):
        load(over.folder / "run").personal("coast").logits(rows)


def test_sites_keep_the_round_that_the_coordinator_selects(over: Over) -> None:
    chosen = read_json(over.folder / "run" / "summary.json")["selected"]["round"]
    for site in SITES:
        assert read_json(over.site(site) / "summary.json")["selected"]["round"] == chosen
        assert load(over.site(site)).round == load(over.folder / "run").round == chosen


def test_a_site_that_tells_nothing_still_knows_how_it_fares(over: Over) -> None:
    records = read_lines(over.site("town") / "rounds.jsonl")
    assert [r["round"] for r in records] == [1, 2, 3]
    town = over.near.federation.names.index("town")
    for record in records:
        wanted = over.judged[record["round"]].clients["local"]["accuracy"][town]
        assert record["metrics"]["local"]["accuracy"]["mean"] == pytest.approx(wanted, abs=1e-6)


def test_reports_of_both_sides_name_sites_bytes_and_refusals(over: Over) -> None:
    text = write_report(over.folder / "run").read_text()
    assert "ditto on the data of 3 sites" in text.lower()
    assert "dirichlet" not in text, "the recipe's partition is not used"
    for word in (*SITES, "What each site got", "allows no evaluation (evaluate = false)"):
        assert word in text
    place = over.site("town")
    text = write_report(place).read_text()
    assert "data of site town" in text
    assert "What this site sent and received" in text
    assert Watching(place).current().html
    assert Watching(over.folder / "run").current().html


def test_logs_of_both_sides_are_checked(over: Over, capsys: pytest.CaptureFixture[str]) -> None:
    check(str(over.folder / "run"))
    assert "is intact" in capsys.readouterr().out
    log = over.folder / "run" / "audit.jsonl"
    lines = log.read_bytes().splitlines(True)
    log.write_bytes(b"".join(lines[:3] + lines[4:]))
    try:
        with pytest.raises(RunError, match="line 4 does not match"):
            check(str(over.folder / "run"))
    finally:
        log.write_bytes(b"".join(lines))


def test_what_sites_began_is_not_resumed_on_one_machine(over: Over) -> None:
    for folder, who in ((over.folder / "run", "serve"), (over.site("town"), "join")):
        with pytest.raises(RunError, match=f"cannot be resumed here; .*the same 'unalike {who}'"):
            resume(folder)
        done = (folder / "summary.json").rename(folder / "kept.json")
        with pytest.raises(RunError, match=f"has not finished; .*the same 'unalike {who}'"):
            load(folder)
        done.rename(folder / "summary.json")


def test_two_of_a_site_in_one_folder_are_one_too_many(over: Over, tmp_path: Path) -> None:
    """They would write one audit log and one state."""
    own = Files(path=str(over.folder / "town.csv"), **READ).load()
    line = Line("town", "127.0.0.1:1", None)
    with alone(tmp_path), pytest.raises(RunError, match="is in use by another process"):
        work("town", own, line, tmp_path, Policy(), print, 1.0)
    line.close()
