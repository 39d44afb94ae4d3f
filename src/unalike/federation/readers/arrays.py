"""Reads arrays that are already in memory: NumPy arrays, tensors or nested lists."""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from unalike.errors import DataError
from unalike.federation.columns import NOTHING, Normalise, Pending, Reading, Scale
from unalike.federation.readers.labels import code_clients, code_labels, recode
from unalike.federation.readers.targets import looks_measured, numbers, read_measured
from unalike.kinds import of_classes

if TYPE_CHECKING:  # torch is loaded when there is something to read, not before
    from torch import Tensor

    from unalike.federation.data import Examples
    from unalike.kinds import Kind

Layout = Literal["auto", "features", "NHW", "NCHW", "NHWC"]
_CHANNELS = (1, 3)


def from_arrays(
    x: Any,
    y: Any,
    groups: Any = None,
    *,
    test: tuple[Any, Any] | None = None,
    classes: int | None = None,
    class_names: tuple[str, ...] = (),
    kind: "Kind | None" = None,
    layout: Layout = "auto",
    name: str = "data",
    pending: Pending | None = None,
    normalise: Normalise = "auto",
) -> "Examples":
    """Examples from features ``x`` and labels ``y``, one row each.

    Labels that are clearly measurements (more than 20 different numbers, some with fractions) are
    learned as numbers; whole numbers only if ``kind`` is "regression".

    Args:
        x: One row for each example; see ``features`` for how images are treated.
        y: Whole numbers or text; numbered 0..M-1 in sorted order.
        groups: The natural client of each row, whole numbers or text.
        test: ``(x, y)`` of the dataset's own test set.
        classes: Keeps the labels as they are, even if some of 0..classes-1 do not occur.
        class_names: Names of the classes; by default the labels themselves.
        kind: By default two classes are "binary" (one logit) and more are "multiclass";
            "regression" learns the numbers themselves, and ranges of them replace classes when rows
            are split or counted.
        layout: Where an image's channels are.
        name: Name of the dataset in reports.
        pending: What is learned once it is known which rows train; in columns that it fills, ``x``
            may have gaps (NaN).
        normalise: Without ``pending``: whether ``federate`` scales columns to mean 0 and variance
            1 of training rows; "auto" does so with tables, as reading them from a file does.

    Example:
        >>> examples = from_arrays([[0.1], [0.2], [0.3]], ["cat", "ant", "cat"])
        >>> examples.class_names, examples.y.tolist()
        (('ant', 'cat'), [1, 0, 1])
    """
    import torch

    from unalike.federation.data import Examples

    gaps = pending is not None and bool(pending.columns)
    inputs = features(x, layout, gaps=gaps)
    plain = kind is None and classes is None and not class_names
    if kind == "regression" or (plain and looks_measured(y)):
        labels = _numbers(y, test)
    else:
        labels = _classes(y, test, classes, kind, class_names)
    _same_length("x", len(inputs), "y", len(labels.y))
    clients = None
    if groups is not None:
        clients = code_clients(groups)
        _same_length("x", len(inputs), "groups", len(clients.codes))
    test_x = None
    if test is not None and labels.test_y is not None:
        test_x = features(test[0], layout, "the test x", gaps)
        _same_length("the test x", len(test_x), "the test y", len(labels.test_y))
        if test_x.shape[1:] != inputs.shape[1:]:
            raise DataError(
                f"training rows have shape {tuple(inputs.shape[1:])} but test rows have "
                f"{tuple(test_x.shape[1:])}; they must agree."
            )
    auto: Scale = "pooled" if inputs.ndim == 2 else "none"
    scale = auto if normalise == "auto" else normalise
    pending = NOTHING._replace(scale=scale) if pending is None else pending
    return Examples(
        x=inputs,
        y=torch.from_numpy(labels.y),
        classes=len(labels.names),
        kind=labels.kind,
        groups=clients.codes if clients else None,
        group_names=clients.names if clients else (),
        test_x=test_x,
        test_y=None if labels.test_y is None else torch.from_numpy(labels.test_y),
        class_names=labels.names,
        name=name,
        pending=pending._replace(target=labels.ranges is not None),
        reading=Reading(layout=layout, whole=labels.whole),
        ranges=labels.ranges,
    )


class _Labels(NamedTuple):
    """What is predicted, as the rest works with it."""

    kind: "Kind"
    y: np.ndarray
    test_y: np.ndarray | None
    names: tuple[str, ...]  # of classes, or of the ranges that take their place
    whole: bool = False
    ranges: np.ndarray | None = None


def _classes(
    y: Any,
    test: tuple[Any, Any] | None,
    classes: int | None,
    kind: "Kind | None",
    names: tuple[str, ...],
) -> _Labels:
    labels = code_labels(y, classes)
    if names and len(names) != len(labels.levels):
        raise DataError(f"{len(names)} class names for {len(labels.levels)} classes.")
    return _Labels(
        kind or of_classes(len(labels.levels)),
        labels.codes,
        None if test is None else recode(test[1], labels.levels),
        names or labels.names,
        labels.levels.dtype.kind == "i" and not names,
    )


def _numbers(y: Any, test: tuple[Any, Any] | None) -> _Labels:
    found = read_measured(y)
    test_y = None if test is None else numbers(test[1], test=True)
    return _Labels("regression", found.values, test_y, found.names, ranges=found.ranges)


def features(x: Any, layout: Layout = "auto", what: str = "x", gaps: bool = False) -> "Tensor":
    """``x`` as float32: tables [N, F] as they are, images [N, C, H, W], bytes scaled to [0, 1].

    Under "auto" four axes are an image whose channels (1 or 3 of them) come first or last, and
    three axes are a grey image if they are bytes (uint8) and a sequence otherwise.
    """
    import torch

    raw = _tensor(x, what)
    if len(raw) == 0:
        raise DataError(f"{what} has no rows.")
    if raw.ndim < 2 or raw.numel() == 0:
        raise DataError(
            f"{what} must have rows and features, got shape {tuple(raw.shape)}; "
            "a single feature is x.reshape(-1, 1)."
        )
    layout = _layout(raw, what) if layout == "auto" else layout
    if layout != "features" and raw.ndim != len(layout):
        raise DataError(
            f"{what} has {raw.ndim} axes, but the layout {layout} has {len(layout)}; "
            "choose another layout."
        )
    if layout == "NHW":
        raw = raw.unsqueeze(1)
    elif layout == "NHWC":
        raw = raw.permute(0, 3, 1, 2)
    if raw.dtype == torch.uint8:
        scale = 1.0 if layout == "features" else 255.0
        return raw.to(torch.float32, memory_format=torch.contiguous_format).div_(scale)
    values = raw.to(torch.float32).contiguous()
    if not gaps:
        _finite(values, what)
    return values


def _layout(raw: "Tensor", what: str) -> Layout:
    import torch

    if raw.ndim == 3 and raw.dtype == torch.uint8:
        return "NHW"
    if raw.ndim != 4:
        return "features"
    first, last = raw.shape[1] in _CHANNELS, raw.shape[3] in _CHANNELS
    if first == last:
        raise DataError(
            f"{what} of shape {tuple(raw.shape)} does not show where the channels are; "
            "set layout to NCHW, NHWC or features."
        )
    return "NCHW" if first else "NHWC"


def _tensor(x: Any, what: str) -> "Tensor":
    import torch

    if isinstance(x, torch.Tensor):
        tensor = x.detach().cpu()
    else:
        try:
            array = np.asarray(x)
        except ValueError:
            raise DataError(f"the rows of {what} differ in length; make them equal.") from None
        if array.dtype.kind not in "biuf":
            raise DataError(
                f"{what} must be numbers, got {array.dtype}; use from_frame to read a table with "
                "text."
            )
        # Long doubles, unsigned integers beyond uint8 and foreign byte orders have no tensor type.
        long = array.dtype.kind == "f" and array.dtype.itemsize > 8
        if long or (array.dtype.kind == "u" and array.dtype != np.uint8):
            array = array.astype(np.float64)
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
    if tensor.ndim == 0 or tensor.is_complex():
        raise DataError(f"{what} must be an array of real numbers.")
    return tensor


def _finite(x: "Tensor", what: str) -> None:
    import torch

    if torch.isfinite(x.sum()):  # no bad entry leaves a sum finite, and this needs no mask
        return
    bad = ~torch.isfinite(x.flatten(1))
    rows = bad.any(1).nonzero()[:, 0]
    if len(rows):
        row = int(rows[0])
        column = int(bad[row].nonzero()[0, 0])
        value = x.flatten(1)[row, column].item()
        raise DataError(
            f"{what} has {value} in row {row}, column {column}, both counted from 0 ({len(rows)} "
            "such rows); remove or fill missing and infinite values."
        )


def _same_length(one: str, n: int, other: str, m: int) -> None:
    if n != m:
        raise DataError(f"{one} has {n} rows but {other} has {m}; they must agree.")
