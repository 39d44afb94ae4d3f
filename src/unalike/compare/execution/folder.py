"""A comparison is a folder of ordinary run folders.

compare.json   what was asked for: settings, and every cell with its whole configuration
compare.toml   the file it was read from
cells/ID/      one run each, as ``unalike run`` makes it
results.jsonl  one line for each finished cell, in the order of the cells once nothing runs
failed.json    why cells have no result, one sentence each, by cell; absent if none failed
errors/ID.txt  the whole error of a cell that broke down
manifest.json  the Python files that cells name, and the mark of who began; absent if there are none
table.md, table.tex, cells.csv, summary.csv (and .parquet), statistics.json: the tables
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from unalike.compare.analysis.results import begun
from unalike.compare.specification.settings import Budget, Judging
from unalike.compare.specification.spec import Cell, Comparison
from unalike.errors import ConfigError, RunError, no_such
from unalike.files import new_folder
from unalike.run.configuration.config import Config, parse
from unalike.run.configuration.explain import check
from unalike.run.experiment.cadence import AUTO
from unalike.run.folder import manifest
from unalike.run.folder.origins import refuse_stranger, sign
from unalike.run.folder.records import alone, dumps, plain, read_json, write

FILE = "compare.json"
READ = (1, 2)  # formats; fields missing in the first have their defaults


def is_comparison(folder: str | Path) -> bool:
    """Whether the folder holds a comparison."""
    return os.path.isfile(Path(folder) / FILE)  # false for what cannot be a path, too


def create(made: Comparison, folder: Path, text: str) -> Comparison:
    """Write the folder's description; one that exists may gain cells, but none may change.

    A swept list may so be extended later, and what has been computed is kept. The cells get their
    place in the folder.
    """
    with held(made, folder, text) as placed:
        return placed


@contextmanager
def held(
    made: Comparison,
    folder: Path,
    text: str,
    ready: Callable[[Comparison], Comparison] = lambda made: made,
) -> Iterator[Comparison]:
    """``create``, with the folder kept from other processes until the end.

    Whoever is refused, by ``ready`` too, leaves the folder as it was, or leaves none.
    """
    _refuse(made, folder)
    made = ready(made)
    _make(folder)
    with alone(folder):
        _refuse(made, folder)  # again, now that nobody else can get in
        placed = _placed(made, folder)
        write(folder / FILE, dumps(placed.as_dict(), indent=1))
        write(folder / "compare.toml", text)
        sign(folder, [cell.config for cell in placed.cells])
        yield placed


def refuse_strangers(made: Comparison, folder: Path) -> None:
    """One sentence if cells name Python files and nothing shows that this user started them."""
    found, then = manifest.read(folder), f"use: unalike resume {folder} --trust"
    for cell in made.cells:
        refuse_stranger(folder, cell.config, found, then)


def read(folder: str | Path) -> Comparison:
    """The comparison a folder was made for."""
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError(no_such("folder", folder))
    raw = read_json(folder / FILE)
    if not isinstance(raw, dict) or raw.get("format") not in READ:
        raise RunError(f"'{folder / FILE}' was written by another version of unalike.")
    try:
        cells = [_cell(c) for c in raw["cells"]]
        judging = check(Judging, {k: raw[k] for k in Judging.model_fields if k in raw}, "compare")
        decided = dict(raw.get("cadence", {})), dict(raw.get("engines", {}))
        about = Budget(**raw["budget"]), raw["baseline"], cells, raw["source"]
        return Comparison(judging, *about, *decided)
    except (KeyError, TypeError) as error:
        raise RunError(f"'{folder / FILE}' is damaged ({error}); restore it from a copy.") from None


def _refuse(made: Comparison, folder: Path) -> None:
    """Say so if the folder is somebody else's, or another comparison's."""
    if is_comparison(folder):
        _same(made, folder)
    elif _taken(folder):
        raise RunError(f"'{folder}' already exists and is not a comparison; name another --folder.")


def _make(folder: Path) -> None:
    try:
        new_folder(folder)
    except OSError as error:
        raise RunError(
            f"the folder '{folder}' cannot be made: {error.strerror}; name another --folder."
        ) from None


def _cell(raw: dict[str, Any]) -> Cell:
    config = parse(raw["config"])
    return Cell(**{**{k: v for k, v in raw.items() if k != "folder"}, "config": config})


def _placed(made: Comparison, folder: Path) -> Comparison:
    """The same cells with their folders."""

    def at(cell: Cell) -> Cell:
        run = cell.config.run.model_copy(update={"folder": str(folder / cell.folder)})
        return replace(cell, config=cell.config.model_copy(update={"run": run}))

    return replace(made, cells=[at(c) for c in made.cells])


def _same(made: Comparison, folder: Path) -> None:
    """Refuse to mix two comparisons: a cell of one name must have one configuration.

    That of a cell which a shorter file left out meanwhile is known from its run alone.
    """
    old = read(folder)
    before, why = {c.id: _key(c.config) for c in old.cells}, ""
    if old.budget != made.budget:
        why = "with another budget"
    if made.budget.kind != "rounds" and made.budget.amount is None and not _measured(old, made):
        why = f"whose budget is the {made.budget.kind} that another baseline uses"
    for cell in made.cells:
        key = _key(cell.config)
        if before.get(cell.id, key) != key or not _begun_so(key, cell, made, folder):
            why = f"whose cell '{cell.id}' has other settings"
            break
    if why:
        raise RunError(
            f"'{folder}' holds another comparison, {why}: name another --folder, or continue "
            f"that one: unalike compare {folder}."
        )


def _begun_so(key: Any, cell: Cell, made: Comparison, folder: Path) -> bool:
    """Whether the cell's run, if it has begun, has the cell's configuration."""
    if not begun(folder, cell):
        return True
    raw = read_json(folder / cell.folder / "config.json")
    try:
        found = _key(parse(raw)) if isinstance(raw, dict) else {}
    except ConfigError:
        return False
    sets_it = made.budget.amount is None and cell.label == made.baseline
    if made.budget.kind != "rounds" and not sets_it:
        key = {**key, "rounds": found.get("rounds")}  # those the budget bought
    if cell.config.evaluation.every == AUTO and found:
        every = {"every": found["evaluation"]["every"]}  # as all cells of its condition
        key = {**key, "evaluation": {**key["evaluation"], **every}}
    if cell.config.engine.kind == AUTO and found:
        key = {**key, "engine": found["engine"]}  # what was measured
    return bool(found == key)


def _measured(old: Comparison, made: Comparison) -> bool:
    """Whether one baseline sets both budgets, as far as conditions and seeds agree."""
    before, now = old.baselines, made.baselines
    return old.baseline == made.baseline and all(
        _key(before[place].config) == _key(now[place].config)
        for place in before.keys() & now.keys()
    )


def _key(config: Config) -> Any:
    """What two cells must agree in, apart from their folders."""
    raw = config.resolved()
    run = {k: v for k, v in raw["run"].items() if k != "folder"}
    return plain({**raw, "run": run})


def _taken(folder: Path) -> bool:
    """Whether the folder holds something other than a comparison."""
    try:
        if not folder.exists():
            return False
        return not folder.is_dir() or any(not p.name.startswith(".") for p in folder.iterdir())
    except OSError:
        return False  # ``_make`` says what is wrong with it
