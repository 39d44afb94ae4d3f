"""Your own method that would do nothing, or cannot do what it says: one sentence each."""

import re
from typing import ClassVar

import pytest

import unalike
from unalike.errors import ConfigError
from unalike.extend import Method, Weighed, WeightRule


class Mood(WeightRule):
    """Weights by what no client reports."""

    needs: ClassVar[frozenset[str]] = frozenset({"mood"})

    def weights(self, state, cohort):
        return Weighed(cohort.share, state)


class Text(Mood):
    """What it needs is no set."""

    needs: ClassVar = "loss"


class Idle(Method):
    """Changes nothing."""


@pytest.fixture(scope="module")
def digits():
    return unalike.federate("digits", {"name": "iid", "clients": 3})


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (Mood, "the method needs 'mood' of every client, which none reports"),
        (Text, "'needs' of method 'Text' must be a set of names"),
        (Method, "class 'Method' changes nothing: define 'change(self, draft)'"),
        (Method(), "class 'Method' changes nothing"),
        (Idle, "class 'Idle' changes nothing"),
        (WeightRule, "class 'WeightRule' cannot be used as a method yet: it has no 'weights'"),
    ],
)
def test_what_would_do_nothing_is_refused(digits, method, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        unalike.train(digits, "logistic", method, rounds=1)


def test_so_is_a_class_in_a_file(tmp_path, digits):
    (tmp_path / "idle.py").write_text(
        "from unalike.extend import Method\n\nclass Idle(Method):\n    'Nothing.'\n"
    )
    own = {"name": "own", "file": str(tmp_path / "idle.py"), "attribute": "Idle"}
    with pytest.raises(ConfigError, match="class 'Idle' changes nothing"):
        unalike.train(digits, "logistic", own, rounds=1)
