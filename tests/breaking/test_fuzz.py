"""Seeded random inputs: configurations, tables, archives and models of the user's own."""

import io
import json
import math
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from breaking.property import attempt

from unalike.errors import warn_once
from unalike.federation.readers.frames import read_table
from unalike.federation.readers.npz import read_npz
from unalike.run.configuration.config import DEFAULTS, LISTS, override, parse, read, tables
from unalike.run.configuration.sections import SECTIONS
from unalike.run.configuration.toml import as_toml
from unalike.run.execute import start
from unalike.run.experiment.build import experiment

pytestmark = [
    pytest.mark.breaking,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore"),
]
SEED = 10 * int(os.environ.get("UNALIKE_FUZZ", "0"))  # another number, other inputs
NUMBERS: list[Any] = [-1, 0, 1, 2, 3, 7, 0.0, 0.1, 0.5, -0.5, 1.5, 1e-300, 1e300]
TEXTS: list[Any] = ["", " ", "x", "auto", "²", "ß☃", "../..", "\x00", "a" * 300, "fedavg", "1e3"]
OTHERS: list[Any] = [True, False, [], [1], [0.5, "x"], [[]], {}, {"name": "x"}, {"name": 3}]
OTHERS += [math.nan, math.inf, -math.inf, 2**63, -(2**70), [{"name": "fedprox"}]]
VALUES = NUMBERS + TEXTS + OTHERS


def keys() -> list[list[str]]:
    """Every place of a configuration where something may stand."""
    choices, found = tables(), [["rounds"], ["seed"], ["nothing"], [""]]
    found += [[section, name] for section, cls in SECTIONS.items() for name in cls.model_fields]
    for section in (*DEFAULTS, *LISTS):
        found.append([section])
        for cls in choices[section].values():
            found += [[section, name] for name in cls.model_fields]
    return found


def configuration(draw: random.Random, places: list[list[str]]) -> dict[str, Any]:
    """A small configuration with some things set at random, where they belong or anywhere."""
    choices = tables()
    raw: dict[str, Any] = {
        "rounds": 1,
        "model": {"name": "logistic"},
        "partition": {"name": "iid", "clients": 3},
    }
    for section in draw.sample(list(DEFAULTS), draw.randrange(3)):
        if section != "data":
            raw[section] = {"name": draw.choice(list(choices[section]))}
    if draw.random() < 0.2:
        raw["plus"] = [draw.choice(list(choices["plus"])) for _ in range(draw.randrange(3))]
    if draw.random() < 0.3:
        _put(raw, draw.choice(places), draw.choice(VALUES))
    for _ in range(draw.randrange(3)):
        section = draw.choice([*SECTIONS, *(k for k in DEFAULTS if isinstance(raw.get(k), dict))])
        named = raw.get(section, {}).get("name")
        cls = SECTIONS.get(section) or choices[section].get(named if isinstance(named, str) else "")
        if cls is None:
            continue
        fields = [name for name in cls.model_fields if name not in ("folder", "to", "workers")]
        if fields:
            _put(raw, [section, draw.choice(fields)], draw.choice(NUMBERS * 3 + VALUES))
    return raw


def _put(raw: dict[str, Any], place: list[str], value: Any) -> None:
    *parents, last = place
    for name in parents:
        raw[name] = {"name": raw[name]} if isinstance(raw.get(name), str) else raw.get(name, {})
        if not isinstance(raw[name], dict):
            raw[name] = {}
        raw = raw[name]
    raw[last] = value


def test_configurations(tmp_path: Path) -> None:
    """What parses is the same after it was written down; what is built is built or refused."""
    draw, places = random.Random(SEED + 1), keys()
    for i in range(5000):
        raw = configuration(draw, places)
        config = attempt("configurations", lambda raw=raw: parse(raw), raw)
        if config is not None:
            again = parse(json.loads(json.dumps(config.resolved())))
            assert again.resolved() == config.resolved(), raw
            if i % 8 == 0 and config.data.name in ("digits", "breast_cancer"):
                attempt("built", lambda config=config: experiment(config), raw)


def test_texts(tmp_path: Path) -> None:
    """Files of TOML with bytes changed, and overrides of all kinds."""
    draw, places, path = random.Random(SEED + 2), keys(), tmp_path / "c.toml"
    for _ in range(1500):
        text = bytearray(as_toml({"rounds": 1, "method": {"name": "fedprox", "mu": 0.1}}).encode())
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(text))
            how = draw.randrange(3)
            if how == 0:
                text[at] = draw.randrange(256)
            elif how == 1:
                del text[at : at + draw.randrange(5)]
            else:
                text[at:at] = draw.choice(
                    [b"[", b"{", b"=", b"\n", b"'", b'"""', b"\xff", b"9" * 40]
                )
        path.write_bytes(text)
        raw = attempt("texts", lambda: read(path), bytes(text))
        item = ".".join(draw.choice(places)) + draw.choice(["=", " = ", "", "=="])
        item += str(draw.choice(VALUES))
        base = {"method": "fedavg", "plus": ["fedprox"]} if raw is None else raw
        attempt("overrides", lambda base=base, item=item: override(base, item), item)


CELLS = [
    *[
        "1",
        "2.5",
        "-3",
        "1e5",
        "1e39",
        "Infinity",
        "-inf",
        "NAN",
        "nan",
        "?",
        "NA",
        "x",
        "True",
        "'",
        "2020-01-01",
        "0x10",
        "1_000",
        "ß",
        "1;2",
    ]
]
CELLS += ["", " 7", '"a,b"', "12345678901234567890", "9" * 400, "\x00"]


def table(draw: random.Random) -> tuple[bytes, list[list[str]]]:
    """A CSV file, most of it well made, and its cells."""
    width, rows = draw.randrange(1, 6), draw.randrange(0, 60)
    kinds = [draw.choice(["number", "text", "odd"]) for _ in range(width)]
    cells = []
    for _ in range(rows):
        row = [
            draw.choice(CELLS)
            if kind == "odd" and draw.random() < 0.1
            else (f"{draw.gauss(0, 1):.3f}" if kind != "text" else draw.choice("abc"))
            for kind in kinds
        ]
        cells.append([*row, draw.choice("pq"), str(draw.randrange(3))])
    head = [f"f{j}" for j in range(width)] + ["y", "c"]
    if draw.random() < 0.1:
        head[draw.randrange(len(head))] = draw.choice(["y", "c", "", "f0", "ß"])
    separator = draw.choice([",", ",", ",", ";", "\t"])
    text = "\n".join(separator.join(row) for row in [head, *cells]).encode()
    if draw.random() < 0.2 and text:
        spoiled = bytearray(text)
        for _ in range(draw.randrange(1, 4)):
            spoiled[draw.randrange(len(spoiled))] = draw.randrange(256)
        return bytes(spoiled), []
    return text, cells


def test_tables(tmp_path: Path) -> None:
    """What is read has a row for each line, and the classes and clients that stand there."""
    draw, path = random.Random(SEED + 3), tmp_path / "t.csv"
    for _ in range(2000):
        raw, cells = table(draw)
        path.write_bytes(raw)
        warn_once.cache_clear()
        missing = draw.choice(["error", "impute"])
        read = attempt("tables", lambda m=missing: read_table(path, "y", "c", missing=m), raw)
        if read is None or not cells:
            continue
        assert len(read.x) == len(cells), raw
        assert [read.class_names[int(k)] for k in read.y] == [row[-2] for row in cells], raw
        assert [read.group_names[k] for k in read.groups] == [row[-1] for row in cells], raw
        assert missing == "impute" or bool(torch.isfinite(read.x).all()), raw


KINDS = ["f2", "f4", "f8", "g", "u1", "u2", "u8", "i4", "i8", "?", "c8", "S3", "U2", "M8[s]", ">f4"]


def archive(draw: random.Random, numbers: np.random.Generator) -> bytes:
    """An NPZ file of arrays that mostly fit together, and mostly is not damaged."""
    rows = draw.choice([0, 1, 5, 40, 40, 40])
    shape = (rows, *draw.choice([(), (3,), (4, 4), (1, 4, 4), (4, 4, 3), (0,)]))
    x = (100 * numbers.random(shape)).astype(draw.choice(KINDS[:11] + KINDS[14:]))
    y = (5 * numbers.random(draw.choice([rows, rows, rows + 1]))).astype("i8")
    y = y.astype(draw.choice(KINDS[:14]))
    names = draw.choice([("x", "y"), ("x", "y"), ("x_train", "y_train"), ("X", "y"), ("a", "b")])
    raw = io.BytesIO()
    draw.choice([np.savez, np.savez_compressed])(raw, **dict(zip(names, (x, y), strict=True)))
    data = bytearray(raw.getvalue())
    if draw.random() < 0.5:
        for _ in range(draw.randrange(1, 5)):
            data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def test_archives(tmp_path: Path) -> None:
    draw, path = random.Random(SEED + 4), tmp_path / "a.npz"
    numbers = np.random.default_rng(SEED + 4)
    for i in range(2000):
        path.write_bytes(archive(draw, numbers))
        read = attempt("archives", lambda: read_npz(path), i)
        if read is not None:
            assert len(read.x) == len(read.y)
            assert bool(torch.isfinite(read.x).all())


LAYERS = """nn.Linear(64, 64)
nn.ReLU()
nn.Tanh()
nn.Dropout(0.3)
nn.LayerNorm(64)
nn.Identity()
nn.BatchNorm1d(64)
nn.Linear(64, 63)
nn.Flatten()
nn.Softmax(1)
nn.AlphaDropout(0.2)
nn.Unflatten(1, (1, 8, 8))
nn.Conv2d(1, 1, 3, padding=1)
nn.GRU(64, 64)
nn.Embedding(3, 3)
nn.Linear(64, 64).double()
nn.Linear(64, 64).requires_grad_(False)
nn.InstanceNorm1d(64)""".splitlines()
TRICKS = """pass
pass
pass
x = x * float('nan')
x.sum().item()
x = x + torch.randn_like(x)
if x.sum() > 0: x = -x
raise ValueError('mine')
sys.exit(0)
return None
return x[0]
x = x.detach()
x = x.half()
x = x.long()
x = x + np.random.rand()
return {'a': x}
N.append(1); 1 / (len(N) < 10)
x = x.numpy()
x = x[:1]""".splitlines()
HEAD = """import sys
import numpy as np
import torch
from torch import nn

N = []

class Model(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
"""


def network(draw: random.Random) -> str:
    layers = ", ".join(draw.choice(LAYERS) for _ in range(draw.randrange(4)))
    return (
        f"{HEAD}        self.body = nn.Sequential(nn.Flatten(), {layers})\n"
        f"        self.last = {draw.choice(['nn.Linear(64, classes)'] * 4 + ['nn.Identity()'])}\n"
        f"    def forward(self, x):\n        {draw.choice(TRICKS)}\n"
        "        return self.last(self.body(x))\n"
    )


def test_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trains to finite numbers, twice the same, or is refused, or blamed by its own line."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(SEED + 5)
    for i in range(400):
        code = network(draw)
        (tmp_path / "m.py").write_text(code)
        raw = {
            "rounds": 1,
            "partition": {"name": "iid", "clients": 3},
            "local": {"epochs": 0.2},
            "model": {"name": "module", "file": "m.py"},
            "engine": {"kind": draw.choice(["auto", "auto", "sequential", "vectorized"])},
        }
        ends = []
        for again in ("a", "b"):
            config = parse({**raw, "run": {"folder": f"{i}{again}"}})
            folder = attempt("models", lambda config=config: start(config), code)
            ends.append(None if folder is None else (folder / "rounds.jsonl").read_bytes())
        assert ends[0] == ends[1], code
