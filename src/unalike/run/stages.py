"""Runs that need another run before them: a VAE whose encoder measures the clients of this one.

``latent_disco`` with refresh = "two_stage" and no encoder trains the VAE by FedAvg first, with the
same data, model, clients and rounds, in the folder ``first`` inside the run's own. What a stage
before has sent and computed counts as this run's, wherever its folder lies.
"""

from pathlib import Path
from typing import Any, NamedTuple, cast

from unalike.engine.ledger import Traffic
from unalike.errors import ConfigError
from unalike.models import Model
from unalike.models.vae import BetaVAE
from unalike.run.config import Config, Named, tables
from unalike.run.folder import read_json

FOLDER = "first"


class Spent(NamedTuple):
    """What came before the first round."""

    traffic: Traffic = Traffic()
    samples: float = 0.0


NOTHING = Spent()


def first_stage(config: Config) -> Config | None:
    """The run that has to come before this one; None if nothing has to."""
    named = [config.method, *config.plus]
    if not any(map(_waits, named)):
        return None
    model = cast(type[Model], tables()["model"][config.model.name])
    if model.task != BetaVAE.task:
        raise ConfigError(
            f"method 'latent_disco' needs a trained autoencoder, and model '{config.model.name}' "
            'is none: train one by model.name = "vae" and name its run folder by method.encoder.'
        )
    others = [n for n in named if not _waits(n)]
    method = others[0] if others else Named(name="fedavg", settings={})
    return config.model_copy(update={"method": method, "plus": others[1:]})


def second_stage(config: Config, encoder: Path) -> Config:
    """The configuration with the trained encoder."""

    def filled(named: Named) -> Named:
        settings = {**named.settings, "encoder": str(encoder)}
        return named.model_copy(update={"settings": settings}) if _waits(named) else named

    plus = [filled(n) for n in config.plus]
    return config.model_copy(update={"method": filled(config.method), "plus": plus})


def spent(config: Config, survey: Traffic) -> Spent:
    """What this run's survey and the runs it builds on have sent and computed."""
    total = Spent(survey)
    for named in (config.method, *config.plus):
        summary = Path(named.settings.get("encoder") or ".") / "summary.json"
        if named.settings.get("encoder") and summary.is_file():
            total = _plus(total, read_json(summary))
    return total


def _waits(named: Named) -> bool:
    settings = named.settings
    staged = named.name == "latent_disco" and settings["refresh"] == "two_stage"
    return bool(staged and not settings["encoder"])


def _plus(total: Spent, summary: dict[str, Any]) -> Spent:
    t = total.traffic
    traffic = Traffic(
        t.down + summary["bytes_down"],
        t.up + summary["bytes_up"],
        t.across + summary["bytes_across"],
        t.messages + summary["messages"],
    )
    return Spent(traffic, total.samples + summary["samples"])
