"""Own code fails like own code: its own lines, one sentence, and a run that can be continued."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Unalike, mistake

from unalike.own_code import staying

HEAD = "from __future__ import annotations\nimport os, sys\nimport torch\nfrom torch import nn\n"
NET = """
CALLS = [0]

class Model(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.layer = nn.Linear(64, classes)

    def forward(self, x):
        CALLS[0] += 1
        {}
        return self.layer(x.flatten(1))
"""
RULE = """
from dataclasses import dataclass, replace
from typing import ClassVar
from unalike.extend import Memoryless, Method, Weighed

@dataclass(frozen=True)
class Rule(Memoryless):
    needs: ClassVar[frozenset] = frozenset({{'loss'}})

    def weights(self, state, cohort):
        p = cohort.share
        {}

class Mine(Method):
    def change(self, draft):
        return replace(draft, weights=Rule())
"""
METHOD = """
from dataclasses import replace
from unalike.extend import Method

class Mine(Method):
    {}
"""
SETTINGS = """
rounds = 6
partition = {{name = "iid", clients = 3}}
{}
run = {{folder = "out", checkpoint_every = 1}}
engine = {{kind = "{}", workers = 1}}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def model(place: Path, code: str, engine: str = "sequential") -> None:
    (place / "m.py").write_text(HEAD + code)
    (place / "c.toml").write_text(
        SETTINGS.format('model = {name = "module", file = "m.py"}', engine)
    )


def method(place: Path, code: str) -> None:
    (place / "m.py").write_text(code)
    own = 'model = "logistic"\nmethod = {name = "own", file = "m.py", attribute = "Mine"}'
    (place / "c.toml").write_text(SETTINGS.format(own, "vectorized"))


class TestBeforeTheRun:
    """One sentence, exit code 2, and no folder."""

    codes: dict[str, tuple[str, str]] = {
        "sys.exit(0) at import": ("sys.exit(0)\n", "'m.py' fails when it is run: SystemExit: 0"),
        "os._exit at import": ("os._exit(0)\n", "'m.py' fails when it is run: SystemExit: 0"),
        "os._exit in forward": (NET.format("os._exit(0)"), "SystemExit: 0 (line "),
        "BaseException at import": ("raise BaseException('x')\n", "BaseException: x"),
        "sys.exit in forward": (NET.format("sys.exit(3)"), "SystemExit: 3 (line "),
        "sys.exit in the constructor": (
            "def Model(shape, classes): sys.exit(4)\n",
            "SystemExit: 4 (line ",
        ),
    }
    methods: dict[str, tuple[str, str]] = {
        "change raises": (
            METHOD.format("def change(self, draft): raise KeyError('q')"),
            "your own method fails: KeyError: 'q' (line ",
        ),
        "change returns nothing": (
            METHOD.format("def change(self, draft): return None"),
            "must return the draft it was given, changed by dataclasses.replace, got NoneType",
        ),
        "change sets no rule": (
            METHOD.format("def change(self, draft): return replace(draft, weights=3)"),
            "have no 'weights'",
        ),
        "change sets an unknown field": (
            METHOD.format("def change(self, draft): return replace(draft, nothing=3)"),
            "your own method fails: TypeError",
        ),
        "the constructor raises": (
            METHOD.format(
                "def __init__(self, **more): raise RuntimeError('x')\n    change = lambda *_: None"
            ),
            "'Mine' of 'm.py' fails: RuntimeError: x (line ",
        ),
    }

    @pytest.mark.parametrize("name", [*codes, *methods])
    def test_is_one_sentence(self, name: str, place: Path, unalike: Unalike) -> None:
        make: Callable[[Path, str], None] = model if name in self.codes else method
        code, said = {**self.codes, **self.methods}[name]
        make(place, code)
        assert said in mistake(unalike, "run", "c.toml")
        assert not (place / "out").exists()


WEIGHTS = {
    "nothing": ("return None", "must return Weighed(p, state), got None"),
    "no state": ("return p", "must return Weighed(p, state), got tensor"),
    "a list": ("return [1.0], state", "one floating-point weight to each of 3 clients, got [1.0]"),
    "one for three": ("return p[:1], state", "of shape (1,)"),
    "two axes": ("return p[:, None], state", "of shape (3, 1)"),
    "whole numbers": ("return p.long(), state", "got torch.int64"),
    "complex": ("return p.to(torch.complex64), state", "got torch.complex64"),
    "not a number": ("return p * float('nan'), state", "must be finite and not negative"),
    "infinite": ("return p / 0, state", "must be finite and not negative"),
    "negative": ("return -p, state", "must be finite and not negative"),
    "all zero": ("return p * 0, state", "sum to 0; divide them by their sum"),
    "five in all": ("return p * 5, state", "sum to 5; divide them by their sum"),
    "enormous": ("return p * 1e30, state", "sum to 1e+30; divide them by their sum"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_are_none(name: str, place: Path, unalike: Unalike) -> None:
    body, said = WEIGHTS[name]
    method(place, "import torch\n" + RULE.format(body))
    assert said in mistake(unalike, "run", "c.toml")


def test_weights_that_may_hold_the_step(place: Path, unalike: Unalike) -> None:
    code = RULE.format("return p * 0.5, state")
    method(place, code.replace("    needs:", "    scaled: ClassVar[bool] = True\n    needs:"))
    assert unalike("run", "c.toml")[0] == 0


# A traced step is Python in the first round alone.
STEP_BY_STEP = ("--set", "engine.traced=false")


class TestInTheRun:
    """The user's own lines, one sentence, exit code 1."""

    def test_a_later_round(self, place: Path, unalike: Unalike) -> None:
        model(place, NET.format("if CALLS[0] > 120: raise RuntimeError('boom')"))
        code, _, said = unalike("run", "c.toml", *STEP_BY_STEP)
        assert code == 1
        assert "if CALLS[0] > 120: raise RuntimeError('boom')" in said  # the line itself
        assert "torch/nn" not in said  # and nobody else's
        last = said.splitlines()[-1]
        assert last.startswith("error: your own code failed in ")
        assert "RuntimeError: boom (line 15 of 'm.py')" in last
        assert "continue with: unalike resume out --changed-code" in last
        model(place, NET.format("pass"))
        assert unalike("resume", "out", "--changed-code")[0] == 0
        assert (place / "out" / "summary.json").exists()

    def test_the_first_round_leaves_nothing_behind(self, place: Path, unalike: Unalike) -> None:
        method(place, RULE.format("raise ValueError('w')"))
        code, _, said = unalike("run", "c.toml")
        assert (code, said.splitlines()[-1]) == (
            1,
            "error: your own code failed in round 1: ValueError: w (line 12 of 'm.py').",
        )
        assert not (place / "out").exists()

    def test_a_statistic_that_nobody_reports(self, place: Path, unalike: Unalike) -> None:
        method(place, RULE.format("return p * cohort.stats['nope'], state"))
        code, _, said = unalike("run", "c.toml")
        assert code == 1
        assert "KeyError: 'nope'" in said.splitlines()[-1]

    @pytest.mark.parametrize("line", ["sys.exit(0)", "os._exit(0)"])
    def test_leaving(self, line: str, place: Path, unalike: Unalike) -> None:
        model(place, NET.format(f"if CALLS[0] > 120: {line}"))
        code, _, said = unalike("run", "c.toml", *STEP_BY_STEP)
        assert code == 1
        assert "SystemExit: 0" in said
        assert os._exit.__module__ == "posix"  # as it was


class TestWhatWorks:
    def test_dataclasses_with_late_annotations(self, place: Path, unalike: Unalike) -> None:
        code = "from dataclasses import dataclass\n@dataclass\nclass Width:\n    width: int = 8\n"
        model(place, code + NET.format("pass"))
        assert unalike("run", "c.toml")[0] == 0

    def test_a_file_called_like_a_library(self, place: Path, unalike: Unalike) -> None:
        model(place, NET.format("pass"))
        (place / "m.py").rename(place / "random.py")
        text = (place / "c.toml").read_text().replace("m.py", "random.py")
        (place / "c.toml").write_text(text)
        assert unalike("run", "c.toml")[0] == 0

    def test_a_module_that_changes_the_folder(self, place: Path, unalike: Unalike) -> None:
        model(place, "os.chdir('/')\n" + NET.format("pass"))
        assert unalike("run", "c.toml")[0] == 0
        assert (place / "out" / "summary.json").exists()

    @pytest.mark.parametrize("line", ["x.sum().item()", "x = x * 1 if x.sum() > 0 else x"])
    def test_one_client_at_a_time_where_it_cannot_be_batched(
        self, line: str, place: Path, unalike: Unalike
    ) -> None:
        model(place, NET.format(line), "auto")
        code, shown, _ = unalike("run", "c.toml")
        assert code == 0
        assert "sequential on cpu (the model cannot be vectorized" in " ".join(shown.split())

    def test_an_empty_parameter(self, place: Path, unalike: Unalike) -> None:
        none = "self.none = nn.Parameter(torch.zeros(0))\n        self.layer"
        code = NET.format("pass").replace("self.layer", none, 1)
        model(place, code)
        assert unalike("run", "c.toml")[0] == 0


def test_threads_that_leave_in_another_order_leave_the_process_as_it_was() -> None:
    """Runs side by side: the first to begin need not be the last to end."""
    before = os._exit
    one, two = staying(), staying()
    one.__enter__()
    two.__enter__()
    assert os._exit is not before
    one.__exit__(None, None, None)
    assert os._exit is not before, "the second one may still run code of the user's"
    two.__exit__(None, None, None)
    assert os._exit is before
