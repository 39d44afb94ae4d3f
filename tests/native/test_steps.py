"""Compiled steps: the numbers of every method, what they cost in counts, and what happens without.

In double precision, so that rounding cannot hide behind a tolerance. What is counted is what a step
of a perceptron needs: seconds depend on the machine.
"""

import re
import warnings
from typing import Any

import pytest
import torch
from federations import CLASSES, composed, distance, network_task, play, same, sampled
from test_parity import SPECIAL, TRIED
from torch import nn

from unalike.engine.compiled import traced as tracing
from unalike.errors import RunWarning
from unalike.native import build
from unalike.native.program import Native
from unalike.network import Network
from unalike.tasks import MultiClass

NEEDS = pytest.mark.skipif(build.compiler() is None, reason="needs a C++ compiler")
# Turning images, sorting and a softmax along the first axis are not written in C++.
TRACED_ALONE = {"fedaug", "fedevg", "fedcgan"}
NORMED = {"fedbn"}  # wants layers that are not written in C++ either


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every program that is compiled from here on; none was made before."""
    found: list[str] = []

    def kept(text: str) -> Any:
        found.append(text)
        return build.built(text)

    monkeypatch.setattr(tracing, "PROGRAMS", tracing.Programs())
    monkeypatch.setattr(tracing, "built", kept)
    return found


@NEEDS
@pytest.mark.parametrize("name", sorted(set(TRIED) - NORMED))
def test_every_method_computes_the_same(name: str, texts: list[str]) -> None:
    """As one client after the other, step by step."""
    settings, parts = SPECIAL.get(name, ({}, sampled(0.5, 1.5)))
    task, data = network_task("dense", torch.float64)
    recipe = composed(task, data, (name, settings), **parts)
    if name == "pooled":
        data = data._replace(rows=type(data.rows)(data.rows.order, data.rows.start[[0, -1]]))
    plain = play(recipe, data, 2, engine="sequential", batch_size=16)
    fast = play(recipe, data, 2, traced=True, native=True, batch_size=16, workers=2)
    assert bool(texts) or name in TRACED_ALONE
    # Adam divides by lengths that are nearly nothing, which makes rounding longer.
    close = 1e-8 if name == "fedcvae" else 1e-9
    assert distance(plain.states[-1].stack, fast.states[-1].stack) < close
    assert distance(plain.states[-1].mixing, fast.states[-1].mixing) < close


@NEEDS
def test_it_can_be_repeated_bit_for_bit(texts: list[str]) -> None:
    """By any number of workers, and by a process that finds its programs compiled."""
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", **sampled(0.5, 1.5))

    def played(workers: int) -> Any:
        tracing.PROGRAMS = tracing.Programs()
        return play(recipe, data, 3, traced=True, native=True, workers=workers).x

    assert same(played(1), played(2))
    assert len(texts) == 2 * len(set(texts))


@NEEDS
def test_a_step_passes_over_its_weights_once(texts: list[str]) -> None:
    """Each is written by the product that is its gradient, and no gradient is ever stored."""
    task, data = network_task("dense")
    task = MultiClass(Network(nn.Sequential(nn.Flatten(), nn.Linear(16, 50), nn.Linear(50, 3))))
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    played = play(recipe, data, 1, traced=True, native=True, batch_size=4)
    (text,) = set(texts)
    step = text.partition("s < times[j]")[2]
    assert len(re.findall(r"product<float, (?:true|false)", step)) == 5  # 2 + 1 + 2: all there are
    assert len(re.findall(r"product<float, true, 50, 16, 4,", step)) == 1  # weights, by one of them
    assert len(re.findall(r"for \(int64_t", step)) <= 16
    (program,) = tracing.PROGRAMS._found.values()
    assert isinstance(program, tracing.Program)
    assert isinstance(program.run, Native)
    assert program.run.bytes < 4 * 50 * 16  # less than one gradient
    assert played.simulation.traced is not None
    assert not played.simulation.traced.refusals


def test_without_a_compiler_steps_are_traced(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a warning, and with the numbers of a run that asked for nothing else."""
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    monkeypatch.setattr(build, "compiler", lambda: None)
    with pytest.warns(RunWarning, match="no C\\+\\+ compiler"):
        found = play(recipe, data, 2, traced=True, native=True).x
    assert same(found, play(recipe, data, 2, traced=True).x)


@NEEDS
def test_a_compiler_that_fails_is_no_obstacle(
    texts: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "FLAGS", ("-no-such-flag",))
    build._this_machine.cache_clear()
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    with pytest.warns(RunWarning, match="the C\\+\\+ compiler said"):
        found = play(recipe, data, 2, traced=True, native=True).x
    build._this_machine.cache_clear()
    assert same(found, play(recipe, data, 2, traced=True).x)
    assert not list(tmp_path.rglob("*.so"))


@NEEDS
def test_what_cannot_be_written_is_traced_alone(texts: list[str]) -> None:
    """Silently: it is as fast as it was."""
    task, data = network_task("conv")
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = play(recipe, data, 2, traced=True, native=True).x
    assert same(found, play(recipe, data, 2, traced=True).x)
    assert not texts


@NEEDS
def test_compiled_once_on_a_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runs, run = list[str](), build.subprocess.run

    def counted(command: list[str], **more: Any) -> Any:
        runs.append(command[-1])
        return run(command, **more)

    build._this_machine()
    monkeypatch.setattr(build.subprocess, "run", counted)
    text = '#include "step.hpp"\nextern "C" int run() { return 7; }\n'
    for _ in range(2):
        build.built(text)
    assert len(runs) == 1


@NEEDS
def test_a_label_that_is_no_class_is_refused(texts: list[str]) -> None:
    """It would be a place in memory that belongs to somebody else."""
    task, data = network_task("dense")
    recipe = composed(task, data, "fedavg", **sampled(1.0))
    play(recipe, data, 1, traced=True, native=True)
    data.examples.y[-1] = CLASSES + 5
    with pytest.raises(IndexError, match="label"):
        play(recipe, data, 1, traced=True, native=True)


@NEEDS
def test_a_damaged_program_is_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "first"))
    text = '#include "step.hpp"\nextern "C" int run() { return 9; }\n'
    build.built(text)
    (found,) = (tmp_path / "first").rglob("*.so")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "second"))
    place = build.folder()
    place.mkdir(parents=True)
    (place / found.name).write_bytes(b"no program")
    assert build.built(text)(None, None, None, 0, None) == 9
