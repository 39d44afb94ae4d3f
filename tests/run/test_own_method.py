"""A method in a Python file of one's own: trained, combined, compared, and refused."""

from pathlib import Path

import pytest
from command_line import Unalike, mistake

CODE = '''
from unalike.extend import Weighed, WeightRule, setting


class PowerMethod(WeightRule):
    """Sizes to a power."""

    exponent: float = setting(1.0, "of the sizes", ge=0)

    def weights(self, state, cohort):
        p = cohort.share**self.exponent
        return Weighed(p / p.sum(), state)


class NoMethod:
    pass
'''
FILE = """
rounds = 2
partition = { clients = 4, min_size = 10 }
model = { name = "mlp", hidden = [4] }
method = { name = "own", file = "power.py", attribute = "PowerMethod" }
"""
COMPARE = f"""
{FILE}
compare.seeds = 2

[[compare.methods]]
name = "fedavg"

[[compare.methods]]
name = "own"
file = "power.py"
attribute = "PowerMethod"
label = "power 1"

[[compare.methods]]
name = "own"
file = "power.py"
attribute = "PowerMethod"
label = "power 0"
settings = {{ exponent = 0.0 }}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "power.py").write_text(CODE)
    (tmp_path / "c.toml").write_text(FILE)
    (tmp_path / "compare.toml").write_text(COMPARE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_trained_and_resumed(place: Path, unalike: Unalike):
    """Sizes to the power of one are FedAvg's weights, bit for bit."""
    assert unalike("run", "c.toml", "--set", "run.folder=own")[0] == 0
    fedavg = ("--set", "method=fedavg", "run.folder=fedavg")
    assert unalike("run", "c.toml", *fedavg)[0] == 0
    models = [(place / f / "model.safetensors").read_bytes() for f in ("own", "fedavg")]
    assert models[0] == models[1]
    (place / "own" / "summary.json").unlink()
    assert unalike("resume", "own")[0] == 0


def test_it_is_combined(place: Path, unalike: Unalike):
    (place / "c.toml").write_text(FILE + 'plus = ["fedprox", "fedadam"]\n')
    assert unalike("run", "c.toml")[0] == 0
    (place / "c.toml").write_text(FILE + 'plus = ["feddisco"]\n')
    said = mistake(unalike, "run", "c.toml")
    assert "methods 'PowerMethod' and 'feddisco' both set the weights" in said


def test_it_is_compared(place: Path, unalike: Unalike):
    """By another process, beside FedAvg, which the first equals and the second does not."""
    code, out, _ = unalike("compare", "compare.toml", "--folder", "out", "--processes", "1")
    assert code == 0
    lines = [line for line in out.splitlines() if line.startswith("power") and "+" in line]
    same, other = lines[:2]  # of the table of differences
    assert "+0.00 [0.00, 0.00]" in same
    assert "+0.00 [0.00, 0.00]" not in other
    report = (place / "out" / "report.html").read_text()
    assert "power.py" in report


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ("method.file=none.py", "method.file names 'none.py', which does not exist"),
        ("method.attribute=Power2", "'Power2'; name one that it has in method.attribute."),
        ("method.attribute=NoMethod", "must be a class made from unalike.extend.Method"),
        ("method.settings={exponent=-1.0}", "'method.settings.exponent' must be"),
        ("method.settings={power=2}", "unknown PowerMethod setting 'power': valid names are"),
    ],
)
def test_mistakes(place: Path, unalike: Unalike, changes: str, named: str):
    assert named in mistake(unalike, "run", "c.toml", "--set", changes)


def test_a_file_that_fails(place: Path, unalike: Unalike):
    (place / "power.py").write_text("1 / 0")
    assert "fails when it is run: ZeroDivisionError" in mistake(unalike, "run", "c.toml")
