"""Configurations: every default, every bound, every override, and how mistakes are explained."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from unalike.errors import ConfigError
from unalike.run.configuration.config import Config, override, parse, read_config, tables
from unalike.run.configuration.sections import SECTIONS
from unalike.run.folder.records import dumps
from unalike.settings import Settings, allowed

REQUIRED = {
    "files": {"path": "table.csv"},
    "hub": {"repository": "someone/something"},
    "module": {"file": "net.py"},
    "distilbert": {"weights": "distilbert-base-uncased"},
    "own": {"file": "method.py", "attribute": "Mine"},
}
CHOICES = [(kind, name, cls) for kind, table in tables().items() for name, cls in table.items()]
NAMED = [pytest.param(kind, name, id=f"{kind}-{name}") for kind, name, _ in CHOICES]
FIELDS = [(s, "", cls, field) for s, cls in SECTIONS.items() for field in cls.model_fields]
FIELDS += [(kind, name, cls, field) for kind, name, cls in CHOICES for field in cls.model_fields]


def raw(kind: str, name: str, values: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """A configuration with one table that is not the default."""
    if not name:
        return {kind: dict(values)}
    table = {"name": name, **REQUIRED.get(name, {}), **values}
    return {kind: [table] if kind in ("plus", "shift") else table}


def key(kind: str) -> str:
    """How an error names the table."""
    return f"{kind}.0" if kind in ("plus", "shift") else kind


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_the_defaults_of_everything_survive_the_round_trip_through_json(kind: str, name: str):
    config = parse(raw(kind, name))
    assert parse(config.resolved()) == config
    assert parse(json.loads(dumps(config.resolved()))) == config


def test_nothing_at_all_is_a_configuration():
    config = parse({})
    assert (config.data.name, config.method.name, config.topology.name) == (
        "digits",
        "fedavg",
        "star",
    )
    assert config.model_dump()["rounds"] == 20
    assert list(config.resolved()) == list(Config.model_fields)


def test_a_table_without_a_name_changes_the_default_choice():
    config = parse({"partition": {"alpha": 0.1}, "model": {"hidden": [8]}})
    assert config.partition.name == "dirichlet"
    assert config.partition.settings["alpha"] == 0.1
    assert config.model.settings["hidden"] == [8]


def test_a_bare_name_stands_for_its_table():
    config = parse({"method": "fedprox", "plus": ["fedadam"]})
    assert config == parse({"method": {"name": "fedprox"}, "plus": [{"name": "fedadam"}]})


def valid(annotation: Any, metadata: list[Any]) -> st.SearchStrategy[Any]:
    """Valid values of a field, from its type and bounds alone."""
    bound = {k: getattr(m, k) for m in metadata for k in ("ge", "gt", "le", "lt") if hasattr(m, k)}
    low, high = bound.get("ge", bound.get("gt")), bound.get("le", bound.get("lt"))
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        factor = next((m.multiple_of for m in metadata if hasattr(m, "multiple_of")), 1)
        least = (low if low is not None else -9) + ("gt" in bound)
        most = (high - ("lt" in bound)) if high is not None else least + 50
        return st.integers(least, most).map(lambda n: -(-n // factor) * factor)
    if annotation is float:
        return st.floats(
            low if low is not None else -9.0,
            high if high is not None else (low or 0) + 9.0,
            exclude_min="gt" in bound,
            exclude_max="lt" in bound,
        )
    if annotation is str:
        return st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if get_origin(annotation) is dict:
        return st.dictionaries(st.text("abc", min_size=1), st.booleans(), max_size=2)
    if get_origin(annotation) is list:
        return st.lists(valid(get_args(annotation)[0], []), min_size=1, max_size=3)
    if hasattr(annotation, "__metadata__"):
        inner = [m for a in annotation.__metadata__ for m in getattr(a, "metadata", [a])]
        return valid(annotation.__origin__, inner)
    parts = [a for a in get_args(annotation) if a is not type(None)]
    assert parts, annotation
    return st.one_of([valid(part, metadata) for part in parts])


@settings(max_examples=300)
@given(data=st.data(), place=st.sampled_from(FIELDS))
def test_any_valid_value_survives_the_round_trip(data: st.DataObject, place: tuple[Any, ...]):
    kind, name, cls, field = place
    info = cls.model_fields[field]
    value = data.draw(valid(info.annotation, info.metadata))
    try:
        config = parse(raw(kind, name, {field: value}))
    except ConfigError as error:  # at odds with another setting's default, and only that
        assume("must be" not in str(error))
        return
    assert parse(json.loads(dumps(config.resolved()))) == config


@pytest.mark.parametrize(
    ("kind", "name", "cls", "field"),
    [pytest.param(*f, id=f"{f[0]}-{f[1]}-{f[3]}") for f in FIELDS],
)
def test_a_wrong_type_is_named_with_what_is_allowed(
    kind: str, name: str, cls: type[Settings], field: str
):
    wrong = [{"not": "this"}] if cls.model_fields[field].annotation == dict[str, Any] else {"a": 1}
    with pytest.raises(ConfigError) as caught:
        parse(raw(kind, name, {field: wrong}))
    said = str(caught.value)
    assert said.startswith(f"'{key(kind)}.{field}' must be ")
    assert allowed(cls.model_fields[field]) in said.replace(" or a list", " or list")
    assert said.endswith(f"got {wrong}.")


OUTSIDE = {"ge": -1, "gt": 0, "le": 1, "lt": 0}  # how far from a bound the first wrong value is
BOUNDED = [
    pytest.param(kind, name, field, getattr(m, bound) + step, id=f"{kind}-{name}-{field}-{bound}")
    for kind, name, cls, field in FIELDS
    for m in cls.model_fields[field].metadata
    for bound, step in OUTSIDE.items()
    if getattr(m, bound, None) is not None
]


@pytest.mark.parametrize(("kind", "name", "field", "wrong"), BOUNDED)
def test_a_value_just_out_of_range_is_refused(kind: str, name: str, field: str, wrong: float):
    with pytest.raises(ConfigError, match="must be") as caught:
        parse(raw(kind, name, {field: wrong}))
    assert f"{key(kind)}.{field}" in str(caught.value)
    assert str(wrong) in str(caught.value)


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_an_unknown_setting_of_anything_is_named(kind: str, name: str):
    with pytest.raises(ConfigError, match="no_such_setting"):
        parse(raw(kind, name, {"no_such_setting": 1}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rouds": 3}, "unknown setting 'rouds': did you mean 'rounds'?"),
        ({"lr": 3}, "unknown setting 'lr': did you mean 'local.lr'?"),
        ({"tune": {}}, "has a table [tune], so it is for: unalike tune FILE; take it out"),
        ({"compare": {}}, "has a table [compare], so it is for: unalike compare FILE"),
        ({"attack": {"name": "sign_flip", "fraction": 0.1}}, "did you mean 'attack.share'?"),
        ({"attack": {"fraction": 0.1}}, "'attack.name' is none; set it first."),
        ({"local": {"fraction": 0.1}}, "did you mean 'participation.fraction'?"),
        ({"method": {"name": "fedprox", "muu": 1}}, "unknown fedprox setting 'muu': did you mean"),
        ({"method": {"name": "fedavg", "mu": 1}}, "'method.mu': fedavg has no settings."),
        ({"method": "FedProxx"}, "unknown method 'FedProxx': did you mean 'fedprox'?"),
        ({"plus": [{"mu": 1}]}, "'plus.0' needs a name: one of aaggff_d"),
        ({"method": {"name": 3}}, "'method.name' must be text, got 3."),
        (
            {"method": {"name": "fedper", "personal": 1}},
            "'method.personal' must be \"head\" or a list of texts, got 1.",
        ),
        ({"method": ["fedprox", "fedadam"]}, "combine it with others by [[plus]] tables."),
        ({"rounds": True}, "'rounds' must be a whole number from 1 to 1,000,000,000, got True."),
        ({"local": {"lr": "0.1"}}, "'local.lr' must be a number > 0, got '0.1'."),
        ({"local": {"lr": float("nan")}}, "'local.lr' must be a number > 0, got nan."),
        ({"local": {"lr": float("inf")}}, "'local.lr' must be a number > 0, got inf."),
        ({"local": {"optimizer": "sgdm"}}, '\'local.optimizer\' must be "sgd" or "adam"'),
        ({"local": {1: 2}}, "'local' has the key 1, which is not text."),
        ({"seed": 2**63}, "'seed' must be a whole number from 0 to below"),
        ({"model": {"hidden": [4, -1]}}, "must be a list of whole numbers > 0, got [4, -1]."),
        ({"data": {"name": "files"}}, "'data.path' is required (the file, or the folder"),
        ({"split": {"test": 0.5, "validation": 0.5}}, "leave nothing to train on"),
        ({"local": {"nesterov": True}}, "'local': nesterov = true needs momentum above 0."),
        ({"local": {"optimizer": "adam", "momentum": 0.9}}, "belong to optimizer"),
        ({"local": {"decay_rate": 0.5}}, 'decay_rate belongs to decay = "exponential"'),
        ({"participation": {"fraction": 0.5, "number": 2}}, "either fraction or number"),
        ({"partition": {"name": "mixed", "sizes": [3]}}, "mixed: sizes and alphas"),
        ({"local": 3}, "'local' must be a table, written [local], got 3."),
        ({"plus": {"name": "fedprox"}}, "'plus' must be a list of tables, written [[plus]]"),
        ({"local": {"lr": "x" * 500}}, "xxx ..."),
    ],
)
def test_mistakes_are_explained(given: dict[str, Any], said: str):
    with pytest.raises(ConfigError) as caught:
        parse(given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", "?"))


def overridden(base: dict[str, Any], *items: str) -> dict[str, Any]:
    override(base, *items)
    return base


@pytest.mark.parametrize(
    ("base", "items", "wanted"),
    [
        ({}, ["rounds=5", "local.lr=0.5"], {"rounds": 5, "local": {"lr": 0.5}}),
        ({}, ["run.folder=runs/a b"], {"run": {"folder": "runs/a b"}}),
        ({}, ["model.hidden=[8, 8]"], {"model": {"hidden": [8, 8]}}),
        ({}, ["local.nesterov=true"], {"local": {"nesterov": True}}),
        ({}, ['data.path="5"'], {"data": {"path": "5"}}),
        ({}, ["data.path=a=b.csv"], {"data": {"path": "a=b.csv"}}),
        ({}, ['plus=["fedprox"]', "plus.0.mu=1.5"], {"plus": [{"name": "fedprox", "mu": 1.5}]}),
        ({"plus": [{"name": "a"}]}, ["plus.0.mu=2"], {"plus": [{"name": "a", "mu": 2}]}),
        ({"method": "fedprox"}, ["method.mu=2"], {"method": {"name": "fedprox", "mu": 2}}),
        ({"seed": 1}, ["seed=2", "seed=3"], {"seed": 3}),
        (
            {"method": {"name": "scaffold", "server_lr": 2.0}},
            ["method.mu=0.1", "method.name=fedprox"],
            {"method": {"name": "fedprox", "mu": 0.1}},
        ),
        (
            {"method": {"name": "fedprox", "mu": 2.0}},
            ["method.name=fedprox"],
            {"method": {"name": "fedprox", "mu": 2.0}},
        ),
    ],
)
def test_overrides(base: dict[str, Any], items: list[str], wanted: dict[str, Any]):
    assert overridden(base, *items) == wanted


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("rounds", "not of the form key=value"),
        ("=5", "not of the form key=value"),
        ("local..lr=5", "not of the form key=value"),
        ("rounds.x=5", "'rounds' is a value, not a table"),
        ("plus.mu=5", "name an element of the list, such as plus.0"),
        ("plus.1.mu=5", "there is no element '1' in a list of 1"),
        ("plus.x.mu=5", "there is no element 'x'"),
        ("shift.0.level=5", "there is no element '0' in a list of 0"),
    ],
)
def test_impossible_overrides_are_explained(item: str, said: str):
    with pytest.raises(ConfigError) as caught:
        overridden({"rounds": 3, "plus": [{"name": "fedprox"}]}, item)
    assert said in str(caught.value)
    assert item in str(caught.value)


def test_a_file_with_overrides(tmp_path: Any):
    path = tmp_path / "a.toml"
    path.write_text(
        'rounds = 3\n[method]\nname = "fedprox"\nmu = 0.5\n[[plus]]\nname = "fedadam"\n'
    )
    config = read_config(path, ["plus.0.lr=0.25", "method.mu=1"])
    assert (config.rounds, config.method.settings["mu"]) == (3, 1)
    assert config.plus[0].settings["lr"] == 0.25
