"""The notebooks of the documentation run, and their pages show them as they are."""

import ast
import importlib.util
import json
import os
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from command_line import Unalike

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    """docs/notebooks.py as a module."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["compare-images", "hospital-table", "own-method"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_pages_show_them_as_they_are(path: Path, writer: ModuleType) -> None:
    page = path.with_suffix(".md").read_text(encoding="utf-8")
    assert page == writer.page(read(path), path.stem), "run python docs/notebooks.py"


def cell(source: str, names: dict[str, Any], unalike: Unalike) -> Any:
    """What a cell shows at its end, without a kernel."""
    first, _, rest = source.partition("\n")
    if first.startswith("%%writefile "):
        Path(first.split()[1]).write_text(rest)
        return None
    if first.startswith("!unalike "):
        assert unalike(*shlex.split(first)[1:])[0] == 0
        return None
    code = ast.parse(source)
    last = code.body.pop() if isinstance(code.body[-1], ast.Expr) else None
    exec(compile(code, "<cell>", "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def kinds(output: dict[str, Any]) -> str:
    return "html" if "text/html" in output.get("data", {}) else "text"


@pytest.mark.parametrize("name", ["hospital-table", "own-method"])
def test_cells_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unalike: Unalike
) -> None:
    """Of those that start no processes, which take their time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {"__name__": "notebook"}
    try:
        for held in read(FOLDER / f"{name}.ipynb")["cells"]:
            if held["cell_type"] == "markdown":
                continue
            shown = cell("".join(held["source"]), names, unalike)
            results = [o for o in held["outputs"] if o["output_type"] == "execute_result"]
            assert (shown is not None) == bool(results)
            for stored in results:
                assert hasattr(shown, "_repr_html_") == (kinds(stored) == "html")
                if kinds(stored) == "html":
                    assert "<table" in shown._repr_html_()
    finally:
        sys.modules.pop("inverse_loss", None)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_they_run_in_a_kernel(
    path: Path, writer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And show things of the same kinds again."""
    pytest.importorskip("nbclient")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    before, after = read(path), writer.run(path)
    for old, new in zip(before["cells"], after["cells"], strict=True):
        assert old["source"] == new["source"]
        assert [*map(kinds, old.get("outputs", []))] == [*map(kinds, new.get("outputs", []))]
