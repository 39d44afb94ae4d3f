"""What can be learned, by name. One more kind of task is one more file here and a line below."""

from collections.abc import Mapping

from unalike.tasks.autoencoding import Autoencoding
from unalike.tasks.base import Judged, NetworkTask, Task
from unalike.tasks.classification import Binary, Classification, MultiClass
from unalike.tasks.regression import Regression
from unalike.tasks.sequences import Sequences

# Named by the data's kind of labels, or by a model that is made for a task of its own.
TASKS: Mapping[str, type[NetworkTask]] = {
    "multiclass": MultiClass,
    "binary": Binary,
    "characters": Sequences,
    "regression": Regression,
    "autoencoding": Autoencoding,
}

__all__ = [
    "TASKS",
    "Autoencoding",
    "Binary",
    "Classification",
    "Judged",
    "MultiClass",
    "NetworkTask",
    "Regression",
    "Sequences",
    "Task",
]
