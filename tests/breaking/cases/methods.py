"""Methods of the user's own: rules that break their contract, and changes that are none."""

from breaking.cases.models import settled
from breaking.corpus import EITHER, FAILS, OWN, REFUSED, WORKS, Case

KIND = "own method"
HEAD = """import torch
from dataclasses import dataclass, replace
from typing import ClassVar
from unalike.extend import Memoryless, Method, Weighed
"""
RULE = """
@dataclass(frozen=True)
class Rule(Memoryless):
    needs: ClassVar[frozenset] = frozenset({{'loss'}})
    def weights(self, state, cohort):
        p = cohort.share
        {}

class Mine(Method):
    def change(self, draft): return replace(draft, weights=Rule())
"""
CLASS = """
class Mine(Method):
    {}
"""
SETTINGS = (
    'rounds = 3\nmodel = "logistic"\nrun.folder = "out"\n'
    'partition = {{name = "iid", clients = 3}}\n'
    'method = {{name = "own", file = "k.py", attribute = "Mine", settings = {}}}\n'
)


def case(name: str, want: str, code: str, cause: str = "", settings: str = "{}") -> Case:
    files = {"k.py": HEAD + code, "c.toml": SETTINGS.format(settings)}
    return Case(KIND, name, want, ["run", "c.toml"], files, cause, None, settled)


WEIGHTS = [
    ("fine", WORKS, "return p / p.sum(), state"),
    ("weights not a number", REFUSED, "return p * float('nan'), state"),
    ("weights of zero", REFUSED, "return p * 0, state", "own weights"),
    ("negative weights", REFUSED, "return -p, state", "own weights"),
    ("weights of five in all", REFUSED, "return p * 5, state", "own weights"),
    ("one weight for three", REFUSED, "return p[:1], state", "own weights"),
    ("a list of weights", REFUSED, "return [1.0], state", "own exception"),
    ("no state", REFUSED, "return p", "own exception"),
    ("infinite weights", REFUSED, "return p / 0, state"),
    ("enormous weights", REFUSED, "return p * 1e30, state"),
    ("an error", OWN, "raise ValueError('w')", "own exception"),
    ("whole weights", REFUSED, "return p.long(), state", "own weights"),
    ("weights of two axes", REFUSED, "return p[:, None], state", "own exception"),
    ("another state", EITHER, "return p, {'x': torch.ones(3)}"),
    ("an unknown statistic", OWN, "return p * cohort.stats['nope'], state", "own exception"),
    ("complex weights", REFUSED, "return p.to(torch.complex64), state", "own weights"),
    ("leaving", OWN, "raise SystemExit(0)", "sys.exit"),
    ("leaving without a word", OWN, "import os; os._exit(0)", "sys.exit"),
    ("nothing", REFUSED, "return None", "own exception"),
    ("a state of text", REFUSED, "return p, 'x'", "fixed weights"),
    ("a state in itself", REFUSED, "s = {}; s['s'] = s; return p, s", "fixed weights"),
]
FIXED = [  # of a rule that asks for nothing, which is asked once before the rounds
    ("nothing at once", REFUSED, "return None", "fixed weights"),
    ("weights of zero at once", REFUSED, "return p * 0, state", "fixed weights"),
    ("a sum of weights at once", REFUSED, "return p.sum(), state", "fixed weights"),
    ("an error at once", OWN, "raise ValueError('w')"),
]
CHANGES = [
    ("change returns nothing", REFUSED, "def change(self, draft): return None", "own exception"),
    ("change fails", REFUSED, "def change(self, draft): raise KeyError('q')", "own exception"),
    (
        "change to a number",
        REFUSED,
        "def change(self, draft): return replace(draft, weights=3)",
        "own exception",
    ),
    ("an unknown field", FAILS, "def change(self, draft): return replace(draft, nothing=3)"),
    ("no change", EITHER, "def change(self, draft): return draft"),
    ("empty", EITHER, "pass"),
    ("a number as a name", EITHER, "name = 3"),
    (
        "a constructor that fails",
        REFUSED,
        "def __init__(self, **k): raise RuntimeError('x')",
        "own exception",
    ),
]
AT_ONCE = RULE.replace("{{'loss'}}", "")
CASES = [
    *(case(name, want, RULE.format(body), *cause) for name, want, body, *cause in WEIGHTS),
    *(case(name, want, AT_ONCE.format(body), *cause) for name, want, body, *cause in FIXED),
    *(case(name, want, CLASS.format(body), *cause) for name, want, body, *cause in CHANGES),
    case("no class", REFUSED, "x = 1\n"),
    case("another class", REFUSED, "class Mine: pass\n"),
    case("an unknown setting", REFUSED, CLASS.format("pass"), settings="{a = 1}"),
]
