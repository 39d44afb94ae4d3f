"""Data may measure their clients; nothing that judges models may depend on data."""

import ast
from pathlib import Path

import pytest

import unalike

ROOT = Path(unalike.__file__).parent
BELOW = ["metrics", "parts", "tasks", "models"]  # packages that know nothing of federations


def imported(path: Path) -> set[str]:
    """The modules that a file imports, inside functions and for type checkers too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("package", BELOW)
def test_packages_below_do_not_import_federation(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        up = [name for name in imported(path) if name.startswith("unalike.federation")]
        assert not up, f"{path.relative_to(ROOT)} imports {up}"
