"""``unalike predict`` and ``unalike export``: a run's model on new rows, or for other programs."""

import sys
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console

from unalike.errors import ConfigError, RunError
from unalike.federation.readers.new_rows import NewRows
from unalike.metrics.catalogue import metric
from unalike.predict.each import by_owner
from unalike.predict.export import Format
from unalike.predict.export import export as write_model
from unalike.predict.trained import Trained, errors, load
from unalike.predict.weights import Which
from unalike.tables.format import count, decimal, number


def predict(
    run: str,
    rows: str,
    client: str | None,
    own: bool,
    probabilities: bool,
    which: Which,
    out: str | None,
    trust: bool,
) -> None:
    """Write the predictions as a table, and say which model they are of."""
    if own and client is not None:
        raise ConfigError("--own uses each row's own client; leave out --client.")
    if out is not None and not out.endswith((".csv", ".parquet")):
        raise ConfigError(f"--out '{out}' must end in .csv or .parquet.")
    trained = load(run, which, trust=trust)
    model = trained if client is None else trained.personal(client)
    read = model.read(rows)
    said = by_owner(model, read) if own else model.outputs(read.x)
    answers = model.named(said)
    table = _table(model, read, answers, model.task.probabilities(said) if probabilities else None)
    if out is None:
        sys.stdout.write(table.write_csv())
    else:
        _write(table, Path(out))
    who = "each row's own client" if own else _whose(model)
    told = (
        f"{count(len(table))} row{'s' * (len(table) != 1)} predicted by {who}, round {model.round}"
    )
    Console(stderr=True, markup=False, highlight=False).print(
        told + _judged(model, read, answers), soft_wrap=True
    )


def export(
    run: str, to: Format, client: str | None, which: Which, out: str | None, trust: bool
) -> None:
    """Write the files and say where they are."""
    console = Console(markup=False, highlight=False)
    for path in write_model(run, to, client=client, which=which, out=out, trust=trust):
        console.print(str(path), soft_wrap=True)


def _table(
    model: Trained, read: NewRows, answers: np.ndarray, shares: np.ndarray | None
) -> pl.DataFrame:
    if answers.ndim > 1:  # a class after every step of a sequence: the last is what comes next
        answers, shares = answers[:, -1], None if shares is None else shares[:, -1]
    columns: dict[str, np.ndarray] = {"row": np.arange(len(answers))}
    if read.names:
        columns["file"] = np.array(read.names)
    if read.clients is not None:
        columns["client"] = read.clients
    columns["prediction"] = answers
    if shares is not None:
        columns |= {f"p({name})": shares[:, i] for i, name in enumerate(model.classes_)}
    return pl.DataFrame(columns)


def _write(table: pl.DataFrame, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        table.write_csv(path) if path.suffix == ".csv" else table.write_parquet(path)
    except OSError as error:
        raise RunError(f"'{path}' cannot be written: {error.strerror or error}.") from None


def _whose(model: Trained) -> str:
    if model.client is not None:
        return f"the model of client {model.clients[model.client]}"
    if len(model.models) > 1:
        several = "the clients'" if model.weights.servers is None else "the servers'"
        return f"the mean of {several} {len(model.models)} models"
    return "the shared model"


def _judged(model: Trained, read: NewRows, answers: np.ndarray) -> str:
    """How well it did, if the rows come with labels that the model knows."""
    if read.labels is None or answers.ndim > 1:
        return ""
    if not model.task.classifies:
        return _measured(answers, read.labels)
    if not np.isin(read.labels, model.classes_.astype(str)).all():
        return ""
    right = float(np.mean(answers.astype(str) == read.labels))
    return f"; accuracy {decimal(right, 4)} on their labels"


def _measured(answers: np.ndarray, labels: np.ndarray) -> str:
    try:
        found = errors(answers, labels)
    except ValueError:  # the column holds something else now
        return ""
    shown = ", ".join(
        f"{metric(name).title} {number(found[name], name)}" for name in ("rmse", "mae", "r2")
    )
    return f"; {shown} on their labels"
