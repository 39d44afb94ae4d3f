"""Six methods can be read beside their papers: short files, few of them, and nothing elsewhere.

Lines of code are lines with a token on them; docstrings, comments, settings with their descriptions
and blank lines are not counted, imports are.
"""

import ast
import io
import tokenize
from functools import cache
from pathlib import Path

import pytest
from test_layers import GRAPH, MODULES

from unalike.algorithms.table import METHODS

SIX = ("scaffold", "superfed", "lg_fedavg", "phase_shift", "fedep", "fedevg")
MOST_LINES, MOST_FILES = 80, 4
# What all methods are written with, and whoever has read one method knows.
COMMON = {
    *("algorithms.draft", "algorithms.method", "algorithms.fedavg", "parts.optim"),
    *("parts.mixing.base", "parts.mixing.examples", "parts.mixing.questions", "parts.topology"),
}
# Where methods may be named: the table of all, and those that a tournament invites.
LISTS = {"algorithms.table", "advise.entrants"}
SPACE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def lines_of_code(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    counted = {
        line
        for token in tokens
        if token.type not in SPACE and token.string
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if _is_docstring(node) or _is_setting(node):
            assert isinstance(node, ast.stmt)
            counted -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(counted)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_setting(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "setting"
    )


def to_follow(module: str) -> set[str]:
    """The method's file, the parts it is made of, and what those have for themselves alone."""
    found = {module}
    new = {module}
    while new:
        near = {m for name in new for m in GRAPH.successors(name)}
        near = {m for m in near if m.startswith(("algorithms.", "parts."))} - COMMON
        alone = {m for m in near if set(GRAPH.predecessors(m)) <= found}
        new = (near if module in new else alone) - found
        found |= new
    return found


@cache
def named(path: Path) -> set[str]:
    """Identifiers, and texts that are a name and nothing else."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    words = {n.id for n in nodes if isinstance(n, ast.Name)}
    words |= {n.attr for n in nodes if isinstance(n, ast.Attribute)}
    return words | {n.value for n in nodes if isinstance(n, ast.Constant) and n.value in METHODS}


@pytest.mark.parametrize("name", SIX)
def test_its_file_is_short(name: str) -> None:
    assert lines_of_code(MODULES[f"algorithms.{name}"].read_text()) <= MOST_LINES


@pytest.mark.parametrize("name", SIX)
def test_few_files_are_to_be_followed(name: str) -> None:
    assert len(to_follow(f"algorithms.{name}")) <= MOST_FILES


@pytest.mark.parametrize("name", SIX)
def test_nobody_else_knows_its_name(name: str) -> None:
    own = f"algorithms.{name}"
    tree = ast.parse(MODULES[own].read_text())
    classes = {n.name for n in tree.body if isinstance(n, ast.ClassDef) and name_like(n.name, name)}
    names = {m for m, cls in METHODS.items() if cls.__module__ == f"unalike.{own}"} | classes
    assert len(names) >= 2
    for module, path in MODULES.items():
        if module not in {own, *LISTS}:
            assert not names & named(path), module


def name_like(cls: str, name: str) -> bool:
    return cls.lower().startswith(name.replace("_", ""))


def test_lines_are_counted(tmp_path: Path) -> None:
    text = '"""Docs."""\n\nimport os  # 1\n\n# no\nclass A:  # 2\n    """Docs\n\n    more."""\n\n'
    text += "    x: int = setting(\n        3,\n    )\n    y = (\n        4\n    )  # 5\n"
    assert lines_of_code(text) == 5
