"""Methods of one's own are held to the contract that all methods keep."""

from pathlib import Path

import pytest
from command_line import Unalike, mistake

GOOD = """
from dataclasses import dataclass, replace

from unalike.extend import Method, Weighed, WeightRule, setting


class Even(WeightRule):
    '''Everybody counts the same.'''

    power: float = setting(0.0, "of the share", ge=0)

    def weights(self, state, cohort):
        p = cohort.share**self.power
        return Weighed(p / p.sum(), state)
"""
FORGETFUL = """
from unalike.extend import Weighed, WeightRule

SEEN = []


class Growing(WeightRule):
    '''Keeps something outside of its state.'''

    def weights(self, state, cohort):
        SEEN.append(1)
        p = cohort.share ** (1 + len(SEEN) / 10)
        return Weighed(p / p.sum(), state)
"""
BREAKS = """
from unalike.extend import Weighed, WeightRule


class Wrong(WeightRule):
    '''Divides by nothing.'''

    def weights(self, state, cohort):
        return Weighed(1 / 0, state)
"""


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_method_that_keeps_it(unalike: Unalike) -> None:
    Path("good.py").write_text(GOOD)
    code, out, said = unalike("check", "good.py")
    assert (code, said) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [
        *("Even", "trains", "repeats", "engines", "shapes", "resumes", "few")
    ]
    assert "BROKEN" not in out
    assert unalike("check", "good.py", "Even", "--set", "power=1.0")[0] == 0


def test_state_outside_of_the_state_is_found(unalike: Unalike) -> None:
    Path("bad.py").write_text(FORGETFUL)
    code, out, said = unalike("check", "bad.py")
    assert code == 2
    assert "resumes  BROKEN: a resumed run ends differently" in out or "repeats  BROKEN" in out
    assert "Growing" in said


def test_what_it_raises_is_said_with_its_line(unalike: Unalike) -> None:
    Path("wrong.py").write_text(BREAKS)
    code, out, said = unalike("check", "wrong.py")
    assert code == 2
    assert "trains   BROKEN: " in out
    assert "ZeroDivisionError" in out
    assert "Traceback" not in out + said


def test_mistakes(unalike: Unalike) -> None:
    Path("empty.py").write_text("x = 1\n")
    assert "defines no method" in mistake(unalike, "check", "empty.py")
    assert "does not exist" in mistake(unalike, "check", "nothing.py")
    Path("good.py").write_text(GOOD)
    code, out, said = unalike("check", "good.py", "Evan")
    assert code == 2
    assert "has no function or class 'Evan'" in out
