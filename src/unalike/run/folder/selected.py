"""Files that a checkpoint needs but does not contain: the models of the selected round so far.

They are written before the checkpoint, so a run that was killed in between has newer ones than its
checkpoint expects. The rounds that are computed again then have to rewrite them; otherwise they are
damaged.
"""

from pathlib import Path

from unalike.errors import RunError
from unalike.run.folder.manifest import digest

FOLDER, MARK = "selected", "file:"
Stamp = tuple[int, int]


class Selected:
    """The files of one folder: their digests, and those that nothing proves yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, tuple[Stamp, str]] = {}
        self.unproven: dict[str, Stamp] = {}

    def notes(self) -> dict[str, str]:
        """What a checkpoint writes down; one sentence if a file was never written again."""
        for name, stamp in self.unproven.items():
            if (self.folder / name).is_file() and self._stamp(name) == stamp:
                raise self._refusal(name)
        self.unproven = {}
        return {f"{MARK}{name}": self._digest(name) for name in self._names()}

    def check(self, notes: dict[str, str], over: bool) -> None:
        """Hold the files against a checkpoint's notes; those that differ must be written again.

        With ``over`` there is no round left to do so, and the end may have taken all of them away.
        """
        wanted = {n.removeprefix(MARK): text for n, text in notes.items() if n.startswith(MARK)}
        there = self._names()
        if over and not there:
            return
        differing = [n for n in there if self._digest(n) != wanted.get(n)]
        wrong = [*(n for n in wanted if n not in there), *(differing if over else ())]
        if wrong:
            raise self._refusal(wrong[0])
        self.unproven = {name: self._stamp(name) for name in differing}

    def _names(self) -> list[str]:
        return sorted(f"{FOLDER}/{p.name}" for p in (self.folder / FOLDER).glob("[!.]*"))

    def _digest(self, name: str) -> str:
        stamp = self._stamp(name)
        if self.known.get(name, ((), ""))[0] != stamp:
            self.known[name] = stamp, digest(self.folder / name)
        return self.known[name][1]

    def _stamp(self, name: str) -> Stamp:
        stat = (self.folder / name).stat()
        return stat.st_ino, stat.st_mtime_ns

    def _refusal(self, name: str) -> RunError:
        return RunError(
            f"'{self.folder / name}' is not what the checkpoint was made with; restore it from a "
            "copy, or start the run again in another folder."
        )
