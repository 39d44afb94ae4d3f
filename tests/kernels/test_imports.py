"""The package stands alone: it could be taken out of this library as it is."""

import ast
from pathlib import Path

import unalike.kernels


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names.update(a.name for a in node.names)
    return {n for n in names if n.split(".")[0] == "unalike"}


def test_only_errors_come_from_outside():
    files = list(Path(unalike.kernels.__path__[0]).rglob("*.py"))
    assert len(files) > 10
    outside = {n for f in files for n in imported(f) if not n.startswith("unalike.kernels")}
    assert outside == {"unalike", "unalike.errors"}  # the first for unalike.mapped
