"""Settings describe themselves: what they may be, their defaults, their meaning."""

from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError

from unalike.run.configuration.config import tables
from unalike.run.configuration.sections import SECTIONS
from unalike.settings import Settings, allowed, describe, look_up, setting, sources, summary


class Everything(Settings):
    """One line. Then more.

    And more.
    """

    whole: int = Field(default=3, ge=1, description="how many")
    above: float = Field(default=0.5, gt=0)
    share: float = Field(default=0.5, ge=0, le=1)
    open_share: float = Field(default=0.5, gt=0, le=1)
    below: float = Field(default=0.5, ge=0, lt=1)
    any_number: float = 1.0
    up_to: int = Field(default=3, le=9)
    even: int = Field(default=4, ge=2, multiple_of=2)
    yes: bool = True
    text: str = ""
    path: str = Field(default="a", min_length=1)
    one: Literal["a"] = "a"
    three: Literal["a", "b", "c"] = "a"
    maybe: int | None = Field(default=None, ge=1)
    several: list[Annotated[int, Field(gt=0)]] = [1, 2]
    some: list[str] = Field(default=["x"], min_length=1)
    either: Literal["a", "b"] | list[str] = "a"
    needed: float


WORDS = {
    "whole": "whole number >= 1",
    "above": "number > 0",
    "share": "number from 0 to 1",
    "open_share": "number above 0, up to 1",
    "below": "number from 0 to below 1",
    "any_number": "number",
    "up_to": "whole number up to 9",
    "even": "whole number >= 2, a multiple of 2",
    "yes": "true or false",
    "text": "text",
    "path": "text, not empty",
    "one": '"a"',
    "three": '"a", "b" or "c"',
    "maybe": "whole number >= 1 or left out",
    "several": "list of whole numbers > 0",
    "some": "list of texts, not empty",
    "either": '"a" or "b" or list of texts',
    "needed": "number",
}


@pytest.mark.parametrize(("name", "words"), WORDS.items())
def test_what_a_setting_may_be(name: str, words: str):
    assert allowed(Everything.model_fields[name]) == words


def test_defaults_are_written_as_in_a_file():
    defaults = {s.name: s.default for s in describe(Everything)}
    assert defaults["yes"] == "true"
    assert defaults["three"] == '"a"'
    assert defaults["several"] == "[1, 2]"
    assert (defaults["maybe"], defaults["needed"]) == ("left out", "required")


def test_the_first_line_is_the_summary():
    assert summary(Everything) == "One line. Then more."


def test_settings_cannot_be_changed_or_stretched():
    made = Everything(needed=1.0)
    with pytest.raises(ValidationError):
        made.whole = 4
    for wrong in ({"extra": 1}, {"whole": "3"}, {"whole": 3.0}, {"above": float("inf")}):
        with pytest.raises(ValidationError):
            Everything(needed=1.0, **wrong)


def test_a_whole_number_is_a_number():
    assert Everything(needed=2).needed == 2.0


def test_everything_that_can_be_set_says_what_it_means():
    named = [cls for table in tables().values() for cls in table.values()]
    for cls in [*named, *SECTIONS.values()]:
        assert summary(cls).endswith((".", "..."))
        for found in describe(cls):
            assert found.description, (cls, found.name)
            assert "<class" not in found.allowed
            assert "typing." not in found.allowed


def test_the_nearest_name_is_suggested():
    with pytest.raises(Exception, match="unknown thing 'bute': did you mean 'byte'"):
        look_up("thing", "bute", {"byte": int, "word": str})


class Kept(Settings):
    """With a setting that belongs to the value of another."""

    kind: Literal["plain", "deep"] = setting("plain", "of the two")
    depth: int = setting(3, "if deep", ge=1, source="text", only={"kind": "deep"})


def test_a_setting_that_would_do_nothing_is_refused() -> None:
    """Unless it has its default, or the setting it belongs to has the value."""
    assert Kept(depth=3).depth == 3
    assert Kept(kind="deep", depth=7).depth == 7
    with pytest.raises(ValueError, match='depth belongs to kind = "deep"; leave it out'):
        Kept(depth=7)


def test_sources_are_those_that_are_said() -> None:
    assert sources(Kept) == {"depth": "text"}
    field = Kept.model_fields["depth"]
    assert (field.description, field.get_default()) == ("if deep", 3)
