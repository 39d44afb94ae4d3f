"""The layers of the source tree: who may import whom.

The order is that of the table in docs/explanation-source-map.md, from the bottom up. All imports
count, those for type checkers and those within functions too: what a module knows, it knows.
"""

import ast
import re
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "unalike"
PAGE = ROOT / "docs" / "explanation-source-map.md"


def _name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): path for path in SOURCE.rglob("*.py")}


def _layers() -> dict[str, int]:
    """Package or module at the top -> the row of the table that names it."""
    table = PAGE.read_text(encoding="utf-8").partition("| --- | --- |\n")[2].partition("\n\n")[0]
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()]
    return {name: i for i, row in enumerate(rows) for name in row}


LAYERS = _layers()


@cache
def imported(path: Path) -> set[str]:
    """The modules of the package that a file imports, wherever in it and for whatever reason."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {a.name.partition(".")[2] for a in node.names if a.name.startswith("unalike.")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "unalike":
            base = (node.module or "").partition(".")[2]
            names = {f"{base}.{a.name}".lstrip(".") for a in node.names}
            found |= {name if name in MODULES else base for name in names}
    return found & MODULES.keys()


@pytest.fixture(scope="module")
def graph() -> nx.DiGraph:
    """Who imports whom."""
    return nx.DiGraph((a, b) for a, path in MODULES.items() if a for b in imported(path) if b)


def test_every_package_has_a_layer() -> None:
    """And the page names nothing that is gone."""
    tops = {name.split(".")[0] for name in MODULES if name}
    assert tops == LAYERS.keys()


@pytest.mark.parametrize("name", sorted(n for n in MODULES if n))
def test_no_module_imports_from_above(name: str) -> None:
    mine = LAYERS[name.split(".")[0]]
    for other in imported(MODULES[name]):
        theirs = LAYERS[other.split(".")[0]]
        assert theirs <= mine, f"unalike.{name} imports unalike.{other}, which is above it"


def test_no_modules_import_each_other(graph: nx.DiGraph) -> None:
    assert list(nx.simple_cycles(graph, 6)) == []
    assert nx.is_directed_acyclic_graph(graph)


def test_no_packages_import_each_other(graph: nx.DiGraph) -> None:
    """Also not within one layer."""
    packages = nx.DiGraph(
        (a.split(".")[0], b.split(".")[0])
        for a, b in graph.edges
        if a.split(".")[0] != b.split(".")[0]
    )
    assert list(nx.simple_cycles(packages, 6)) == []
    assert nx.is_directed_acyclic_graph(packages)


@pytest.mark.parametrize("package", ["parts", "federation", "engine", "run", "deploy", "compare"])
def test_the_folders_of_a_package_have_an_order(package: str, graph: nx.DiGraph) -> None:
    """A module at its top counts as a folder of its own; the page lists folders in that order."""
    inside = [(a, b) for a, b in graph.edges if a.split(".")[0] == b.split(".")[0] == package]
    steps = {(a.split(".")[1], b.split(".")[1]) for a, b in inside if "." in a and "." in b}
    folders = nx.DiGraph((a, b) for a, b in steps if a != b)
    assert list(nx.simple_cycles(folders, 6)) == []
    assert nx.is_directed_acyclic_graph(folders)
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition(f"| folder of `{package}/` |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)/`", table, re.MULTILINE)
    there = {path.name for path in (SOURCE / package).iterdir() if (path / "__init__.py").is_file()}
    assert there
    assert set(listed) == there
    folders.add_nodes_from(there)
    for i, folder in enumerate(listed):
        assert not nx.descendants(folders, folder) & set(listed[i + 1 :]), folder


@pytest.mark.parametrize("layer", ["run", "engine", "compare", "cli", "report", "tune", "advise"])
def test_above_the_methods_nobody_knows_one_by_name(layer: str) -> None:
    """They are found in the table; what a method needs of a run, it says by the draft."""
    known = {"draft", "method", "table", "own", "buffers"}
    for name, path in MODULES.items():
        if name.split(".")[0] == layer:
            methods = {m for m in imported(path) if m.startswith("algorithms.")}
            assert methods <= {f"algorithms.{m}" for m in known}, name


def test_imports_are_found(tmp_path: Path) -> None:
    """In functions, for type checkers, of modules and of names."""
    file = tmp_path / "a.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nfrom unalike import tree\nimport unalike.rng\n"
        "if TYPE_CHECKING:\n    from unalike.recipe import Recipe\n"
        "def f():\n    from unalike.parts.optim import Sgd\n"
    )
    assert imported(file) == {"tree", "rng", "recipe", "parts.optim"}
