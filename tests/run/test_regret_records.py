"""The regret of online weights in a run's records, its summary, on the terminal, in the report."""

from pathlib import Path
from typing import Any

import pytest
from interrupted import raw, whole

from unalike.cli.outcome import conclude
from unalike.parts.mixing.regret import bound_d, bound_s
from unalike.report.html.results import regrets
from unalike.report.records import Reader
from unalike.report.series import regret
from unalike.run.configuration.config import parse
from unalike.run.execute import start
from unalike.run.folder.records import read_json, read_lines

EVERYBODY: dict[str, Any] = {"participation": {"fraction": 1.0}, "faults": {}}


@pytest.fixture(scope="module")
def silo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six clients that all answer in six rounds."""
    return whole(tmp_path_factory.mktemp("regret") / "run", {**EVERYBODY, "method": "aaggff_s"})


def test_every_round_tells_it(silo: Path) -> None:
    told = read_lines(silo / "rounds.jsonl")
    assert [r["regret_bound"] for r in told] == [round(bound_s(t, 6), 9) for t in range(1, 7)]
    assert all(0 < r["regret"] < r["regret_bound"] for r in told)
    assert len({r["regret"] for r in told}) == 6


def test_the_summary_tells_the_last_one(silo: Path) -> None:
    last = read_lines(silo / "rounds.jsonl")[-1]
    found = read_json(silo / "summary.json")["regret"]
    assert found == {"value": last["regret"], "bound": last["regret_bound"]}


def test_the_terminal_tells_it(silo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    conclude(Console(width=200), silo)
    found = read_json(silo / "summary.json")["regret"]
    wanted = f"regret of the weights {found['value']:.3f}, proven to stay below 2.121"
    assert wanted in capsys.readouterr().out


def test_the_report_tells_it(silo: Path) -> None:
    study = Reader(silo).read()
    rows = regret(study, study.partitions[0])
    assert [r["round"] for r in rows] == [1, 2, 3, 4, 5, 6]
    table = regrets(study)
    assert table is not None
    texts = [cell.text for cell in table.rows[0]]
    assert texts[2:] == ["1", f"{rows[-1]['regret']:.3f}", "2.121"]


def test_cohorts_of_the_device_rule(tmp_path: Path) -> None:
    """Four of six answer, so L = 4/6 + 2; a round without answers tells nothing and counts not."""
    changes = {"method": "aaggff_d", "faults": {"drop": 0.7, "min_replies": 2}}
    told = read_lines(start(parse(raw(tmp_path / "run", changes))) / "rounds.jsonl")
    skipped = [r for r in told if r["skipped"]]
    played = [r for r in told if not r["skipped"]]
    assert skipped
    assert played
    assert not any("regret" in r for r in skipped)
    most = [max(len(r["clients"]) for r in played[:t]) for t in range(1, len(played) + 1)]
    wanted = [round(bound_d(t, 6, m / 6 + 2), 9) for t, m in enumerate(most, 1)]
    assert [r["regret_bound"] for r in played] == wanted


def test_other_weights_have_none(tmp_path: Path) -> None:
    place = whole(tmp_path / "run", {**EVERYBODY, "rounds": 2, "method": "afl"})
    assert not any("regret" in r for r in read_lines(place / "rounds.jsonl"))
    assert "regret" not in read_json(place / "summary.json")
    assert regrets(Reader(place).read()) is None
