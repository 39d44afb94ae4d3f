"""The ``[tune]`` section of a file: which settings are searched, and where.

[tune]
trials = 20
[tune.search]
"local.lr" = [0.001, 1.0, "log"]             # a range, searched by its logarithm
"local.batch_size" = [16, 32, 64]            # choices
"method.mu" = { choices = [0.01, 0.1] }      # two numbers alone would be a range
"""

import json
import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from unalike.errors import ConfigError, UnalikeError, unknown
from unalike.run.configuration.config import Config, parse
from unalike.run.configuration.dotted import flat
from unalike.run.configuration.explain import check, shown
from unalike.run.configuration.overrides import override
from unalike.settings import Settings

SEARCHED = ("local", "method", "model", "participation", "plus", "rounds", "topology")
FORMS = '[low, high], [low, high, "log"], a list of choices or { choices = [...] }'


class TuneSettings(Settings):
    """A search of settings on validation rows."""

    trials: int = Field(
        default=20, ge=1, description="number of settings to try; the file's own come first"
    )
    seeds: int = Field(
        default=1, ge=1, description="seeds to average a trial over, counted from the file's"
    )
    pruning: bool = Field(
        default=True, description="stop a trial that is below the median of the others so far"
    )
    search: dict[str, Any] = Field(
        description='setting -> [low, high], [low, high, "log"], choices or { choices = [...] }',
    )


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, whole ones if both ends are."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are tried."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def holds(self, value: Any) -> bool:
        """Whether the value may be tried."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and self.low <= value <= self.high and not (self.whole and value % 1)

    @property
    def extremes(self) -> Sequence[Any]:
        """The values that are most likely to be refused."""
        return (self.low, self.high)


@dataclass(frozen=True)
class Choices:
    """A few values."""

    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        """Whether the value may be tried."""
        return value in self.values

    @property
    def extremes(self) -> Sequence[Any]:
        """All of them."""
        return self.values


@dataclass(frozen=True)
class Tuning:
    """Everything a search depends on."""

    raw: dict[str, Any]  # the configuration without [tune]
    config: Config
    settings: TuneSettings
    space: dict[str, Range | Choices]

    def at(self, values: Mapping[str, Any], seed: int = 0) -> Config:
        """The configuration of a trial, for the seed so many after the file's."""
        config = parse(_with(self.raw, values))
        return config.model_copy(update={"seed": config.seed + seed})

    def own(self) -> dict[str, Any] | None:
        """The file's own settings as a point of the space, if they are one."""
        known = flat(self.config.resolved())
        values: dict[str, Any] = {key: known.get(key) for key in self.space}
        if not all(self.space[key].holds(value) for key, value in values.items()):
            return None
        whole = {k for k, one in self.space.items() if isinstance(one, Range) and one.whole}
        return {key: int(value) if key in whole else value for key, value in values.items()}

    def filled(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The file without [tune], with these settings."""
        return _with(self.raw, values)

    def changed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Only the tables that these settings stand in: what to write into a file."""
        whole, out = self.filled(values), dict[str, Any]()
        for key in values:
            section, _, name = key.partition(".")
            if isinstance(whole[section], Mapping):
                kept = {k: v for k, v in whole[section].items() if k in ("name", name)}
                out[section] = {**out.get(section, {}), **kept}
            else:
                out[section] = whole[section]
        return out


def tuning(file: Mapping[str, Any], overrides: Sequence[str] = ()) -> Tuning:
    """Check a raw configuration and its section ``[tune]``; overrides may change both."""
    raw = deepcopy(dict(file))
    override(raw, *overrides)
    section = raw.pop("tune", None)
    if not isinstance(section, Mapping):
        raise ConfigError(
            "the file has no section [tune]; add one that says what to search, for example "
            'search = { "local.lr" = [0.001, 1.0, "log"] }.'
        )
    settings = check(TuneSettings, section, "tune")
    if not settings.search:
        raise ConfigError("'tune.search' is empty; name a setting and the values to try.")
    config = parse(raw)
    space = {key: _dimension(key, value) for key, value in _dotted(settings.search).items()}
    if config.split.validation == 0:
        raise ConfigError(
            "split.validation is 0, and settings are never chosen on test rows; raise it."
        )
    _try_ends(raw, space)
    return Tuning(raw, config, settings, space)


def _dotted(search: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Keys as they are given, quoted with dots or as nested tables."""
    out: dict[str, Any] = {}
    for key, value in search.items():
        if isinstance(value, Mapping) and value and "choices" not in value:
            out |= _dotted(value, f"{prefix}{key}.")
        else:
            out[f"{prefix}{key}"] = value
    return out


def _dimension(key: str, value: Any) -> Range | Choices:
    section = key.partition(".")[0]
    if section not in Config.model_fields:
        raise unknown("section in 'tune.search'", section, SEARCHED)
    if section not in SEARCHED:
        raise ConfigError(
            f"'tune.search' holds '{key}', but scores of different data are not comparable; "
            f"settings of {', '.join(SEARCHED)} can be searched."
        )
    if isinstance(value, Mapping):
        if set(value) != {"choices"} or not isinstance(value["choices"], list):
            raise _malformed(key, value)
        return _choices(key, value["choices"])
    if not isinstance(value, list) or not value:
        raise _malformed(key, value)
    if _ends(value[:2]) and (len(value) == 2 or value[2:] == ["log"]):
        return _range(key, *value)
    return _choices(key, value)


def _range(key: str, low: float, high: float, log: str = "") -> Range:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"'tune.search' of '{key}' must rise, got from {low} to {high}.")
    if log and low <= 0:
        raise ConfigError(f"'tune.search' of '{key}' is logarithmic, so low must be above 0.")
    if isinstance(low, int) != isinstance(high, int):
        low, high = float(low), float(high)
    return Range(low, high, bool(log))


def _choices(key: str, values: list[Any]) -> Choices:
    plain = all(isinstance(v, str | int | float | bool) for v in values)
    if not values or not plain or "log" in values:
        raise _malformed(key, values)
    return Choices(tuple(values))


def _malformed(key: str, value: Any) -> ConfigError:
    return ConfigError(f"'tune.search' of '{key}' must be {FORMS}, got {shown(value)}.")


def _ends(values: list[Any]) -> bool:
    return len(values) == 2 and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in values
    )


def _try_ends(raw: dict[str, Any], space: Mapping[str, Range | Choices]) -> None:
    """Refuse a setting that does not exist, or values that it cannot have, before anything runs."""
    first = {key: one.extremes[0] for key, one in space.items()}
    for key, one in space.items():
        for value in one.extremes:
            try:
                parse(_with(raw, {**first, key: value}))
            except UnalikeError as error:
                raise ConfigError(f"'tune.search' of '{key}' at {value!r}: {error}") from None


def _with(raw: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A raw configuration with searched values, laid over it as --set would."""
    out = deepcopy(dict(raw))
    override(out, *(f"{key}={json.dumps(value)}" for key, value in values.items()))
    return out
