"""Run folders that were changed, damaged, moved, or whose data and code are no longer the same."""

import os
import random
import shutil
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from breaking.corpus import EITHER, REFUSED, WORKS, Case
from breaking.server import Limits, Outcome, call

KIND = "folder"
SETTINGS = """rounds = 6
method = "scaffold"
model = "logistic"
partition = {name = "dirichlet", clients = 4}
run = {folder = "out", checkpoint_every = 2}
"""
STATE = "checkpoint/state.safetensors"
NOT_REPEATED = ("timing.jsonl", ".lock", "manifest.json", "environment.json", "config.json")
PLACE = TemporaryDirectory(prefix="breaking-")
DIES = ("breaking.hooks:die_after", [5])
Change = Callable[[Path], object]


@cache
def made(stopped: bool) -> Path:
    """A whole run, or one that was killed in its fifth round with two checkpoints."""
    place = Path(PLACE.name) / ("stopped" if stopped else "whole")
    place.mkdir()
    (place / "c.toml").write_text(SETTINGS)
    outcome = call(["run", "c.toml"], place, DIES if stopped else None)
    assert outcome.code == (-9 if stopped else 0), outcome.err
    return place / "out"


def results(folder: Path) -> dict[str, bytes]:
    """All that a run comes to."""
    found = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if name not in NOT_REPEATED and not name.startswith(("checkpoint/", "."))
    }


def same(place: Path, outcome: Outcome) -> None:
    """Whatever was done to the folder, a run that finishes comes to the same bytes."""
    if outcome.code == 0:
        assert results(place / "out") == results(made(False))
        verified = call(["verify", "out"], place)
        assert verified.code == 0, verified.err


def case(
    name: str,
    want: str,
    change: Change,
    cause: str = "",
    whole: bool = False,
    arguments: list[str] | None = None,
    check: Callable[[Path, Outcome], None] | None = same,
    **more: Any,
) -> Case:
    def prepare(place: Path) -> None:
        shutil.copytree(made(not whole), place / "out")
        change(place / "out")

    return Case(KIND, name, want, arguments or ["resume", "out"], {}, cause, prepare, check, **more)


def put(name: str, content: str | bytes) -> Change:
    raw = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(raw)


def more(name: str, content: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes() + content)


def edited(name: str, old: str, new: str) -> Change:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return change


def cut(name: str, to: int) -> Change:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:to])


def gone(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def folder_instead(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()

    return change


def link_instead(folder: Path) -> None:
    (folder / STATE).unlink()
    (folder / STATE).symlink_to("nowhere")


def flipped(at: int) -> Change:
    def change(folder: Path) -> None:
        data = bytearray((folder / STATE).read_bytes())
        data[at] ^= 0x40
        (folder / STATE).write_bytes(data)

    return change


def rewritten(edit: Callable[[dict[str, str], dict[str, Any]], object]) -> Change:
    """A checkpoint with other notes or tensors, in a file that is well made."""

    def change(folder: Path) -> None:
        from safetensors import safe_open
        from safetensors.torch import save_file

        with safe_open(folder / STATE, "pt") as f:
            notes, held = f.metadata(), {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118
        edit(notes, held)
        save_file(held, folder / STATE, notes)

    return change


def first(held: dict[str, Any]) -> str:
    return min(held)


def _no_client(notes: dict[str, str], held: dict[str, Any]) -> None:
    mine = [name for name in held if name.startswith("kept/1/")]
    for name in mine:
        del held[name]


def _one(name: str) -> Callable[[dict[str, str], dict[str, Any]], None]:
    def edit(notes: dict[str, str], held: dict[str, Any]) -> None:
        import torch

        held[name] = torch.ones(3)

    return edit


def _future(folder: Path) -> None:
    for path in folder.iterdir():
        os.utime(path, (4e9, 4e9))


UNPROVEN = "unproven checkpoint"
CHECKPOINTS = [
    case("as it was left", WORKS, lambda folder: None),
    case("finished", WORKS, lambda folder: None, whole=True),
    case("a bit flipped", EITHER, flipped(-20), UNPROVEN),
    case("a bit flipped in the middle", EITHER, flipped(-3000), UNPROVEN),
    case("a bit flipped, finished", REFUSED, flipped(-20), UNPROVEN, True),
    case("another bit flipped, finished", REFUSED, flipped(-3000), UNPROVEN, True),
    case("cut short", EITHER, cut(STATE, -100)),
    case("empty", EITHER, put(STATE, b"")),
    case("noise", EITHER, put(STATE, random.Random(3).randbytes(500))),
    case("a head of 2^60 bytes", EITHER, put(STATE, struct.pack("<Q", 2**60) + b"{}")),
    case(
        "a head of 120 MB",
        EITHER,
        lambda folder: put(STATE, struct.pack("<Q", 120_000_000) + b"{" + b" " * 119_999_998)(
            folder
        ),
    ),
    case("a head of brackets", EITHER, put(STATE, struct.pack("<Q", 200000) + b"[" * 200000)),
    case("a folder instead", EITHER, folder_instead(STATE)),
    case("gone", WORKS, gone(STATE)),
    case("a link to nothing", EITHER, link_instead),
    *(
        case(f"round {value}", EITHER, rewritten(lambda n, h, v=value: n.update(round=v)), UNPROVEN)
        for value in ("2", "999", "-3")
    ),
    case("round of text", EITHER, rewritten(lambda n, h: n.update(round="x"))),
    case(
        "not a number",
        EITHER,
        rewritten(lambda n, h: h.update({first(h): h[first(h)] * float("nan")})),
        UNPROVEN,
    ),
    case("a tensor missing", EITHER, rewritten(lambda n, h: h.pop(first(h)))),
    case("a tensor more", EITHER, rewritten(_one("statefoo"))),
    case("a client too many", EITHER, rewritten(_one("kept/99/x"))),
    case("a client of text", EITHER, rewritten(_one("kept/abc/x"))),
    case("doubles", EITHER, rewritten(lambda n, h: h.update({first(h): h[first(h)].double()}))),
    case("a client missing", EITHER, rewritten(_no_client), UNPROVEN),
    case(
        "a log of negative length",
        EITHER,
        rewritten(lambda n, h: n.update({"rounds.jsonl:size": "-1"})),
    ),
    case("no notes", EITHER, rewritten(lambda n, h: n.clear())),
]

RECORDS = [
    case("rounds edited", REFUSED, edited("rounds.jsonl", '"round": 1', '"round": 7')),
    case("rounds cut short", REFUSED, cut("rounds.jsonl", 50)),
    case("rounds gone", REFUSED, gone("rounds.jsonl")),
    case("rounds a folder", REFUSED, folder_instead("rounds.jsonl")),
    case("clients gone", REFUSED, gone("clients.jsonl")),
    case(
        "noise after the checkpoint",
        WORKS,
        more("rounds.jsonl", b"\xff\x00garbage"),
    ),
    case("times of noise", WORKS, put("timing.jsonl", b'\xff{"round": x\n')),
    case(
        "times of 5,000 digits",
        WORKS,
        put("timing.jsonl", f'{{"round": {"9" * 5000}, "s": 1}}\n'),
        "absurd text",
    ),
    case("skew damaged", WORKS, put("skew.json", "{")),
    case("environment gone", EITHER, gone("environment.json"), "half begun"),
    case("learning rate edited", REFUSED, edited("config.json", "0.05", "0.06")),
    case("a line more in the configuration", EITHER, edited("config.json", "\n", "\n\n")),
    case("configuration a list", REFUSED, put("config.json", "[]")),
    case("configuration empty", REFUSED, put("config.json", "{}")),
    case("configuration not a number", REFUSED, edited("config.json", "0.05", "NaN")),
    case("configuration of brackets", REFUSED, put("config.json", "[" * 200000), "absurd text"),
    case(
        "configuration of 5,000 digits",
        REFUSED,
        edited("config.json", "0.05", "9" * 5000),
        "absurd text",
    ),
    case("configuration of bytes", REFUSED, put("config.json", b"\xff\xfe")),
    case("configuration a folder", REFUSED, folder_instead("config.json")),
    case("configuration of nothing", REFUSED, put("config.json", "null")),
    case("configuration of two rounds", REFUSED, put("config.json", '{"rounds":1,"rounds":2}')),
    case("summary damaged, finished", WORKS, put("summary.json", "{"), whole=True),
    case("model damaged, finished", WORKS, put("model.safetensors", b"x"), "finished run", True),
    case("a lock that is a folder", REFUSED, folder_instead(".lock")),
    case("a leftover that is a folder", REFUSED, folder_instead(".skew.json.tmp")),
    case("times of the future", WORKS, _future),
    case(
        "moved",
        WORKS,
        lambda folder: folder.rename(folder.with_name("moved")),
        arguments=["resume", "moved"],
        check=lambda place, outcome: same_rounds(place / "moved"),
    ),
    case("few files at a time", EITHER, lambda folder: None, limits=Limits(descriptors=24)),
]


def same_rounds(folder: Path) -> None:
    assert (folder / "rounds.jsonl").read_bytes() == (made(False) / "rounds.jsonl").read_bytes()


DEEP = "[" * 200000
REPORTED = [
    ("a round of a number", "rounds.jsonl", "5\n", "damaged records"),
    ("a round of nothing", "rounds.jsonl", "{}\n", "damaged records"),
    ("rounds of lists", "rounds.jsonl", "[]\n{}\n", "damaged records"),
    (
        "rounds not a number",
        "rounds.jsonl",
        '{"round":1,"metrics":{"local":{"accuracy":NaN}}}\n',
        "",
    ),
    ("rounds of brackets", "rounds.jsonl", f"{DEEP}\n{{}}\n", "damaged records"),
    ("a summary of a list", "summary.json", "[]", "damaged records"),
    ("a summary of nothing", "summary.json", "{}", "damaged records"),
    ("a summary of null", "summary.json", "null", ""),
    ("a skew of a list", "skew.json", "[1]", "damaged records"),
    ("a skew of nothing", "skew.json", "{}", ""),
    ("a skew of null", "skew.json", "null", "damaged records"),
    ("times of nothing", "timing.jsonl", "{}\n", "damaged records"),
    ("an environment of a list", "environment.json", "[]", ""),
    ("an environment of a number", "environment.json", "[1]", "damaged records"),
    ("clients damaged", "clients.jsonl", '{"round": 6, }\n', ""),
    ("clients of a number", "clients.jsonl", '{"round": 6,"x":1}\n', ""),
    ("a method of a number", "config.json", '{"method":1}', "damaged records"),
    ("a method alone", "config.json", '{"method":{"name":"x"}}', "damaged records"),
    ("a configuration of brackets", "config.json", DEEP, "damaged records"),
]


def _wrong_type(folder: Path) -> None:
    (folder / "summary.json").unlink()
    edited("config.json", '"every": "auto"', '"every": "q"')(folder)


REPORTS = [
    *(
        case(f"report: {name}", EITHER, put(file, text), cause, True, ["report", "out"], None)
        for name, file, text, cause in REPORTED
    ),
    case(
        "report: a wrong type",
        EITHER,
        _wrong_type,
        "damaged records",
        True,
        ["report", "out"],
        None,
    ),
    case(
        "report: into a pipe",
        REFUSED,
        lambda folder: os.mkfifo(folder / "pipe"),
        whole=True,
        arguments=["report", "out", "--output", "out/pipe"],
        check=lambda place, outcome: still_a_pipe(place / "out" / "pipe"),
    ),
]


def still_a_pipe(path: Path) -> None:
    assert path.is_fifo()


CASES = CHECKPOINTS + RECORDS + REPORTS
