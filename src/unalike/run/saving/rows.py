"""How rows become what the models take, and which row went to which client.

features.json          how rows were read and what was learned about features from training rows
rows.npz               which row of the data went to which client, and what for
"""

import io
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from torch import Tensor

from unalike.federation.data import Examples, Federation
from unalike.run.experiment.live import Experiment
from unalike.run.experiment.shape import Shape

FORMAT = 1


def described(made: Experiment) -> dict[str, Any]:
    """The contents of features.json."""
    return description(made.federation, made.config.evaluation.ensemble)


def description(federation: Federation, ensemble: str) -> dict[str, Any]:
    """The same of clients that are here."""
    examples = federation.examples
    return {
        "format": FORMAT,
        "data": examples.name,
        "shape": Shape.of(federation)._asdict(),
        "classes": _classes(examples),
        "reading": examples.reading._asdict(),
        **federation.features.as_dict(),
        "clients": list(federation.names[: federation.n_clients]) or federation.n_clients,
        "ensemble": ensemble,
    }


def _classes(examples: Examples) -> list[str]:
    """What can be predicted; nothing where it is a number."""
    if examples.ranges is not None:
        return []
    return list(examples.class_names) or list(map(str, range(examples.classes)))


def row_file(made: Experiment) -> bytes:
    """Row of the data, client and part of each example."""
    federation = made.federation
    row = np.arange(len(federation.owner)) if federation.source is None else federation.source
    raw = io.BytesIO()
    arrays = {"row": row, "client": federation.owner, "part": federation.part}
    # Numbers drawn at random hardly shrink: trying harder takes seconds for a million clients.
    with ZipFile(raw, "w", ZIP_DEFLATED, compresslevel=1) as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, _small(values))
    return raw.getvalue()


def _small(values: np.ndarray | Tensor) -> np.ndarray:
    """Whole numbers in as few bytes as they need."""
    array = np.asarray(values)
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))
