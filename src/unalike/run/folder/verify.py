"""Whether a run folder is whole: every file is what the run wrote, and a checkpoint can be used."""

from pathlib import Path

from unalike.engine.client.shards import Shards
from unalike.errors import Damaged, RunError
from unalike.run.execute import configured
from unalike.run.folder import manifest
from unalike.run.folder.manifest import FILE
from unalike.run.folder.proof import unpack
from unalike.run.folder.records import LOGS, Log


def verify(folder: Path) -> str:
    """What was found to be whole; one sentence that names what is not."""
    if (folder / "compare.json").is_file():
        cells = sorted(path.parent for path in folder.glob("cells/**/config.json"))
        for cell in cells:
            _run(cell)
        return f"'{folder}' is intact: {len(cells)} runs are as they were written"
    return f"'{folder}' is intact: {_run(folder)}"


def _run(folder: Path) -> str:
    config = configured(folder)
    found = manifest.read(folder)
    if found is None:
        raise RunError(
            f"'{folder}' has no {FILE}, so there is nothing to check its files against; 'unalike "
            "resume' writes one."
        )
    wrong = found.differing(folder)
    if wrong:
        named = ", ".join(f"'{folder / name}'" for name in wrong)
        verb = "is" if len(wrong) == 1 else "are"
        raise RunError(f"{named} {verb} not what the run wrote; restore from a copy.")
    files = f"{len(found.files)} files are as they were written"
    if found.finished:
        kept = (folder / "checkpoint").is_dir()
        return f"finished, {files}{'' if kept else ', the checkpoint was removed'}"
    state = folder / "checkpoint" / "state.safetensors"
    earlier = state.with_name("earlier.safetensors")
    if not state.exists() and not earlier.exists():
        return f"started, no round is saved, {files}"
    done = _saved(folder, state)
    if earlier.exists():
        _saved(folder, earlier)
    return f"{done} of {config.rounds} rounds are saved, {files}"


def _saved(folder: Path, path: Path) -> int:
    """How many rounds a checkpoint holds that proves itself, its logs and its shards."""
    notes, flat = unpack(path)
    try:
        for name in LOGS:
            Log(folder / name).check(int(notes[f"{name}:size"]), notes[f"{name}:sha256"])
        Shards(folder / "checkpoint" / "clients").load(flat["states"], notes)
        return int(notes["round"])
    except (KeyError, ValueError):
        raise Damaged(f"'{path}' is not a checkpoint; restore it from a copy.") from None
