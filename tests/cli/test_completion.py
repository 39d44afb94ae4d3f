"""Shells complete commands, options and what an option may be."""

import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import Unalike, mistake


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_is_in_the_script(shell: str, unalike: Unalike) -> None:
    from unalike.cli.main import app

    code, out, said = unalike("completion", shell)
    assert (code, said) == (0, "")
    for name in app:
        assert name in out or name.startswith("-")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["comp"], "compare"),
        (["export", "runs/x", "--to", "on"], "onnx"),
        (["run", "--en"], "--engine"),
    ],
)
def test_bash_completes(typed: list[str], offered: str, tmp_path: Path, unalike: Unalike) -> None:
    """As bash does it: the script is read, and its function asked."""
    (tmp_path / "script").write_text(unalike("completion", "bash")[1])
    words = " ".join(f"'{word}'" for word in ("unalike", *typed))
    ask = (
        f"source {tmp_path}/script; COMP_WORDS=({words}); COMP_CWORD={len(typed)}; "
        'COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}; '
        "f=$(complete -p unalike | sed -E 's/.*-F ([^ ]+).*/\\1/'); $f; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=False)
    assert offered in done.stdout.split(), done.stdout + done.stderr


def test_mistakes(unalike: Unalike) -> None:
    assert "needs SHELL, bash, zsh or fish" in mistake(unalike, "completion")
    assert "tcsh" in mistake(unalike, "completion", "tcsh")
