"""The reference is complete and up to date: every name has an entry, every field is explained."""

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from unalike.algorithms.table import METHODS
from unalike.compare import presets
from unalike.compare.specification.spec import loads
from unalike.run.configuration.config import parse, tables
from unalike.run.execute import start

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/generate.py as a module."""
    monkeypatch.syspath_prepend(DOCS)
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_up_to_date(generate: ModuleType) -> None:
    stale = [
        str(path.relative_to(ROOT))
        for path, text in generate.generated()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert not stale, f"run python docs/generate.py: {', '.join(stale)}"


def test_every_table_of_results_is_computed(generate: ModuleType) -> None:
    """No number is typed: outside generated blocks there is no table but the lists of claims."""
    for page in sorted((DOCS / "results").glob("*.md")):
        typed = generate.BLOCK.sub("", page.read_text(encoding="utf-8"))
        rules = re.findall(r"^\|[ :|-]+\|$", typed, re.MULTILINE)
        assert bool(rules) == (page.name == "index.md"), page.name


@pytest.mark.parametrize("name", sorted({*METHODS, *tables()["topology"]} - {"star"}))
def test_every_method_has_a_page(name: str) -> None:
    text = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
    for heading in ("Equations and code", "What travels", "Settings", "Run it", "Logged numbers"):
        assert re.search(rf"^## {heading}", text, re.MULTILINE), f"'{heading}' is missing"
    assert f"<!-- generated: settings of {name} -->" in text
    assert f'name = "{name}"' in text, "there is no configuration that runs it"


@pytest.mark.parametrize(
    ("page", "section"),
    [
        ("ref-partitioners.md", "partition"),
        ("ref-partitioners.md", "shift"),
        ("ref-datasets.md", "data"),
        ("ref-models.md", "model"),
    ],
)
def test_every_name_has_an_entry(page: str, section: str) -> None:
    headings = re.findall(r"^#+ (\w+)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert set(tables()[section]) <= set(headings)


def test_every_preset_has_an_entry() -> None:
    text = (DOCS / "ref-presets.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == presets.names()
    told = (DOCS / "how-to-compare-methods.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in told for name in presets.names() if name != "quickstart")


def test_numbers_of_cells_are_those_of_the_presets() -> None:
    text = (DOCS / "how-to-compare-methods.md").read_text(encoding="utf-8")
    row = r"^\| (`[^|]+`) \| [^|]+ \| (\d+) \| [^|]+ \| [^|]+ \| (\d+) \|$"
    told = {
        name: (int(small), int(paper))
        for first, small, paper in re.findall(row, text, re.MULTILINE)
        for name in re.findall(r"`([\w-]+)`", first)
    }
    assert len(told) > 20
    assert told == {
        name: tuple(
            len(loads(presets.text(name), name, scale).cells) for scale in ("small", "paper")
        )
        for name in told
    }


@pytest.mark.parametrize(
    ("names", "page"),
    [(METHODS, "docs/methods/index.md"), (tables()["partition"], "README.md")],
    ids=["method", "partition"],
)
def test_a_table_lists_every_name(names: Mapping[str, Any], page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert all(f"| [`{name}`](" in text for name in names)


def fields(heading: str, some: str = "") -> set[str]:
    """The names in the first column of a table of the run folder's page, by what they mean."""
    text = (DOCS / "ref-run-folder.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", section, re.MULTILINE)
    cells = [cell for cell, meaning in rows if meaning.startswith(some)]
    return {name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)}


def assert_explained(heading: str, found: set[str]) -> None:
    """Every field is explained, and no other, but for those of some runs only."""
    assert fields(heading) - fields(heading, "only with") <= found <= fields(heading)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny run with everything that leaves a field behind."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    config = {
        "rounds": 2,
        "partition": {"name": "iid", "clients": 6},
        "split": {"new_clients": 1},
        "evaluation": {"every": 2, "target": 0.5},
        "run": {"folder": str(folder)},
    }
    return start(parse(config))


@pytest.mark.parametrize("file", ["environment.json", "skew.json", "summary.json"])
def test_every_field_of_a_file_is_explained(run: Path, file: str) -> None:
    assert_explained(file, set(json.loads((run / file).read_text())))


@pytest.mark.parametrize("file", ["rounds.jsonl", "timing.jsonl"])
def test_every_field_of_a_line_is_explained(run: Path, file: str) -> None:
    for line in (run / file).read_text().splitlines():
        assert_explained(file, set(json.loads(line)))


def test_every_metric_and_its_spread_is_explained(run: Path) -> None:
    names = set()
    for section, metrics in json.loads((run / "rounds.jsonl").read_text().splitlines()[-1])[
        "metrics"
    ].items():
        names |= {section, *metrics, *(f for spread in metrics.values() for f in spread)}
    for page in ("ref-run-folder.md", "explanation-evaluation.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        assert not {name for name in names if f"`{name}`" not in text}


def test_every_file_of_a_run_is_listed(run: Path) -> None:
    text = (DOCS / "ref-run-folder.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([\w./]+)` \| (?:at|after|every|while)", text, re.MULTILINE))
    written = {str(p.relative_to(run)) for p in run.rglob("*") if p.is_file()}
    # Files of several servers, of personal models, of a round before the last that was selected.
    assert listed - written <= {"servers.safetensors", "personal.safetensors", "selected/"}
    assert {f for f in written if not f.startswith("selected/")} <= listed
