"""A file that is not there: the sentence says where it was looked for."""

from pathlib import Path

import pytest
from command_line import Unalike, mistake
from interrupted import write_toml


def test_a_missing_file_is_said_to_be_missing_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unalike: Unalike
):
    """Relative paths count from the working directory, wherever the TOML file is."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    path = tmp_path / "c.toml"
    write_toml(path, {"data": {"name": "files", "path": "a.csv"}})
    said = mistake(unalike, "run", str(path))
    assert f"no file or folder 'a.csv' in '{tmp_path / 'elsewhere'}', where the command" in said
    said = mistake(unalike, "run", str(path), "--set", f"data.path={tmp_path / 'a.csv'}")
    assert said == f"error: there is no file or folder '{tmp_path / 'a.csv'}'; check the path.\n"
    write_toml(path, {"model": {"name": "module", "file": "n.py"}})
    assert f"which does not exist in '{tmp_path / 'elsewhere'}'" in mistake(
        unalike, "run", str(path)
    )
