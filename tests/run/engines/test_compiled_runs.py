"""Which runs are compiled, what they say about it, and that they can be resumed to the byte."""

from pathlib import Path
from typing import Any

import pytest
from interrupted import SMALL, assert_same_run, raw, whole

from unalike.engine.compiled import traced as tracing
from unalike.native import build
from unalike.native.program import Native
from unalike.run.configuration.config import parse
from unalike.run.engines import choice
from unalike.run.execute import Interrupted, Silent, resume, start
from unalike.run.experiment.build import experiment

NEEDS = pytest.mark.skipif(build.compiler() is None, reason="needs a C++ compiler")
LONG = {"rounds": 100_000}


def chosen(changes: dict[str, Any]) -> tuple[bool, str]:
    """(whether steps are compiled, why clients are computed as they are)."""
    made = experiment(parse({**SMALL, "faults": {}, **changes}))
    traced = made.simulation.traced
    return traced is not None and traced.native, made.engine


@NEEDS
def test_long_runs_of_dense_networks_are_compiled() -> None:
    """By the configuration: short ones would not get back the seconds that compiling takes."""
    native, why = chosen(LONG)
    assert native
    assert "compiled where possible" in why
    assert not chosen({"rounds": 60})[0]
    assert not chosen({**LONG, "engine": {"compiled": False}})[0]
    assert not chosen({**LONG, "engine": {"traced": False}})[0]
    assert not chosen({**LONG, "model": {"name": "mcmahan_cnn"}})[0]


def test_a_machine_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "compiler", lambda: None)
    native, why = chosen(LONG)
    assert not native
    assert "there is no C++ compiler" in why


class Stopping(Silent):
    """Ends a run after some rounds, as a person would."""

    def round(self, record: dict[str, Any]) -> None:
        if record["round"] == 3:
            raise KeyboardInterrupt


@NEEDS
@pytest.mark.parametrize("changes", [{}, {"method": {"name": "superfed_mm", "start": 0.3}}])
def test_compiled_runs_go_on_to_the_byte(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "ENOUGH", 1)
    monkeypatch.setattr(choice, "MANY", 1)
    monkeypatch.setattr(tracing, "PROGRAMS", tracing.Programs())
    one, other = tmp_path / "one", tmp_path / "other"
    whole(one, changes)
    assert any(isinstance(p.run, Native) for p in tracing.PROGRAMS._found.values())  # type: ignore[union-attr]
    with pytest.raises(Interrupted):
        start(parse(raw(other, changes)), Stopping())
    monkeypatch.setattr(tracing, "PROGRAMS", tracing.Programs())  # as another process would
    resume(other)
    assert_same_run(one, other)
