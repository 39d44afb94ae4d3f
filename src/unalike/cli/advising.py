"""``unalike advise``: the skew of the data in words, a tournament, a recommendation."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from unalike.advise.advice import TITLES, advise, finalists
from unalike.advise.entrants import lineup
from unalike.advise.pages import as_dict, no_advice, notes, page, tables
from unalike.advise.tournament import play
from unalike.advise.words import in_words, model_in_words
from unalike.compare.statistics.reuse import Reuse
from unalike.errors import ConfigError, DataError, RunError, no_such
from unalike.federation.data import TEST, TRAIN, VALIDATION, Federation
from unalike.federation.feature_skew import measure_features
from unalike.federation.skew import measure
from unalike.metrics.catalogue import metric
from unalike.run.configuration.config import Config, override, parse, read
from unalike.run.experiment.build import assemble, federation
from unalike.run.experiment.facts import facts
from unalike.run.experiment.task import task
from unalike.run.folder.records import dumps, write
from unalike.run.measures.selecting import selection_metric
from unalike.tables.terminal import terminal


def recommend(config: Config, folder: Path, minutes: float, seeds: int) -> None:
    """Measure, run the tournament, and write and print its advice."""
    console = Console(highlight=False, markup=False)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"'{folder}' already exists; name another with --folder.")
    data = federation(config)
    _refuse(data)
    skew = measure(data.counts)
    words = in_words(skew, measure_features(data, config.seed))
    console.print(f"{data.examples.name}, {skew.clients} clients:", *words)
    entered = lineup(config, data)
    made = assemble(entered.entrants[0].config, data, task(config, data.examples))  # refuse early
    model = model_in_words(config.model, facts(made)["parameters"])
    console.print(f"All methods train {model}.")
    name = selection_metric(config)
    try:
        (folder / "runs").mkdir(parents=True)
    except OSError as error:
        raise RunError(f"'{folder}' cannot be made: {error.strerror}; choose another.") from None
    with console.status("") as status:

        def tell(text: str) -> None:
            status.update(Text(text))
            if not console.is_terminal:
                console.print(text)

        found = play(entered.entrants, folder, 60 * minutes, seeds, name, tell, entered.works)
    who = {one.name: one for one in entered.entrants}
    lines = finalists(found, lambda name: who[name].sends(data), _reuse(data, name))
    advice = advise(found, lines, config.rounds)
    write(folder / "advice.md", page(words, model, entered, found, lines, advice, config.rounds))
    record = as_dict(skew, words, model, entered, found, lines, advice)
    write(folder / "advice.json", dumps(record, indent=2))
    console.print(terminal(tables(found, lines, config.rounds), console.width))
    for name, why in {**entered.left_out, **found.failed}.items():
        console.print(f"left out: {name}: {why}")
    for one in advice:
        said = f": {one.sentence} {one.cost}"
        console.print(Text.assemble((TITLES[one.goal], "bold"), said))
    if not advice:
        console.print(no_advice(found))
    for note in notes(found, config.rounds):
        console.print(note)
    console.print(f"files: {folder}", soft_wrap=True)


def _reuse(data: Federation, name: str) -> dict[str, Reuse]:
    """What seeds share: rows that each of them splits in a new way, or the data's own test set."""
    known = slice(None, data.n_clients)
    tested, trained = (int(data.sizes(part)[known].sum()) for part in (TEST, TRAIN))
    again = Reuse(tested / max(trained + data.unused, 1))
    own = data.examples.test_y
    if own is None:
        return {"local": again, "global": again}
    return {"local": again, "global": Reuse(fixed=len(own) if metric(name).of_rows else None)}


def _refuse(data: Federation) -> None:
    """Refuse data on which no tournament can be scored, before anything is written."""
    if data.n_clients < 2:
        raise DataError(
            "there is only one client, and methods differ by what clients share; name the client "
            "column with --client, or draw clients with --set partition.name=dirichlet."
        )
    if not data.sizes(VALIDATION)[: data.n_clients].any():
        raise DataError(
            "no client has validation rows, and methods are never chosen on test rows; raise "
            "split.validation or give clients more rows."
        )


def configuration(target: str, label: str | None, client: str | None, sets: list[str]) -> Config:
    """The configuration in a TOML file, or one around a file of data."""
    path = Path(target)
    if path.suffix == ".toml":
        if label or client:
            raise ConfigError(
                "--label and --client are for a file of data; set them in the TOML file."
            )
        raw = read(path)
    else:
        raw = _around(path, label, client, any(s.startswith("partition") for s in sets))
    override(raw, *sets)
    return parse(raw)


def _around(path: Path, label: str | None, client: str | None, parted: bool) -> dict[str, Any]:
    if not path.exists():
        raise ConfigError(no_such("file", path, "give a TOML file or a file of data"))
    if client is not None and client == label:
        raise ConfigError(f"'{label}' cannot be both the label and the client; name two columns.")
    data: dict[str, Any] = {"name": "files", "path": str(path)}
    data |= {"label": label} if label else {}
    data |= {"client": client} if client else {}
    if client or (path.is_dir() and not parted):
        return {"data": data, "partition": {"name": "natural"}}
    if not parted:
        raise ConfigError(
            f"it is not clear which client a row of '{path}' belongs to; name the column with "
            "--client, or draw clients with --set partition.name=dirichlet."
        )
    return {"data": data}
