"""Every default of every method says where it comes from."""

import re

import pytest
from unalike.algorithms.sources import SOURCES

from unalike.algorithms.table import METHODS
from unalike.cli.listing import show

WHENCE = re.compile(r"(text|authors' (code|commands)|the released (code|commands) of|our choice)\b")


@pytest.mark.parametrize("name", METHODS)
def test_every_default_has_a_source(name):
    fields = METHODS[name].model_fields
    defaults = {key for key, field in fields.items() if not field.is_required()}
    assert set(SOURCES.get(name, {})) == defaults


def test_no_source_is_of_a_method_that_is_gone():
    assert set(SOURCES) <= set(METHODS)


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_the_text_the_code_or_a_choice_with_a_reason(name):
    for source in SOURCES[name].values():
        assert WHENCE.match(source)
        assert source != "our choice"


def test_the_list_shows_them(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    show("fedprox")
    shown = capsys.readouterr().out
    assert "where the defaults come from" in shown
    for setting, source in SOURCES["fedprox"].items():
        assert re.search(rf"{setting} +{re.escape(source[:60])}", shown)
