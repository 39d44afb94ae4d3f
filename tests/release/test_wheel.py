"""The built wheel holds everything that the package needs, and works in an empty environment.

python -m pytest -m slow tests/release     (minutes: it installs PyTorch)
"""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
USER = """
import unalike

made = unalike.compare("digits", "logistic", ["fedavg"])
count: int = len(made.tables)
wrong: int = unalike.report(made)
"""


def call(*command: str, cwd: Path, code: int = 0) -> str:
    """Run something that knows nothing of this environment; what it says."""
    held = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=held, check=False)
    assert done.returncode == code, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As ``make wheel`` builds it."""
    place = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", str(place), str(ROOT)]
    made = subprocess.run(build, capture_output=True, text=True, check=False)
    if made.returncode and "hatchling" in made.stderr:
        pytest.skip("hatchling cannot be had")
    assert made.returncode == 0, made.stderr
    (found,) = place.glob("*.whl")
    return found


@pytest.mark.slow
def test_a_wheel_holds_the_package_and_nothing_else(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        meta = next(name for name in names if name.endswith("METADATA"))
        text = archive.read(meta).decode()
        archive.extractall(tmp_path / "site")
    assert "unalike/py.typed" in names
    assert "unalike/__main__.py" in names
    assert any(name.endswith(".toml") for name in names), "the presets"
    assert {name.split("/")[0] for name in names} == {"unalike", meta.split("/")[0]}
    assert f"Version: {PROJECT['version']}" in text
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Classifier: Programming Language :: Python :: {version}" in text
    sources = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src").rglob("*.py")}
    assert sources <= set(names)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """Installed by pip with the lock; used from a folder that is not the repository."""
    call(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    python, unalike = (str(tmp_path / "venv" / "bin" / name) for name in ("python", "unalike"))
    lock = str(ROOT / "constraints.txt")
    call(python, "-m", "pip", "install", "-q", "-c", lock, str(wheel), cwd=tmp_path)
    place = tmp_path / "elsewhere"
    place.mkdir()
    assert PROJECT["version"] in call(unalike, "--version", cwd=place)
    assert "quickstart" in call(python, "-m", "unalike", "compare", "--list", cwd=place)
    assert "complete" in call(unalike, "completion", "bash", cwd=place)
    (place / "c.toml").write_text("rounds = 2\n")
    call(unalike, "run", "c.toml", cwd=place)
    (folder,) = (place / "runs").iterdir()
    call(unalike, "report", str(folder), cwd=place)
    smaller = ("--set", "rounds=2", "compare.seeds=2")
    assert "FedProx" in call(unalike, "compare", "quickstart", *smaller, cwd=place)
    strict = ("-W", "error::DeprecationWarning", "-W", "error::PendingDeprecationWarning")
    train = "import unalike; print(unalike.train('digits', 'logistic', rounds=1))"
    assert "fedavg, 10 clients" in call(python, *strict, "-c", train, cwd=place)
    said = call(unalike, "tune", "c.toml", cwd=place, code=2)
    assert said.startswith("error: ")
    assert "Traceback" not in said
    (place / "user.py").write_text(USER)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "user.py")
    said = call(*mypy, "--cache-dir", str(tmp_path / "cache"), cwd=place, code=1)
    assert re.findall(r"user\.py:(\d+): error", said) == ["6"], "types come with the wheel"


def test_the_container_file_names_what_there_is() -> None:
    text = (ROOT / "Containerfile").read_text()
    for extra in re.findall(r"\[([\w,]+)\]\"", text)[0].split(","):
        assert extra in PROJECT["optional-dependencies"]
    for source in re.findall(r"^COPY ([^\s-]\S*) ", text, re.MULTILINE):
        assert (ROOT / source).exists()
    (version,) = set(re.findall(r"^FROM python:([\d.]+)-slim", text, re.MULTILINE))
    assert any(c.endswith(f":: {version}") for c in PROJECT["classifiers"])
