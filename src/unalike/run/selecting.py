"""What rounds, settings and methods are chosen by: a metric on validation rows, never on test."""

from typing import Any

from unalike.errors import ConfigError
from unalike.models import AUTOENCODERS
from unalike.run.config import Config


def selection_metric(config: Config) -> str:
    """The validation metric of a configuration, with ``auto`` resolved."""
    if config.evaluation.select != "auto":
        return config.evaluation.select
    return "loss" if config.model.name in AUTOENCODERS else "accuracy"


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
