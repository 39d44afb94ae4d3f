"""skew.json: the partition, what it does to clients, and what was decided when it was seen."""

from typing import Any

from unalike.federation.data import TEST, TRAIN, VALIDATION, Federation
from unalike.federation.feature_skew import measure_features
from unalike.federation.skew import measure
from unalike.run.experiment.facts import facts
from unalike.run.experiment.live import Experiment
from unalike.run.measures.groups import groups


def partition_record(made: Experiment) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the measures of skew, all that skew.json says: of all clients, and of each that judges)."""
    federation, judging = made.federation, made.simulation.examiner.judging
    features = measure_features(federation, made.config.seed)
    skew = measure(federation.counts).as_dict() | features.as_dict()
    each = {name: values[:judging] for name, values in features.per_client().items()}
    own = {"groups": groups(made), "features": each, **facts(made)}
    return skew, partitioned(federation, skew, judging) | own


def partitioned(federation: Federation, skew: dict[str, Any], judging: int) -> dict[str, Any]:
    """What is said of clients that are here, without their groups."""
    some = slice(judging if judging < federation.n_clients else None)  # all: the new ones, too
    return {
        "skew": skew,
        "counts": federation.counts[some].tolist(),
        "classes": list(federation.examples.class_names),
        "ranges": federation.examples.ranges is not None,  # these stand for classes
        "names": list(federation.names[some]),
        "marks": [list(words) for words in federation.marks[some]],
        "asked": [outcome._asdict() for outcome in federation.outcomes],
        "unused": federation.unused,
        "groups": {},
        "rows": _counted(federation),
    }


def _counted(federation: Federation) -> dict[str, int]:
    """How many rows train, select and test, and how many the data's own test set has."""
    known = slice(None, federation.n_clients)
    parts = {"train": TRAIN, "validation": VALIDATION, "test": TEST}
    held = {name: int(federation.sizes(part)[known].sum()) for name, part in parts.items()}
    own = federation.examples.test_y
    new = int(federation.sizes(TEST)[federation.n_clients :].sum())
    return {**held, "new": new, "own": 0 if own is None else len(own)}
