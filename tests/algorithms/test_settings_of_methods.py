"""Every default of every method says where it comes from, and every method is found in a guess."""

import re
from pathlib import Path

import pytest

from unalike.algorithms.table import METHODS
from unalike.cli.listing import show
from unalike.settings import sources

WHENCE = re.compile(r"(text|authors' (code|commands)|the released (code|commands) of|our choice)\b")


@pytest.mark.parametrize("name", METHODS)
def test_every_default_has_a_source(name: str) -> None:
    """The text, the code, or a choice with a reason."""
    cls = METHODS[name]
    defaults = {key for key, field in cls.model_fields.items() if not field.is_required()}
    assert sources(cls).keys() == defaults
    for source in sources(cls).values():
        assert WHENCE.match(source)
        assert source != "our choice"


def test_the_list_shows_them(capsys: pytest.CaptureFixture, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    show("fedprox")
    shown = capsys.readouterr().out
    assert "where the defaults come from" in shown
    for setting, source in sources(METHODS["fedprox"]).items():
        assert re.search(rf"{setting} +{re.escape(source[:60])}", shown)


@pytest.mark.parametrize("name", METHODS)
def test_tests_are_found_in_one_guess(name: str) -> None:
    assert (Path(__file__).parent / f"test_{name}.py").is_file()
