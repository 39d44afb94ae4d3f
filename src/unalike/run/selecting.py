"""What rounds, settings and methods are chosen by: a metric on validation rows, never on test."""

from typing import Any, cast

from unalike.errors import ConfigError
from unalike.models import Model
from unalike.run.config import Config, tables
from unalike.tasks import TASKS, Classification


def selection_metric(config: Config) -> str:
    """The validation metric of a configuration, with ``auto`` resolved."""
    if config.evaluation.select != "auto":
        return config.evaluation.select
    return headline(config.model.name)


def headline(model: str) -> str:
    """What a task with the named model is first of all judged by, whatever its data."""
    task = cast(type[Model], tables()["model"][model]).task
    return TASKS[task].headline if task else Classification.headline


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
