"""Whatever is wrong with a table or a model of one's own, the answer is one sentence.

All of them: python -m pytest -m slow tests/cli/test_malformed.py
"""

import random
import re
from pathlib import Path

import pytest
from broken_models import BROKEN
from command_line import Unalike
from malformed import Table, malformed

TABLES = malformed()
SOME = random.Random(3).sample(range(len(TABLES)), 20)
MODELS = [*BROKEN]
FEW = random.Random(4).sample(MODELS, 6)
pytestmark = pytest.mark.filterwarnings("ignore")


def sentences(said: str) -> list[str]:
    """What stands between full stops that end one."""
    return [part for part in re.split(r"(?<=[.?])\s+(?=[A-Z])", said.strip()) if part]


def answered(unalike: Unalike, *command: str) -> str:
    """What came of a command: fine, or one sentence, without a traceback and without a folder."""
    code, out, said = unalike(*command)
    assert "Traceback" not in out + said
    lines = said.rstrip().splitlines()
    for line in lines[:-1] if code else lines:
        assert line.startswith("  "), said  # lines of the user's own code
    if code == 0:
        return "fine"
    assert code in (1, 2), said
    assert lines[-1].startswith("error: "), said
    assert lines[-1].endswith((".", "?")) or "continue with: unalike resume" in lines[-1], said
    assert len(sentences(lines[-1])) == 1, said
    assert len(lines[-1]) < 600, said
    assert all(letter.isprintable() for letter in lines[-1]), said
    if code == 2 and "round" not in lines[-1]:
        runs = Path("runs")
        assert not runs.exists() or not any(runs.iterdir()), "a failed start leaves no folder"
    return lines[-1]


def try_table(table: Table, unalike: Unalike) -> str:
    Path(table.file).write_bytes(table.raw)
    label = "" if table.file.endswith(".npz") else 'label = "outcome"\n'
    Path("c.toml").write_text(
        'rounds = 1\npartition = "natural"\nmodel = "logistic"\n[data]\nname = "files"\n'
        f'path = "{table.file}"\n{label}client = "hospital"\n{table.settings}\n'
    )
    return answered(unalike, "run", "c.toml")


def try_model(name: str, unalike: Unalike) -> str:
    Path("m.py").write_text(BROKEN[name])
    Path("c.toml").write_text(
        'rounds = 3\npartition = { name = "iid", clients = 3 }\nlocal = { epochs = 0.2 }\n'
        'model = { name = "module", file = "m.py", attribute = "Model" }\n'
    )
    return answered(unalike, "run", "c.toml")


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_there_are_enough() -> None:
    assert len(TABLES) == 200
    assert len(MODELS) >= 30


@pytest.mark.parametrize("i", SOME, ids=lambda i: TABLES[i].name)
def test_some_tables(i: int, unalike: Unalike) -> None:
    try_table(TABLES[i], unalike)


@pytest.mark.slow
@pytest.mark.parametrize("i", range(len(TABLES)), ids=lambda i: TABLES[i].name)
def test_every_table(i: int, unalike: Unalike) -> None:
    try_table(TABLES[i], unalike)


@pytest.mark.parametrize("name", FEW)
def test_some_models(name: str, unalike: Unalike) -> None:
    try_model(name, unalike)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_model(name: str, unalike: Unalike) -> None:
    if try_model(name, unalike) == "fine":
        assert name in ("one weight twice",)


SAID = {  # what a person needs to read, for the ones that are easily met
    "semicolons": "set data.separator = ';'",
    "spaces": "set data.separator = ' '",
    "title above": "line 3 has 6 fields where the header has 1",
    "utf-16": "it is written in UTF-16; set data.encoding = 'utf-16'",
    "old Mac": "its lines end only in carriage returns",
    "an open quote": "has an unmatched quotation mark",
    "a column with a quote": "line 1 has an unmatched quotation mark",
    "a ZIP archive": "it is an Excel file or a ZIP archive; save its sheet as CSV",
    "JSON": "it is JSON; save it as CSV",
    "HTML": "it is a page of HTML or XML",
    "Parquet, cut off": "is not a whole Parquet file",
    "label column in capitals": "did you mean 'Outcome'?",
    "missing labels": "the labels must not be missing: line 11",
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(name: str, unalike: Unalike) -> None:
    table = next(t for t in TABLES if t.name == name)
    assert SAID[name] in try_table(table, unalike)


def test_utf_16_is_read_if_asked_for(unalike: Unalike) -> None:
    table = next(t for t in TABLES if t.name == "utf-16")
    assert try_table(table._replace(settings='encoding = "utf-16"'), unalike) == "fine"
