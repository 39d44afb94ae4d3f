"""What a run's folder says of its partition: asked against got, marks, and notes."""

import json
from pathlib import Path
from typing import Any

import pytest

from unalike.api import train
from unalike.errors import RunWarning, warn_once
from unalike.federation.build import federate
from unalike.federation.datasets.digits import Digits
from unalike.federation.partition.limit_label import LimitLabel
from unalike.run.configuration.config import parse
from unalike.run.execute import start


@pytest.fixture(autouse=True)
def nothing_said_before() -> None:
    warn_once.cache_clear()


def record(folder: Path, **tables: Any) -> dict[str, Any]:
    """The skew.json of a short run on digits."""
    raw = {"rounds": 1, "run": {"folder": str(folder)}, "model": "logistic", **tables}
    start(parse(raw))
    found: dict[str, Any] = json.loads((folder / "skew.json").read_text())
    return found


def test_asked_and_got_marks_and_what_is_unused(tmp_path: Path) -> None:
    mixed = {"name": "mixed", "sizes": [8, 2], "alphas": [50.0, 0.5]}
    found = record(
        tmp_path / "run",
        partition=mixed,
        split={"new_clients": 1},
        shift=[{"name": "rotation", "angles": [0.0, 90.0]}],
    )
    assert len(found["marks"]) == 10
    assert all(len(words) == 2 for words in found["marks"])
    asked = {goal["what"]: goal for goal in found["asked"]}
    near = asked["mean EMD of clients with alpha = 50"]
    assert near["asked"] == pytest.approx(0.1069, abs=1e-3)
    assert near["got"] == pytest.approx(0.1069, abs=0.06)
    assert found["unused"] > 0
    assert found["note"] == ""


def test_nothing_is_asked_of_plain_partitions(tmp_path: Path) -> None:
    found = record(tmp_path / "run", partition="shards")
    assert (found["asked"], found["unused"], found["marks"]) == ([], 0, [])


def test_fedaug_warns_and_leaves_a_note(tmp_path: Path) -> None:
    pure = {"name": "limit_label", "t": 3, "keep_one": False}
    with pytest.warns(RunWarning, match=r"fedaug .*leaves 10 of 10 clients .*lack 70 classes") as w:
        found = record(tmp_path / "run", partition=pure, method="fedaug")
    assert found["note"] == str(w[0].message).rstrip(".")
    kept = record(tmp_path / "kept", partition={**pure, "keep_one": True}, method="fedaug")
    assert kept["note"] == ""


def test_fedaug_warns_without_a_folder_too() -> None:
    federation = federate(Digits(), LimitLabel(t=3, f=0.1))
    with pytest.warns(
        RunWarning, match="fedaug changes nothing: the EMD of every client is already"
    ):
        train(federation, "logistic", "fedaug", rounds=1)
