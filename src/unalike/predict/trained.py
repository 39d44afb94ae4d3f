"""A finished run as a classifier or regressor, after the conventions of scikit-learn."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unalike import tree
from unalike.engine.evaluation.judging import outputs
from unalike.errors import DataError, RunError
from unalike.federation.columns import Csv, Reading
from unalike.federation.data import number_of
from unalike.federation.features import Features
from unalike.federation.readers.new_rows import NewRows, new_rows
from unalike.kinds import AS_GIVEN, Unit
from unalike.metrics.regression import per_client
from unalike.models.own import OwnModel
from unalike.models.spectral import without_spectral_norm
from unalike.predict.weights import Weights, Which, description, read_weights
from unalike.run.configuration.config import Config, Named, parse
from unalike.run.experiment.fit import fit
from unalike.run.experiment.protected import hidden
from unalike.run.experiment.shape import Shape
from unalike.run.experiment.task import task as build_task
from unalike.run.folder import manifest
from unalike.run.folder.location import configured
from unalike.run.folder.origins import copy_of, refuse_stranger
from unalike.run.folder.records import read_json
from unalike.tasks import NetworkTask, Task
from unalike.tree import Params

SHOWN = 10  # classes that a line names


@dataclass(frozen=True, repr=False)
class Trained:
    """The models of a run, with what they need to read new rows.

    Rows may be the path of a table, NPZ file or folder of images, a pandas or polars frame, or an
    array. Without a client the shared model predicts; if only the clients hold whole models, or if
    there are several servers, the prediction is the mean over all of their models.
    """

    clients: tuple[str, ...]
    classes_: np.ndarray  # whole numbers if the labels were such, else text; empty: no classes
    reading: Reading
    features: Features
    weights: Weights
    task: NetworkTask
    shape: Shape
    ensemble: str = "probabilities"
    client: int | None = None  # whose rows are predicted; None: nobody's in particular
    shares: bool = True  # whether the shared model answers

    def __repr__(self) -> str:
        """What it predicts and whose model answers, without its numbers."""
        what = ", ".join(map(str, self.classes_[:SHOWN])) if len(self.classes_) else "a number"
        more = f" and {len(self.classes_) - SHOWN} more" if len(self.classes_) > SHOWN else ""
        whose = "the shared model"
        if self.client is not None and not self.shares:
            whose = f"the model of client {self.clients[self.client]}"
        elif len(self.models) > 1:
            whose = f"{len(self.models)} models together"
        return f"<Trained: {whose} of round {self.round}, predicts {what}{more}>"

    @property
    def round(self) -> int:
        """The round the models are of."""
        return self.weights.round

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The columns of a table that the models look at; empty if it was no table."""
        return np.array([column.name for column in self.features.columns], dtype=object)

    @property
    def n_features_in_(self) -> int:
        """How many features a row has."""
        return len(self.features.columns) or int(np.prod(self.shape.features))

    def personal(self, client: str | int, *, shared: bool = False) -> "Trained":
        """The same for the rows of one client, by its name or number, with its own model.

        With ``shared`` it is the shared model that answers, on rows scaled as this client's are;
        that differs from the whole only where ``data.normalise`` is ``client``.
        """
        number = number_of(client, self.clients, len(self.clients))
        return replace(self, client=number, shares=shared)

    def predict(self, rows: Any) -> np.ndarray:
        """The class of each row, written like the labels; or the number itself."""
        return self.named(self.logits(rows))

    def named(self, outputs: Tensor) -> np.ndarray:
        """The network's outputs as labels, or in the unit of the labels."""
        said = self.task.predictions(outputs)
        return self.classes_[said] if self.task.classifies else said

    def predict_proba(self, rows: Any) -> np.ndarray:
        """The probability of each class, in the order of ``classes_``."""
        return self.task.probabilities(self.logits(rows))

    def score(self, rows: Any, labels: Any) -> float:
        """The share of rows with the right class; R^2 for a regression."""
        said = self.predict(rows)
        if self.task.classifies:
            return float((said.astype(str) == np.asarray(labels).astype(str)).mean())
        return float(errors(said, np.asarray(labels))["r2"])

    def logits(self, rows: Any) -> Tensor:
        """The network's output for each row, before it becomes probabilities."""
        return self.outputs(self.read(rows).x)

    def read(self, rows: Any) -> NewRows:
        """Rows as the training rows were read, not yet filled and scaled."""
        found = new_rows(rows, self.reading, self.features, self.shape.features)
        return found._replace(x=found.x.to(getattr(torch, self.shape.dtype)))

    def outputs(self, x: Tensor) -> Tensor:
        """The network's outputs for rows that have been read."""
        owner = None if self.client is None else torch.full((len(x),), self.client)
        x = self.features.apply(x, owner)
        said = [outputs(self.task, w, x, x.new_zeros(len(x), 0)) for w in self.models]
        found = said[0] if len(said) == 1 else self.task.merge(said, self._how)
        if not torch.isfinite(found).all():
            raise DataError("the model's outputs for these rows are not finite; look for outliers.")
        return found

    @cached_property
    def models(self) -> list[Params]:
        """The weights that answer; several are asked one by one."""
        if self.client is not None and not self.shares:
            return [self.weights.of(self.client)]
        found = self.weights.shared()
        if self.weights.servers is None and self.ensemble == "weights":
            total = found[0]
            for other in found[1:]:
                total = tree.add(total, other)
            return [tree.scale(1 / len(found), total)]
        return found

    @property
    def module(self) -> nn.Module:
        """The network as an ordinary module in evaluation mode; it takes rows filled and scaled."""
        if len(self.models) > 1:
            raise RunError(
                f"{len(self.models)} models predict together here, which no single module can "
                "do; name a client."
            )
        return self.task.delivered(self.task.network.module(self.models[0])).eval()

    @property
    def _how(self) -> str:
        return self.ensemble if self.weights.servers is None else "probabilities"


def load(
    folder: str | Path,
    which: Which = "selected",
    *,
    module: nn.Module | None = None,
    trust: bool = False,
) -> Trained:
    """The models of a finished run, ready to predict.

    Args:
        folder: The folder of a run; it may have been moved.
        which: The round selected on validation rows, or the last.
        module: The network, if it was given in Python, so that no file describes it.
        trust: Whether to run the Python file of a model that somebody else wrote.

    Example:
        >>> import tempfile, unalike
        >>> place = tempfile.mkdtemp() + "/run"
        >>> raw = {"rounds": 2, "data": "breast_cancer", "run": {"folder": place}}
        >>> trained = unalike.load(unalike.start(unalike.parse(raw)))
        >>> trained.classes_.tolist(), trained.predict(np.zeros((2, 30))).shape
        (['malignant', 'benign'], (2,))
    """
    folder = Path(folder)
    if folder.is_file():
        raise RunError(f"'{folder}' is a file; give the folder of a run.")
    raw, weights = description(folder), read_weights(folder, which)
    if weights.given and module is None:
        raise RunError(
            f"the network of '{folder}' was given in Python; load it with "
            f"module={weights.given}(...)."
        )
    config = _config(folder, trust or module is not None)
    task = _task(config, _shape(raw), module)
    if "SpectralLinear" in task.network.layers and "SpectralLinear" not in weights.layers:
        task = replace(task, network=task.network.changed(without_spectral_norm))
    return trained(raw, weights, task)


def trained(raw: dict[str, Any], weights: Weights, task: Task) -> Trained:
    """From the contents of features.json, models, and the task they were trained for."""
    if not isinstance(task, NetworkTask) or not task.predicts:
        raise RunError(f"the run trained {task.called}, which predicts nothing.")
    read = dict(raw["reading"])
    separator, encoding, na_values, *decimal = read["csv"]  # which older runs do not name
    csv = Csv(separator, encoding, tuple(na_values), *decimal)
    nameless = isinstance(raw["clients"], int)  # then it says how many there are
    return Trained(
        tuple(map(str, range(raw["clients"]) if nameless else raw["clients"])),
        np.array([int(c) if read["whole"] else c for c in raw["classes"]]),
        Reading(**{**read, "csv": csv}),
        Features.of(raw),
        weights,
        task,
        _shape(raw),
        raw["ensemble"],
    )


def _shape(raw: dict[str, Any]) -> Shape:
    given = raw["shape"]
    axes = {name: tuple(given[name]) for name in ("features", "targets")}
    return Shape(**{**given, **axes, "unit": Unit(*given.get("unit", AS_GIVEN))})


def errors(said: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """RMSE, MAE and R^2 of predicted numbers."""
    true = torch.from_numpy(labels.astype(np.float64).reshape(-1))
    owner = torch.zeros(len(true), dtype=torch.long)
    found = per_client(torch.from_numpy(said), true, owner, 1)
    return {name: float(value) for name, value in found.items()}


def _config(folder: Path, trust: bool) -> Config:
    """The run's configuration; a model of the user's own is taken from the copy in the folder."""
    given = read_json(folder / "config.json")
    config = parse({k: given[k] for k in ("seed", "model", "run") if k in given})
    model = config.model
    if model.name == OwnModel.name:
        config = configured(folder)
        found, file = manifest.read(folder), str(model.settings["file"])
        if not trust:
            refuse_stranger(folder, config, found, "load it with trust")
        known = "" if found is None else found.code.get(file, "")
        copy = copy_of(folder, file, known)
        if not copy.is_file() or manifest.digest(copy) != known:
            raise RunError(f"'{copy}' is no longer the model's file; restore it from a copy.")
        model = Named(name=model.name, settings={**model.settings, "file": str(copy)})
    engine = config.engine.model_copy(update={"kernels": False})
    return config.model_copy(update={"model": model, "engine": engine})


def _task(config: Config, shape: Shape, module: nn.Module | None) -> NetworkTask:
    blank = shape.blank()
    if module is not None:
        track, what = config.run.buffers != "drop", f"the model {type(module).__name__}"
        return fit(hidden(module, blank, what), blank, what, track)
    made = build_task(config, blank)
    assert isinstance(made, NetworkTask)
    return made
