"""What rounds, settings and methods are chosen by: a metric on validation rows, never on test."""

from typing import Any, cast

from unalike.errors import ConfigError
from unalike.federation.datasets.base import Dataset
from unalike.models import Model
from unalike.run.configuration.config import Config
from unalike.run.experiment.build import chosen
from unalike.tasks import TASKS


def selection_metric(config: Config) -> str:
    """The validation metric of a configuration, with ``auto`` resolved."""
    if config.evaluation.select != "auto":
        return config.evaluation.select
    return headline(config)


def headline(config: Config) -> str:
    """The main metric of a run; the data are read if only they can tell."""
    model, data = cast(Model, chosen("model", config.model)), chosen("data", config.data)
    return TASKS[model.task or cast(Dataset, data).kind()].headline


def validation_score(record: dict[str, Any], metric: str) -> float | None:
    """The mean over clients in one round; None where the round was not evaluated."""
    if not record["metrics"]:
        return None
    value = record["metrics"].get("validation", {}).get(metric, {}).get("mean")
    if value is None:
        raise ConfigError(
            f"no client has validation rows with a defined {metric}, and nothing is ever chosen "
            "on test rows; raise split.validation."
        )
    return float(value)
