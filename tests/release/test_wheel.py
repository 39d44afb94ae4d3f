"""The built wheel holds everything that the package needs, and its command runs from it alone."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.slow


def test_a_wheel_runs_without_the_source(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    made = subprocess.run([*build, "-w", str(tmp_path), str(ROOT)], capture_output=True, text=True)
    if "No module named" in made.stderr or "hatchling" in made.stderr:
        pytest.skip("hatchling is not installed")
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    assert "unalike/py.typed" in names
    assert "unalike/__main__.py" in names
    assert any(name.endswith(".toml") for name in names), "the presets"
    assert not any(name.startswith("tests/") for name in names)
    command = [sys.executable, "-P", "-m", "unalike", "compare", "--list"]
    there = {"PYTHONPATH": str(tmp_path / "site"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    shown = subprocess.run(command, capture_output=True, text=True, env=there, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "quickstart" in shown.stdout
