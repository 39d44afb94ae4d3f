"""``unalike compare``: presets, files and folders of comparisons."""

from os.path import isdir, isfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich import table as rich
from rich.console import Console
from rich.text import Text

from unalike.cli import reporting
from unalike.compare import folder as place
from unalike.compare.presets import about, names, text
from unalike.compare.spec import Comparison, loads, text_of
from unalike.errors import ConfigError
from unalike.report.skew import short_table
from unalike.run.folder.records import alone, read_json
from unalike.tables.model import Table
from unalike.tables.terminal import terminal

if TYPE_CHECKING:
    from unalike.compare.conduct import Outcome
    from unalike.engine.simulation.ranks import Ranks


def compare(
    target: str,
    overrides: list[str],
    folder: str | None,
    scale: str | None,
    processes: int,
    distributed: bool = False,
) -> None:
    """Run a preset or a file in its folder, or continue in a folder."""
    if distributed:
        _shared(target, overrides, folder, scale, processes)
        return
    if place.is_comparison(target):
        if overrides or folder or scale:
            raise ConfigError(
                f"'{target}' is a comparison that has been started: continue it without --set, "
                "--folder and --scale."
            )
        go_on(target, processes)
        return
    written, name, preset = source(target)
    made = loads(written, name, scale, overrides, preset)
    at = Path(folder or f"runs/compare-{_named(name, made)}")
    with place.held(made, at, written, lambda new: _ready(new, at)) as placed:
        outcome = _conduct(placed, at, processes)
    _show(placed, at, outcome)


def _shared(
    target: str, overrides: list[str], folder: str | None, scale: str | None, processes: int
) -> None:
    """One of several processes that share the cells; a restarted one continues what is there."""
    from unalike.compare.conduct import lend_a_hand
    from unalike.engine.simulation.ranks import Torchrun

    ranks = Torchrun()
    if ranks.rank:
        at = Path(ranks.exchange(b"")[0].decode())
        lend_a_hand(place.read(at), at, processes, ranks)
    elif place.is_comparison(target):
        go_on(target, processes, ranks=ranks)
    else:
        written, name, preset = source(target)
        made = loads(written, name, scale, overrides, preset)
        at = Path(folder or f"runs/compare-{_named(name, made)}")
        if place.is_comparison(at):
            go_on(str(at), processes, ranks=ranks)
        else:
            with place.held(made, at, written, lambda new: _ready(new, at)) as placed:
                outcome = _conduct(placed, at, processes, ranks)
            _show(placed, at, outcome)
    ranks.close()


def go_on(
    folder: str, processes: int = 0, trust: bool = False, ranks: "Ranks | None" = None
) -> None:
    """Finish a comparison that was stopped or killed; show one that is finished."""
    at = Path(folder)
    with alone(at):
        made = place.read(at)
        if not trust:
            place.refuse_strangers(made, at)
        made = _ready(made, at)
        outcome = _conduct(made, at, processes, ranks)
    _show(made, at, outcome)


def source(target: str) -> tuple[str, str, bool]:
    """(text, name, whether it is a preset) of a preset or a file, known by its ending."""
    path = Path(target)
    if path.suffix == ".toml" or isfile(path) or (isdir(path) and target not in names()):
        return text_of(path), path.stem, False
    return text(target), target, True


def show_presets() -> None:
    """Every preset with its question."""
    console = Console()
    table = rich.Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name in names():
        title, question, scales = about(name)
        table.add_row(name, Text(f"{title}. {question} (scales: {', '.join(scales)})"))
    console.print(table)
    console.print("Run one: unalike compare NAME --scale small. Data: unalike list NAME.")


def _named(name: str, made: Comparison) -> str:
    """The name of a comparison's folder; scales do not share one."""
    scale = made.source["scale"]
    return name if scale in (None, "small") else f"{name}-{scale}"


def _ready(made: Comparison, folder: Path) -> Comparison:
    """Show the question, and refuse what cannot work."""
    from unalike.compare.conduct import ready  # needs torch, which takes its time to load

    if made.judging.question:
        Console().print(Text(made.judging.question, "italic"))
    return ready(made, folder)


def _conduct(
    made: Comparison, folder: Path, processes: int, ranks: "Ranks | None" = None
) -> "Outcome":
    from unalike.compare.conduct import conduct_held
    from unalike.compare.view import for_console

    if ranks is not None:
        ranks.exchange(str(folder).encode())
    return conduct_held(made, folder, processes, for_console(Console()), ranks)


def _show(made: Comparison, folder: Path, outcome: "Outcome") -> None:
    from unalike.compare.tables import tables

    console = Console()
    if not outcome.analysis.lines:
        outcome.check(folder)  # there is nothing to show except the reason
    shown = [_skew(made, folder), *tables(made, outcome.analysis)]
    console.print(terminal(shown, console.width))
    console.print(f"tables and runs: {folder}", soft_wrap=True, markup=False)
    reporting.write(str(folder), None)
    outcome.check(folder)


def _skew(made: Comparison, folder: Path) -> Table:
    """How unalike the clients of each condition are, from its first run that has begun."""
    skews: dict[str, dict[str, float]] = {}
    for cell in made.cells:
        found = folder / cell.folder / "skew.json"
        if cell.condition not in skews and found.is_file():
            skews[cell.condition] = read_json(found)["skew"]
    return short_table(skews, "How unalike the clients are")
