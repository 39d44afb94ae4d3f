"""What kind of folder a command was given, found out before anything heavy is imported."""

import os

from unalike.errors import RunError, no_such


def is_comparison(folder: str) -> bool:
    """Whether it is a comparison; False for a run, one sentence for anything else."""
    if not os.path.isdir(folder):
        raise RunError(no_such("run folder", folder))
    if os.path.isfile(os.path.join(folder, "compare.json")):
        return True
    if not os.path.isfile(os.path.join(folder, "config.json")) and (inside := _runs_in(folder)):
        raise RunError(
            f"'{folder}' is not a run folder but holds {len(inside)} of them; name one, such as "
            f"'{inside[0]}'."
        )
    return False


def _runs_in(folder: str) -> list[str]:
    """The folders of runs and comparisons in a folder, the one written last first."""
    marks = ("config.json", "compare.json")
    found = [
        entry
        for entry in os.scandir(folder)
        if any(os.path.isfile(os.path.join(entry.path, mark)) for mark in marks)
    ]
    return [entry.path for entry in sorted(found, key=lambda e: e.stat().st_mtime, reverse=True)]
