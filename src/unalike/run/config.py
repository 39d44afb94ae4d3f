"""The configuration of a run: strict, typed, and explained when it is wrong."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import Field, ValidationError

from unalike.errors import ConfigError, unknown
from unalike.settings import Settings, look_up

S = TypeVar("S", bound=Settings)


class Split(Settings):
    """Which rows of a client train, select and test."""

    validation: float = Field(default=0.1, ge=0, lt=1, description="share of each client's rows")
    test: float = Field(default=0.2, ge=0, lt=1, description="share of each client's rows")
    new_clients: int = Field(default=0, ge=0, description="whole clients held out of training")


class Local(Settings):
    """What a client does in a round."""

    epochs: float = Field(default=1.0, gt=0, description="passes over its data; may be fractional")
    batch_size: int = Field(default=32, ge=1, description="examples in a step")
    optimizer: Literal["sgd", "adam"] = Field(default="sgd", description="fresh in every round")
    lr: float = Field(default=0.05, gt=0, description="learning rate")
    momentum: float = Field(default=0.0, ge=0, lt=1, description="of SGD")
    nesterov: bool = Field(default=False, description="Nesterov's form of momentum")
    weight_decay: float = Field(default=0.0, ge=0, description="added to the gradient")
    decay: Literal["constant", "exponential", "cosine"] = Field(
        default="constant", description="how the learning rate falls over rounds"
    )
    decay_rate: float = Field(default=0.99, gt=0, le=1, description="factor, if exponential")
    decay_every: int = Field(default=1, ge=1, description="rounds between two factors")


class ParticipationSettings(Settings):
    """Who takes part in a round: a fraction of the clients, or a number."""

    fraction: float = Field(default=1.0, gt=0, le=1, description="share of all clients")
    number: int | None = Field(default=None, ge=1, description="how many; overrides the fraction")


class FaultSettings(Settings):
    """Clients that fail, seeded; and what the server does about it."""

    drop: float = Field(default=0.0, ge=0, le=1, description="chance that a client never answers")
    straggle: float = Field(default=0.0, ge=0, le=1, description="chance of doing part of the work")
    least_work: float = Field(default=0.1, gt=0, le=1, description="least share a straggler does")
    garbage: float = Field(default=0.0, ge=0, le=1, description="chance of a nonsense answer")
    kind: Literal["nan", "huge", "noise", "zero"] = Field(
        default="nan", description="what nonsense looks like"
    )
    explode: float = Field(
        default=1000.0, gt=1, description="refuse updates this many times longer than the median"
    )
    min_replies: int = Field(default=1, ge=1, description="usable answers a round needs")
    too_few: Literal["skip", "stop"] = Field(
        default="skip", description="a round with fewer changes nothing, or ends the run"
    )


class EvaluationSettings(Settings):
    """When to evaluate, and which validation metric selects a round."""

    every: int = Field(default=1, ge=1, description="rounds between evaluations")
    select: Literal["accuracy", "loss", "f1", "auroc"] = Field(
        default="accuracy", description="validation metric (mean over clients) that selects"
    )
    target: float | None = Field(
        default=None, description="accuracy to count the rounds and bytes to"
    )


class EngineSettings(Settings):
    """How clients are computed; never what they compute."""

    kind: Literal["auto", "sequential", "vectorized"] = Field(
        default="auto", description="auto: vectorized for dense nets and on GPUs, else sequential"
    )
    device: str = Field(default="cpu", description="cpu, cuda or cuda:N")
    workers: int = Field(default=0, ge=0, description="threads if sequential; 0: one per core")
    chunk: int = Field(default=64, ge=1, description="most clients in one vectorized call")


class RunSettings(Settings):
    """Where the run lives and how often it is saved."""

    folder: str = Field(default="", description="if empty, runs/ plus a name from the settings")
    checkpoint_every: int = Field(default=10, ge=1, description="rounds between checkpoints")
    buffers: Literal["global", "local", "drop"] = Field(
        default="global",
        description="BatchNorm statistics: averaged, kept on the client, or never tracked",
    )
    init: Literal["drawn", "given"] = Field(
        default="drawn", description="weights drawn from the seed, or as the module came"
    )


class Named(Settings):
    """A table of the file that names one of several things, with that thing's settings."""

    name: str
    settings: dict[str, Any]

    def resolved(self) -> dict[str, Any]:
        """As it would stand in the file."""
        return {"name": self.name, **self.settings}


class Config(Settings):
    """Everything a run depends on."""

    seed: int = Field(default=0, ge=0, description="root of all random streams")
    rounds: int = Field(default=20, ge=1, description="communication rounds")
    data: Named
    partition: Named
    shift: list[Named] = Field(default_factory=list)
    split: Split = Split()
    model: Named
    method: Named
    plus: list[Named] = Field(default_factory=list, description="methods combined with the first")
    topology: Named = Named(name="star", settings={})
    local: Local = Local()
    participation: ParticipationSettings = ParticipationSettings()
    faults: FaultSettings = FaultSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    engine: EngineSettings = EngineSettings()
    run: RunSettings = RunSettings()

    def resolved(self) -> dict[str, Any]:
        """All settings with their defaults, as plain data: the first thing a run writes."""
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


DEFAULTS: dict[str, Any] = {
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet"},
    "model": {"name": "mlp"},
    "method": {"name": "fedavg"},
}


def tables() -> dict[str, Mapping[str, type[Settings]]]:
    """What each naming table of a file may name; imported late, since methods need torch."""
    from unalike.algorithms.table import METHODS
    from unalike.federation.datasets import DATASETS
    from unalike.federation.partition import PARTITIONERS
    from unalike.federation.shift import SHIFTS
    from unalike.models import MODELS
    from unalike.models.own import OwnModel
    from unalike.run.topologies import TOPOLOGIES

    return {
        "data": DATASETS,
        "partition": PARTITIONERS,
        "shift": SHIFTS,
        "model": {**MODELS, "module": OwnModel},
        "method": METHODS,
        "plus": METHODS,
        "topology": TOPOLOGIES,
    }


def load(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The configuration in a TOML file, with ``key=value`` overrides on top."""
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file '{path}'; give the path of a TOML file.") from None
    except IsADirectoryError:
        raise ConfigError(
            f"'{path}' is a folder; give a TOML file, or use 'unalike resume {path}'."
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"'{path}' is not a text file; a config is TOML in UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"'{path}' is not valid TOML: {error}.") from None
    for item in overrides:
        override(raw, item)
    return parse(raw)


def override(raw: dict[str, Any], item: str) -> None:
    """Set ``a.b=value`` in a raw configuration; the value is read as TOML, else as a string."""
    key, equals, text = item.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set '{item}' is not of the form key=value, for example rounds=50.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    *path, last = key.strip().split(".")
    place: Any = raw
    for name in path:
        if isinstance(place, list):
            place = _element(place, name, item)
        else:
            place = place.setdefault(name, {})
        if not isinstance(place, dict | list):
            raise ConfigError(f"--set '{item}': '{name}' is a value, not a table.")
    if isinstance(place, list):
        raise ConfigError(f"--set '{item}': name an element of the list, such as '{path[-1]}.0'.")
    if last == "name" and isinstance(place, dict) and place.get("name") not in (None, value):
        place.clear()  # another method's settings would not fit this one
    place[last] = value


def _element(items: list[Any], index: str, item: str) -> Any:
    if not index.isdigit() or int(index) >= len(items):
        raise ConfigError(
            f"--set '{item}': there is no element '{index}' in a list of {len(items)}."
        )
    return items[int(index)]


def parse(raw: Mapping[str, Any]) -> Config:
    """Check a raw configuration and fill in every default."""
    known = Config.model_fields
    for key in raw:
        if key not in known:
            raise unknown("setting", key, known)
    merged = {**DEFAULTS, **raw}
    choices = tables()
    values: dict[str, Any] = {}
    for key, value in merged.items():
        if key in ("shift", "plus"):
            if not isinstance(value, list):
                raise ConfigError(f"'{key}' must be a list of tables, written [[{key}]].")
            values[key] = [_named(f"{key}[{i}]", v, choices[key]) for i, v in enumerate(value)]
        elif key in choices:
            values[key] = _named(key, value, choices[key])
        elif isinstance(known[key].default, Settings):
            if not isinstance(value, Mapping):
                raise ConfigError(f"'{key}' must be a table, written [{key}], got {value!r}.")
            values[key] = check(type(known[key].default), value, key)
        else:
            values[key] = value
    return check(Config, values, "")


def _named(key: str, value: Any, table: Mapping[str, type[Settings]]) -> Named:
    """A table with a ``name``, its other keys checked against what it names."""
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"'{key}' must be a name or a table with a name, got {value!r}.")
    if "name" not in value:
        raise ConfigError(f"'{key}' needs a name: one of {', '.join(sorted(table))}.")
    rest = {k: v for k, v in value.items() if k != "name"}
    name = value["name"]
    if not isinstance(name, str):
        raise ConfigError(f"'{key}.name' must be a string, got {name!r}.")
    cls = look_up(key.partition("[")[0], name, table)
    made = check(cls, rest, key)
    return Named(name=name, settings=made.model_dump())


def check(cls: type[S], values: Mapping[str, Any], key: str) -> S:
    """``cls(**values)``, or one sentence about the first thing that is wrong."""
    try:
        return cls(**values)
    except ValidationError as error:
        raise explain(cls, error, key) from None


def explain(cls: type[Settings], error: ValidationError, key: str) -> ConfigError:
    """A validation error in one sentence: the key, what is wrong, what is allowed."""
    first = error.errors()[0]
    place = [str(p) for p in first["loc"]]
    name = ".".join([key, *place] if key else place) or "the configuration"
    got, kind = first.get("input"), first["type"]
    if kind == "extra_forbidden":
        if not cls.model_fields:
            return ConfigError(f"unknown setting '{name}': this choice has no settings.")
        return unknown(f"setting of '{key}'" if key else "setting", place[-1], cls.model_fields)
    if kind == "missing":
        field = cls.model_fields.get(place[0])
        what = f" ({field.description})" if field is not None and field.description else ""
        return ConfigError(f"'{name}' is required{what}.")
    field = cls.model_fields.get(place[0]) if place else None
    allowed = _choices(field.annotation) if field is not None else ()
    if allowed and kind in ("literal_error", "string_type"):
        return ConfigError(f"'{name}' must be one of {', '.join(map(repr, allowed))}, got {got!r}.")
    message = str(first["msg"]).removeprefix("Value error, ")
    message = message.removeprefix("Input should be ").rstrip(".")
    if kind in ("value_error", "assertion_error"):
        return ConfigError(f"'{name}': {message}.")
    return ConfigError(f"'{name}' must be {message}, got {got!r}.")


def _choices(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(c for part in get_args(annotation) for c in _choices(part))
