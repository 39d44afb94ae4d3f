"""What a site keeps between rounds, on its own disk: the newest state, and the one before it.

A question may come twice, because a coordinator was killed after asking it or an answer got lost. A
site that has trained in round t and is asked for round t again begins with its earlier state, so
that the answer is the same and nothing counts twice.
"""

from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from unalike import tree
from unalike.errors import RunError
from unalike.files import new_folder, write
from unalike.packed import owned, parts
from unalike.tree import Tree


class Held(NamedTuple):
    """A state, and the round that left it; -1: none."""

    stage: int
    round: int
    kept: Tree


class KeptState:
    """Two files in a folder of one run."""

    def __init__(self, folder: Path) -> None:
        """Made where it does not exist."""
        new_folder(folder)
        self.now, self.old = folder / "state.safetensors", folder / "before.safetensors"

    def begin(self, stage: int, first: Tree) -> None:
        """A stage begins, unless this site is in it already."""
        self.like, self.stage = first, stage
        found = self._read(self.now)
        if found is None or found.stage != stage:
            self.old.unlink(missing_ok=True)
            self._write(self.now, Held(stage, -1, first))

    def left(self, stage: int, like: Tree, unused: int) -> Held | None:
        """The newest state, if there is one: of this stage, or with ``kept`` empty of another.

        What the round ``unused`` left is taken back.
        """
        self.like, self.stage = like, stage
        found = self._read(self.now)
        if found is not None and found.stage == stage and found.round == unused >= 0:
            self.refuse(unused)
            found = self._state()
        return found

    def before(self, t: int) -> Tree:
        """The state to begin round ``t`` with."""
        found = self._state()
        if found.round > t:
            raise RunError(
                f"the coordinator asks for round {t + 1}, but this site has finished round "
                f"{found.round + 1}."
            )
        if found.round < t:
            return found.kept
        old = self._read(self.old)
        return self.like if old is None else old.kept

    def put(self, t: int, kept: Tree) -> None:
        """The state after round ``t``; the one before it stays until the next round."""
        found = self._state()
        if found.round != t:
            self._write(self.old, found)
        self._write(self.now, Held(self.stage, t, kept))

    def refuse(self, t: int) -> None:
        """The answer of round ``t`` was not used: what was there before it is back."""
        if self._state().round == t:
            old = self._read(self.old) or Held(self.stage, -1, self.like)
            self._write(self.now, old)

    @property
    def round(self) -> int:
        """The round that left the newest state; -1: none."""
        return self._state().round

    def get(self) -> Tree:
        """The newest state."""
        return self._state().kept

    def _state(self) -> Held:
        found = self._read(self.now)
        assert found is not None, "a stage was begun"
        return found

    def _write(self, path: Path, held: Held) -> None:
        notes = {"stage": str(held.stage), "round": str(held.round)}
        write(path, parts(tree.named(held.kept), notes))

    def _read(self, path: Path) -> Held | None:
        if not path.exists():
            return None
        try:
            with safe_open(path, "pt") as f:
                names = f.keys()
                notes, flat = f.metadata() or {}, {name: f.get_tensor(name) for name in names}
            stage = int(notes["stage"])
            mine = stage == self.stage
            return Held(
                stage, int(notes["round"]), tree.restore(owned(flat), self.like) if mine else ()
            )
        except (SafetensorError, KeyError, ValueError, OSError) as error:
            raise RunError(
                f"'{path}' is damaged ({error}); restore it from a copy, or delete it to start "
                "this site again."
            ) from None
