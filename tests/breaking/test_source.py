"""What the source must not do, and that the corpus is whole."""

import ast
from collections import Counter
from pathlib import Path

from breaking.causes import CAUSES
from breaking.test_corpus import CASES

SOURCE = Path(__file__).parents[2] / "src" / "unalike"
NEVER = {  # calls that run what they are given
    "eval": "runs text",
    "exec": "runs text",
    "os.system": "runs text in a shell",
    "os.popen": "runs text in a shell",
    "pickle.load": "runs what a file says",
    "pickle.loads": "runs what bytes say",
    "torch.load": "unpickles",
    "yaml.load": "makes any object",
    "marshal.loads": "makes code",
}


def calls(tree: ast.AST) -> set[str]:
    """Dotted names that are called, and ``shell=True`` where it is passed."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found.add(ast.unparse(node.func))
            found |= {
                "shell=True"
                for k in node.keywords
                if k.arg == "shell" and ast.unparse(k.value) == "True"
            }
    return found


def test_nothing_runs_what_it_is_given() -> None:
    for path in SOURCE.rglob("*.py"):
        found = calls(ast.parse(path.read_text()))
        assert not found & {*NEVER, "shell=True"}, path


def test_every_cause_has_its_cases() -> None:
    count = Counter(case.cause for case in CASES if case.cause)
    assert not count.keys() - CAUSES.keys()
    elsewhere = {name for name, text in CAUSES.items() if "(" in text}
    assert CAUSES.keys() - count.keys() == elsewhere
    assert sum(count.values()) >= 121


def test_every_case_has_a_name_of_its_own() -> None:
    count = Counter(map(str, CASES))
    assert not [name for name, times in count.items() if times > 1]
