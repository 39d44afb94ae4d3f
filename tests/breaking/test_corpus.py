"""The corpus: attempts to break it that once were made by hand, each with what may come of it."""

import importlib
from pathlib import Path

import pytest
from breaking.corpus import Case, attempt

PARTS = (
    "config",
    "tables",
    "archives",
    "images",
    "models",
    "methods",
    "folders",
    "changed",
    "numbers",
    "searches",
    "surroundings",
)
CASES: list[Case] = [
    case for part in PARTS for case in importlib.import_module(f"breaking.cases.{part}").CASES
]


@pytest.mark.breaking
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", [pytest.param(case, id=str(case)) for case in CASES])
def test_corpus(case: Case, tmp_path: Path) -> None:
    attempt(case, tmp_path)
