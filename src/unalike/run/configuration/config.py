"""The configuration of a run: strict, typed, and explained when it is wrong."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import Field

from unalike.errors import ConfigError, no_such, unknown
from unalike.federation.readers.table_file import SUFFIXES
from unalike.run.configuration.evaluation import EvaluationSettings
from unalike.run.configuration.explain import check, shown
from unalike.run.configuration.overrides import LISTS, override
from unalike.run.configuration.sections import (
    SECTIONS,
    ClockSettings,
    DeploySettings,
    EngineSettings,
    FaultSettings,
    Local,
    ParticipationSettings,
    RunSettings,
    Split,
    TrackSettings,
)
from unalike.settings import Settings, look_up

__all__ = [
    "DEFAULTS",
    "Config",
    "Named",
    "check",
    "chosen",
    "override",
    "parse",
    "read",
    "read_config",
    "tables",
]

LARGEST = 10_000_000  # bytes of a configuration
OTHERS = ("compare", "tune")  # tables that another command of the same name reads
DEFAULTS: dict[str, dict[str, Any]] = {  # what a table without a name names
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet"},
    "model": {"name": "mlp"},
    "method": {"name": "fedavg"},
    "topology": {"name": "star"},
    "attack": {"name": "none"},
    "augment": {"name": "none"},
}


class Named(Settings):
    """A table of the file that names one of several things, with that thing's settings."""

    name: str
    settings: dict[str, Any]
    given: Any = None  # the thing itself, where it was handed over in Python

    def resolved(self) -> dict[str, Any]:
        """As it would stand in the file."""
        return {"name": self.name, **self.settings}


class Config(Settings):
    """Everything a run depends on."""

    seed: int = Field(default=0, ge=0, lt=2**63, description="root of all random streams")
    rounds: int = Field(default=20, ge=1, le=1_000_000_000, description="communication rounds")
    data: Named = Field(description="the dataset")
    partition: Named = Field(description="who gets which example")
    shift: list[Named] = Field(default=[], description="changes to clients' features or labels")
    split: Split = Split()
    model: Named = Field(description="the network")
    method: Named = Field(description="the federated method")
    plus: list[Named] = Field(default=[], description="methods combined with the first")
    topology: Named = Field(description="who talks to whom")
    augment: Named = Field(description="how training rows are altered")
    local: Local = Local()
    participation: ParticipationSettings = ParticipationSettings()
    clock: ClockSettings = ClockSettings()
    faults: FaultSettings = FaultSettings()
    attack: Named = Field(description="clients that lie")
    evaluation: EvaluationSettings = EvaluationSettings()
    engine: EngineSettings = EngineSettings()
    run: RunSettings = RunSettings()
    deploy: DeploySettings = DeploySettings()
    track: TrackSettings = TrackSettings()

    def resolved(self) -> dict[str, Any]:
        """All settings with their defaults, as plain data; ``parse`` makes the same of it."""
        out: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Named):
                out[name] = value.resolved()
            elif isinstance(value, Settings):
                out[name] = value.model_dump()
            elif isinstance(value, list):
                out[name] = [v.resolved() for v in value]
            else:
                out[name] = value
        return out


def tables() -> dict[str, Mapping[str, type[Settings]]]:
    """What each naming table of a file may name; imported late, since methods need torch."""
    from unalike.algorithms.own import OwnMethod
    from unalike.algorithms.table import METHODS
    from unalike.engine.attacks import ATTACKS
    from unalike.federation.datasets import DATASETS
    from unalike.federation.partition import PARTITIONERS
    from unalike.federation.shift import SHIFTS
    from unalike.models import MODELS
    from unalike.models.own import OwnModel
    from unalike.models.pretrained import PRETRAINED
    from unalike.parts.augmentation.training import AUGMENTATIONS
    from unalike.run.configuration.topologies import TOPOLOGIES

    methods: dict[str, type[Settings]] = {**METHODS, OwnMethod.name: OwnMethod}
    return {
        "data": DATASETS,
        "partition": PARTITIONERS,
        "shift": SHIFTS,
        "model": {**MODELS, **PRETRAINED, OwnModel.name: OwnModel},
        "method": methods,
        "plus": methods,
        "topology": TOPOLOGIES,
        "augment": AUGMENTATIONS,
        "attack": ATTACKS,
    }


def chosen(section: str, named: Named) -> Settings:
    """The settings object a naming table of the configuration stands for.

    Defaults are left unset, so that a dataset can refuse settings it has no use for.
    """
    if named.given is not None:
        return cast(Settings, named.given)
    cls = tables()[section][named.name]
    fields = cls.model_fields
    return cls(**{k: v for k, v in named.settings.items() if v != fields[k].get_default()})


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The configuration in a TOML file, with ``key=value`` overrides on top."""
    raw = read(Path(path))
    override(raw, *overrides)
    return parse(raw)


def refuse_data(path: Path) -> None:
    """Raise one sentence if this is a table instead of a configuration that names it."""
    if path.name.lower().endswith((*SUFFIXES, ".npz")) and path.is_file():
        raise ConfigError(
            f"'{path}' is a file of data; name it in a TOML file, data = {{ name = 'files', path "
            f"= '{path}', label = 'COLUMN' }}, or start with 'unalike advise {path}'."
        )


def read(path: Path) -> dict[str, Any]:
    """A TOML file as plain data."""
    refuse_data(path)
    try:
        if path.exists() and not path.is_dir() and not path.is_file():
            raise ConfigError(f"'{path}' is not a regular file; give the path of a TOML file.")
        if path.is_file() and path.stat().st_size > LARGEST:
            raise ConfigError(f"'{path}' is larger than any configuration; give a TOML file.")
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(no_such("file", path, "give the path of a TOML file")) from None
    except IsADirectoryError:
        raise ConfigError(
            f"'{path}' is a folder; give a TOML file, or use 'unalike resume {path}'."
        ) from None
    except OSError as error:
        raise ConfigError(f"'{path}' cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"'{path}' is not a text file; a config is TOML in UTF-8.") from None
    except RecursionError:
        raise ConfigError(f"'{path}' is nested too deeply for a configuration.") from None
    except ValueError as error:  # also a number of more digits than Python reads
        raise ConfigError(f"'{path}' is not valid TOML: {str(error).rstrip('.')}.") from None


def parse(raw: Mapping[str, Any]) -> Config:
    """Check a raw configuration and fill in every default.

    Example:
        >>> config = parse({"rounds": 5, "method": {"name": "fedprox", "mu": 0.1}})
        >>> config.rounds, config.method.resolved()["mu"], config.local.lr
        (5, 0.1, 0.05)
    """
    for key in raw:
        if key not in Config.model_fields:
            raise _unknown(key, raw)
    choices = tables()
    values: dict[str, Any] = {k: raw[k] for k in ("seed", "rounds") if k in raw}
    for key, cls in SECTIONS.items():
        value = raw.get(key, {})
        if not isinstance(value, Mapping):
            raise ConfigError(f"'{key}' must be a table, written [{key}], got {shown(value)}.")
        values[key] = check(cls, value, key)
    for key, default in DEFAULTS.items():
        values[key] = _named(key, raw.get(key, {}), choices[key], default["name"])
    for key in LISTS:
        value = raw.get(key, [])
        if not isinstance(value, list):
            raise ConfigError(
                f"'{key}' must be a list of tables, written [[{key}]], got {shown(value)}."
            )
        values[key] = [_named(f"{key}.{i}", v, choices[key]) for i, v in enumerate(value)]
    return check(Config, values, "")


def _unknown(key: Any, raw: Mapping[str, Any]) -> ConfigError:
    if key in OTHERS:
        return ConfigError(
            f"the file has a table [{key}], so it is for: unalike {key} FILE; take it out to "
            "use the file for a single run."
        )
    for section, cls in [*SECTIONS.items(), *_named_sections(raw)]:
        if key in cls.model_fields:
            return ConfigError(f"unknown setting '{key}': did you mean '{section}.{key}'?")
    return unknown("setting", str(key), Config.model_fields)


def _named_sections(raw: Mapping[str, Any]) -> Iterator[tuple[str, type[Settings]]]:
    """What the naming tables name, as far as that exists."""
    choices = tables()
    for key, default in DEFAULTS.items():
        value = raw.get(key, default)
        name = value.get("name", default["name"]) if isinstance(value, Mapping) else value
        if isinstance(name, str) and name in choices[key]:
            yield key, choices[key][name]


def _named(key: str, value: Any, table: Mapping[str, type[Settings]], default: str = "") -> Named:
    """A table with a ``name``, its other keys checked against what it names."""
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        more = key == "method" and isinstance(value, list)
        hint = "; combine it with others by [[plus]] tables" if more else ""
        raise ConfigError(
            f"'{key}' must be a name or a table with a name, got {shown(value)}{hint}."
        )
    name = value.get("name", default)
    if name == "":
        raise ConfigError(f"'{key}' needs a name: one of {', '.join(sorted(table))}.")
    if not isinstance(name, str):
        raise ConfigError(f"'{key}.name' must be text, got {shown(name)}.")
    cls = look_up(key.partition(".")[0], name, table)
    made = check(cls, {k: v for k, v in value.items() if k != "name"}, key, name)
    return Named(name=name, settings=made.model_dump())
