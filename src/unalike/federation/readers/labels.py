"""Labels and client names of any type as the numbers 0..M-1 that the rest works with."""

from typing import Any, NamedTuple

import numpy as np

from unalike.errors import DataError
from unalike.federation.readers.rows import RowError

EXACT = 2**53  # up to here a floating-point number is next to no other whole one


class Coded(NamedTuple):
    """``codes[i]`` is the place of entry i in ``levels``, which are sorted."""

    codes: np.ndarray
    levels: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        """The levels as text."""
        return tuple(str(level) for level in self.levels)


def code_clients(values: Any) -> Coded:
    """Client names, whole numbers or text, as 0..G-1 in sorted order."""
    levels, codes = np.unique(_plain(values, "the clients"), return_inverse=True)
    return Coded(codes.astype(np.int64), levels)


def code_labels(values: Any, classes: int | None = None) -> Coded:
    """Labels as 0..M-1: sorted levels, or unchanged when the number of ``classes`` is given."""
    labels = _plain(values, "the labels")
    whole = labels.dtype.kind == "i"
    if whole and len(labels) and labels.min() < 0:
        raise RowError(
            f"labels must not be negative, got {labels.min()} in {{row}}; "
            "number the classes from 0 or give them as text.",
            int(labels.argmin()),
        )
    if classes is not None:
        if not whole:
            raise DataError("labels must be whole numbers when the number of classes is given.")
        if len(labels) and labels.max() >= classes:
            raise RowError(
                f"labels must be 0 to {classes - 1} for {classes} classes, "
                f"got {labels.max()} in {{row}}.",
                int(labels.argmax()),
            )
        return Coded(labels, np.arange(classes))
    levels, codes = np.unique(labels, return_inverse=True)
    if len(labels) >= 20 and len(levels) > len(labels) // 2:
        raise DataError(
            f"{len(levels)} different labels in {len(labels)} rows look like measurements; to "
            "predict the number itself set data.task = 'regression', otherwise name a column of "
            "classes."
        )
    return Coded(codes.astype(np.int64), levels)


def recode(values: Any, levels: np.ndarray) -> np.ndarray:
    """The labels of a test set in the numbering of the training set."""
    labels = _plain(values, "the test labels", test=True)
    if labels.dtype.kind != levels.dtype.kind:
        labels, levels = labels.astype(str), levels.astype(str)
    order = np.argsort(levels)
    place = np.searchsorted(levels, labels, sorter=order)
    codes = order[np.minimum(place, len(levels) - 1)]
    strange = np.flatnonzero(levels[codes] != labels)
    if len(strange):
        raise RowError(
            f"test label '{labels[strange[0]]}' in {{row}} is not among the training "
            f"labels; the two sets must share their {len(levels)} classes.",
            int(strange[0]),
            test=True,
        )
    return codes.astype(np.int64)


def _plain(values: Any, what: str, test: bool = False) -> np.ndarray:
    """``values`` as a vector of int64 or of text, with nothing missing."""
    if hasattr(values, "detach"):  # a tensor
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError:
        raise DataError(f"{what} must be one value for each row, got rows of several.") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        hint = "; take the argmax of one-hot rows" if array.ndim == 2 else ""
        raise DataError(
            f"{what} must be one value for each row, got an array of shape {array.shape}{hint}."
        )
    if array.dtype.kind == "O":
        array = _from_objects(array, what, test)
    kind = array.dtype.kind
    if kind == "f":
        return _whole(array, what, test)
    if kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        return array.astype(str)  # hashes, whose numbers mean nothing
    if kind in "iu":
        return array.astype(np.int64)
    if kind == "S":
        return _decoded(array, what, test)
    if kind in "bUT":
        return array.astype(str)
    raise DataError(f"{what} must be whole numbers or text, got {array.dtype}.")


def _decoded(array: np.ndarray, what: str, test: bool) -> np.ndarray:
    """Bytes as the text they are in UTF-8."""
    for row, value in enumerate(array):
        try:
            value.decode()
        except UnicodeDecodeError:
            raise RowError(
                f"{what} must be text in UTF-8, got {bytes(value)!r:.40} in {{row}}.", row, test
            ) from None
    return np.char.decode(array, "utf-8")


def _from_objects(array: np.ndarray, what: str, test: bool) -> np.ndarray:
    missing = np.flatnonzero([_is_missing(value) for value in array])
    if len(missing):
        raise RowError(f"{what} must not be missing: {{row}} has none.", int(missing[0]), test)
    if all(isinstance(value, str) for value in array):
        return array.astype(str)
    if any(isinstance(value, str) for value in array):
        raise DataError(f"{what} mix text and numbers; make all of them one or the other.")
    plain = np.array(array.tolist())
    if plain.dtype.kind == "O" or plain.ndim != 1:
        raise DataError(
            f"{what} must be whole numbers or text, got {type(array[0]).__name__} objects."
        )
    return plain


def _is_missing(value: object) -> bool:
    gone = value is None or type(value).__name__ in ("NAType", "NaTType")
    return gone or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def _whole(array: np.ndarray, what: str, test: bool) -> np.ndarray:
    odd = np.flatnonzero(~np.isfinite(array))
    if len(odd):
        missing = f"{what} must not be missing: {{row}} has {array[odd[0]]}."
        raise RowError(missing, int(odd[0]), test)
    odd = np.flatnonzero(np.abs(array) > EXACT)
    if len(odd):
        large = (
            f"{what} have {array[odd[0]]} in {{row}}, too large to be distinguished from "
            "neighbouring numbers; give them as text."
        )
        raise RowError(large, int(odd[0]), test)
    odd = np.flatnonzero(array != np.round(array))
    if len(odd):
        way = "give them as text"
        if what == "the labels":
            way = "to predict the number itself set data.task = 'regression'"
        broken = f"{what} must be whole numbers or text, got {array[odd[0]]} in {{row}}; {way}."
        raise RowError(broken, int(odd[0]), test)
    return array.astype(np.int64)
