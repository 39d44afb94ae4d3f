"""Reads NPZ files, the arrays that ``numpy.savez`` writes; pickled objects are refused."""

import struct
import zipfile
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING

import numpy as np

from unalike.errors import DataError, no_such
from unalike.federation.readers.arrays import Layout, from_arrays

if TYPE_CHECKING:
    from unalike.federation.data import Examples
    from unalike.kinds import Kind

FREE, VALIDATION = -1, 1  # as in federation/data.py, which loads torch

# Where the validation rows are, by the key of the training rows.
_VALIDATION = {
    "x_train": ("x_val", "y_val"),
    "X_train": ("X_val", "y_val"),
    "train_images": ("val_images", "val_labels"),
}
# What zipfile, zlib and NumPy's own reader of headers raise on bytes that are no such file.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    RuntimeError,  # encrypted; unknown compression; nested too deeply
    OverflowError,
    TokenError,
    SyntaxError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    struct.error,
)
# (x, y, test x, test y) as Keras, scikit-learn users and MedMNIST name them.
_KEYS = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("X_train", "y_train", "X_test", "y_test"),
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("x", "y", "", ""),
    ("X", "y", "", ""),
)


def read_npz(
    path: str | Path, *, client: str = "", layout: Layout = "auto", kind: "Kind | None" = None
) -> "Examples":
    """Examples from ``x`` and ``y``, or ``x_train``, ``y_train``, ``x_test`` and ``y_test``.

    ``client`` is the key of the natural client of each training row. Validation rows (``x_val``
    and ``y_val``) are clients' rows too, split like the others; their clients are under the key
    ``client`` with ``_val`` behind it, or follow those of the training rows.
    """
    arrays = load_npz(path)
    found = ", ".join(sorted(arrays)) or "none"
    keys = next((keys for keys in _KEYS if keys[0] in arrays and keys[1] in arrays), None)
    if keys is None:
        raise DataError(
            f"'{path}' must hold x and y, or x_train and y_train; its keys are {found}."
        )
    if client and client not in arrays:
        raise DataError(f"'{path}' has no clients under '{client}'; its keys are {found}.")
    x, y, test_x, test_y = keys
    has_test = test_x in arrays and test_y in arrays
    rows, labels, clients = arrays[x], arrays[y], arrays[client] if client else None
    val_x, val_y = _VALIDATION.get(x, ("", ""))
    part = None
    if val_x in arrays and val_y in arrays:
        part = np.repeat([FREE, VALIDATION], [len(rows), len(arrays[val_x])]).astype(np.int8)
        if rows.shape[1:] != arrays[val_x].shape[1:]:
            raise DataError(f"'{path}': rows of {x} and {val_x} differ in shape.")
        rows = np.concatenate([rows, arrays[val_x]])
        labels = np.concatenate([labels, arrays[val_y]])
        if clients is not None and len(clients) < len(rows):
            clients = np.concatenate([clients, _clients_of(arrays, f"{client}_val", path)])
    examples = from_arrays(
        rows,
        labels,
        clients,
        test=(arrays[test_x], arrays[test_y]) if has_test else None,
        kind=kind,
        layout=layout,
        name=Path(path).stem,
    )
    return replace(examples, reading=examples.reading._replace(client=client), part=part)


def _clients_of(arrays: dict[str, np.ndarray], key: str, path: str | Path) -> np.ndarray:
    if key not in arrays:
        raise DataError(
            f"'{path}' has validation rows but does not say which client owns them; add their "
            f"clients as '{key}'."
        )
    return arrays[key]


def load_npz(path: str | Path) -> dict[str, np.ndarray]:
    """All arrays of the file."""
    if not Path(path).is_file():
        raise DataError(no_such("file", path))
    try:
        with open(path, "rb") as file:  # NumPy leaves a damaged file open
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise DataError(f"'{path}' is a single array; save x and y with numpy.savez.")
            twice = [key for key, n in Counter(archive.files).items() if n > 1]
            if twice:
                raise DataError(f"'{path}' holds '{twice[0]}' twice; save it once.")
            return {key: archive[key] for key in archive.files}
    except DataError:
        raise
    except MemoryError:
        raise DataError(f"'{path}' claims to hold more than fits into memory.") from None
    except _DAMAGE as error:
        raise DataError(
            f"'{path}' is not an NPZ file, or is damaged or encrypted ({type(error).__name__})."
        ) from None
    except ValueError:
        # NumPy says so for both: an object array inside, or a file that is not an archive at all.
        raise DataError(
            f"'{path}' is not an NPZ file, or holds pickled objects, which are not read; "
            "save plain arrays with numpy.savez."
        ) from None
