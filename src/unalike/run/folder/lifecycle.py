"""How a run folder begins and ends: its manifest first and last, and what a finished one allows."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from unalike.errors import RunError
from unalike.files import sync, write
from unalike.run.experiment.build import Experiment
from unalike.run.folder import manifest
from unalike.run.folder.environment import environment
from unalike.run.folder.manifest import Manifest, digest_of, digests
from unalike.run.folder.origins import code_digests, data_digest, keep_copies, mark
from unalike.run.folder.records import LOGS, dumps

INPUTS = ("config.json", "environment.json")
RECORDS = ("skew.json", *LOGS, "timing.jsonl")
RESULTS = (".json", ".safetensors", ".npz", ".png")  # endings of what a checkpoint can make again


def begun(folder: Path, made: Experiment, found: Manifest | None) -> Manifest:
    """What the run in this folder is made from; one sentence if the data are no longer the same."""
    data, code = data_digest(made.federation), code_digests(made.config)
    if found is None:
        return Manifest(False, data, code, mark(code), {})
    if found.data != data:
        raise RunError(
            f"the data changed since the run in '{folder}' began; restore them or start a new run."
        )
    return found if found.code == code else found._replace(code=code, mark=mark(code))


def recorded(folder: Path, origin: Manifest, found: Manifest | None) -> Manifest:
    """The folder's manifest, written unless it is there already."""
    if origin == found:
        return found
    if not (folder / "environment.json").exists():
        write(folder / "environment.json", dumps(environment(), indent=2))
    names = [*INPUTS, *keep_copies(folder, origin.code)]
    new = origin._replace(files={**origin.files, **digests(folder, names)})
    manifest.save(folder, new)
    return new


def refuse_changed_inputs(folder: Path, found: Manifest) -> None:
    """One sentence if something the run was started with is not what it was."""
    changed = found.differing(folder)
    if changed:
        raise RunError(
            f"'{folder / changed[0]}' was changed since the run began; restore it, or start a new "
            "run with the new settings."
        )


def refuse_unproven(folder: Path) -> None:
    """One sentence if there is a result, but neither manifest nor checkpoint to hold it against."""
    if (folder / "summary.json").exists() and not (folder / "checkpoint").is_dir():
        raise RunError(
            f"'{folder}' holds a finished run without a checkpoint, so there is nothing to resume; "
            "start a new run, or delete summary.json to compute this one again."
        )


def is_whole(folder: Path, found: Manifest) -> bool:
    """Whether nothing is left to do in a finished folder; False if a result is to be made again.

    What a run was made from and its records cannot be made again: a change there is refused.
    """
    wrong = found.differing(folder)
    gone = [name for name in wrong if "/" in name or not name.endswith(RESULTS) or name in INPUTS]
    kept = (folder / "checkpoint").is_dir()
    if gone or (wrong and not kept):
        named = ", ".join(f"'{folder / name}'" for name in (gone or wrong))
        raise RunError(
            f"the run is finished, but {named} {'is' if len(gone or wrong) == 1 else 'are'} not "
            "what it wrote; restore from a copy, or start a new run."
        )
    return not wrong


def put(folder: Path, origin: Manifest, name: str, raw: bytes) -> None:
    """Write a file; one that a finished run wrote is replaced by the same bytes or not at all."""
    if origin.finished and digest_of(raw) != origin.files.get(name):
        raise RunError(
            f"'{folder / name}' was changed, and the checkpoint does not reproduce what the run "
            "wrote; restore it from a copy."
        )
    write(folder / name, raw)


def conclude(
    folder: Path, origin: Manifest, results: Mapping[str, bytes], checkpoint: Iterable[str]
) -> None:
    """Write the results and, last of all, the manifest of a finished run."""
    for name, raw in results.items():
        put(folder, origin, name, raw)
    for name in RECORDS:  # a power cut must not leave less than the manifest says
        if (folder / name).is_file():
            sync(folder / name)
    files = digests(folder, [*INPUTS, *RECORDS, *results, *checkpoint])
    manifest.save(folder, origin._replace(finished=True, files={**origin.files, **files}))
