"""Of very many clients some judge: the same ones in every round, and the same values."""

import json
from pathlib import Path
from typing import Any

import pytest

from unalike.engine.evaluation.judging import judging
from unalike.run.configuration.config import parse
from unalike.run.execute import start
from unalike.run.folder.records import plain, read_lines

CLIENTS, SOME = 12, 5


def run(folder: Path, method: str, **evaluation: Any) -> Path:
    raw = {
        "rounds": 2,
        "partition": {"name": "dirichlet", "clients": CLIENTS, "min_size": 30},
        "model": {"name": "mlp", "hidden": [4]},
        "local": {"epochs": 0.2},
        "method": method,
        "evaluation": evaluation,
        "run": {"folder": str(folder)},
    }
    return start(parse(raw))


@pytest.mark.parametrize("method", ["fedavg", "ditto"])
def test_the_first_clients_judge_as_they_do_among_all(method: str, tmp_path: Path) -> None:
    everybody = run(tmp_path / "all", method)
    some = run(tmp_path / "some", method, clients=SOME)
    for one, other in zip(
        read_lines(everybody / "clients.jsonl"), read_lines(some / "clients.jsonl"), strict=True
    ):
        for section in ("validation", "local"):
            for metric, values in one[section].items():
                assert len(values) == CLIENTS
                assert other[section][metric] == values[:SOME]
        assert sum(other["local"]["n"]) == other["global"]["n"][0]
    counts, fewer = (json.loads((f / "skew.json").read_text()) for f in (everybody, some))
    assert fewer["counts"] == counts["counts"][:SOME]
    assert fewer["clients"] == CLIENTS
    assert fewer["skew"] == counts["skew"]  # of all clients
    assert (some / "model.safetensors").read_bytes() == (
        everybody / "model.safetensors"
    ).read_bytes()


def test_all_judge_where_some_join_late() -> None:
    from unalike.run.experiment.build import experiment

    raw = {
        "partition": {"clients": CLIENTS, "min_size": 30},
        "participation": {"late": 2},
        "evaluation": {"clients": SOME},
    }
    assert experiment(parse(raw)).simulation.examiner.judging == CLIENTS
    assert judging(CLIENTS, 0) == CLIENTS


def test_lists_of_one_kind_are_written_like_others() -> None:
    nan = float("nan")
    assert plain([1.0, nan, 2.0]) == [1.0, None, 2.0]
    assert plain((1.5, 2.5)) == [1.5, 2.5]
    assert plain([[1, "a"], {"b": (nan,)}]) == [[1, "a"], {"b": [None]}]
