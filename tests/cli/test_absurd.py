"""Sizes, names and nestings that nobody means: one sentence, before any work begins."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Unalike, mistake

SMALL = 'rounds = 1\nmodel = "logistic"\npartition = {name = "iid", clients = 3}\n'
COMPARE = SMALL + "[compare]\n"


def run(text: str, *more: str) -> Callable[[Path], list[str]]:
    def made(place: Path) -> list[str]:
        (place / "c.toml").write_text(text)
        return ["run", "c.toml", *more]

    return made


def compare(text: str) -> Callable[[Path], list[str]]:
    def made(place: Path) -> list[str]:
        (place / "c.toml").write_text(COMPARE + text)
        return ["compare", "c.toml", "--folder", "out", "--processes", "1"]

    return made


def fifo(place: Path) -> list[str]:
    os.mkfifo(place / "pipe")
    return ["run", "pipe"]


def large(place: Path) -> list[str]:
    with (place / "c.toml").open("wb") as f:
        f.truncate(11_000_000)
    return ["run", "c.toml"]


DIGITS, DEEP = "9" * 5000, "[" * 5000 + "]" * 5000
RATES = ", ".join(f"0.{i:04d}1" for i in range(1000))
CASES: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "a number of 5,000 digits": (run(f"rounds = {DIGITS}\n"), "is not valid TOML"),
    "lists in lists": (run(f"plus = {DEEP}\n"), "nested too deeply"),
    "tables in tables": (run("a = " + "{b = " * 3000 + "1" + "}" * 3000), "nested too deeply"),
    "a pipe": (fifo, "'pipe' is not a regular file"),
    "a device": (lambda place: ["run", "/dev/zero"], "is not a regular file"),
    "a huge file": (large, "is larger than any configuration"),
    "a folder's name of 300 letters": (
        run(SMALL, "--set", "run.folder=" + "x" * 300),
        "cannot be a folder: File name too long",
    ),
    "a folder's path of 5,000 letters": (
        run(SMALL, "--set", "run.folder=" + "x/" * 2500),
        "cannot be a folder: File name too long",
    ),
    "--set with a long number": (run(SMALL, "--set", f"rounds={DIGITS}"), "is too long a number"),
    "--set with a deep list": (run(SMALL, "--set", f"plus={DEEP}"), "nested too deeply"),
    "--set with two lines": (run(SMALL, "--set", "rounds=1\nseed=5"), "has a line break"),
    "--set with a raised two": (
        run('plus = ["fedprox"]\n' + SMALL, "--set", "plus.².lr=1"),
        "there is no element '²'",
    ),
    "--set with a far element": (
        run('plus = ["fedprox"]\n' + SMALL, "--set", f"plus.{DIGITS}.lr=1"),
        "there is no element",
    ),
    "a billion seeds": (
        compare('methods = ["fedavg"]\nseeds = 1000000000\n'),
        "'compare.seeds' is 1000000000; at most 10,000",
    ),
    "a million cells": (
        compare(f'methods = ["fedavg"]\nseeds = 1000\nsweep = {{"local.lr" = [{RATES}]}}\n'),
        "has 1,000,000 cells, more than 10,000",
    ),
    "a billion clients looked for": (
        lambda place: ["skew", "--target", "1.0", "--clients", "1000000000"],
        "--clients is 1000000000; at most 100,000",
    ),
    "endless advice": (
        lambda place: ["advise", "c.toml", "--minutes", "inf"],
        "Must be <= 100000",
    ),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", CASES)
def test_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unalike: Unalike
) -> None:
    monkeypatch.chdir(tmp_path)
    made, said = CASES[name]
    arguments = made(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    told = mistake(unalike, *arguments)
    assert said in told
    assert len(told) < 2 * len(" ".join(arguments)) + 400
    assert sorted(tmp_path.rglob("*")) == before
