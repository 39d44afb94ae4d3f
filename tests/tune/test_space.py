"""The section [tune]: what it may hold, and what is refused."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import ConfigError
from unalike.run.configuration.config import parse
from unalike.run.configuration.toml import as_toml
from unalike.tune.space import Choices, Range, tuning


def made(search, **tune):
    return tuning({"method": "fedprox", "tune": {"search": search, **tune}})


@pytest.mark.parametrize(
    ("value", "dimension"),
    [
        ([0.01, 1.0], Range(0.01, 1.0)),
        ([0.01, 1.0, "log"], Range(0.01, 1.0, log=True)),
        ([1, 0.5], None),
        ([0.1, 0.2, 0.4], Choices((0.1, 0.2, 0.4))),
        ({"choices": [0.1, 0.2]}, Choices((0.1, 0.2))),
    ],
)
def test_ranges_and_choices(value, dimension):
    if dimension is None:
        with pytest.raises(ConfigError, match=r"must rise, got from 1 to 0\.5"):
            made({"local.lr": value})
    else:
        assert made({"local.lr": value}).space == {"local.lr": dimension}


def test_ranges_of_whole_numbers_are_whole():
    assert made({"local.batch_size": [8, 64]}).space["local.batch_size"].whole
    assert not made({"local.epochs": [1, 2.5]}).space["local.epochs"].whole


def test_keys_may_be_quoted_or_nested():
    nested = tomllib.loads("local.lr = [0.1, 0.2]\nmethod = { mu = [0.1, 1.0] }")
    assert set(made(nested).space) == {"local.lr", "method.mu"}


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({}, "'tune.search' is empty"),
        ({"locl.lr": [0.1, 0.2]}, "unknown section .* 'locl': did you mean 'local'"),
        ({"local.lrr": [0.1, 0.2]}, "did you mean 'lr'"),
        ({"local.lr": [-1.0, 0.2]}, "'local.lr' must be a number > 0"),
        ({"local.lr": [0.0, 0.2, "log"]}, "low must be above 0"),
        ({"local.lr": [0.1, 0.2, "lg"]}, "'local.lr' must be"),
        ({"local.lr": ["log", 0.2]}, "a list of choices"),
        ({"local.lr": 0.1}, r"must be \[low, high\]"),
        ({"local.lr": {}}, r"must be \[low, high\]"),
        ({"local.lr": []}, r"must be \[low, high\]"),
        ({"local.lr": {"choices": [0.1], "log": True}}, r"must be \[low, high\]"),
        ({"local.batch_size": [0.5, 8.0]}, "whole number"),
        ({"seed": [0, 5]}, "not comparable"),
        ({"partition.alpha": [0.1, 0.2]}, "not comparable"),
        ({"split.validation": [0.1, 0.2]}, "not comparable"),
        ({"method.name": ["fedavg", "fedpro"]}, "did you mean 'fedprox'"),
        ({"plus.0.lr": [0.1, 0.2]}, "no element '0'"),
    ],
)
def test_refused_searches(search, message):
    with pytest.raises(ConfigError, match=message) as caught:
        made(search)
    assert "\n" not in str(caught.value)


def test_refused_sections():
    search = {"local.lr": [0.1, 0.2]}
    with pytest.raises(ConfigError, match=r"no section \[tune\]"):
        tuning({"rounds": 3})
    with pytest.raises(ConfigError, match="did you mean 'trials'"):
        made(search, trails=3)
    with pytest.raises(ConfigError, match=r"'tune\.trials' must be a whole number >= 1"):
        made(search, trials=0)
    with pytest.raises(ConfigError, match=r"split\.validation is 0"):
        tuning({"split": {"validation": 0.0}, "tune": {"search": search}})


def test_overrides_reach_both():
    file = {"tune": {"search": {"local.lr": [0.1, 0.2]}}}
    found = tuning(file, ["tune.trials=3", "rounds=7", "tune.search.local.epochs=[1, 2]"])
    assert (found.settings.trials, found.config.rounds) == (3, 7)
    assert set(found.space) == {"local.lr", "local.epochs"}
    assert "trials" not in file["tune"]


def test_the_own_settings_are_a_point_only_if_the_space_holds_them():
    assert made({"local.epochs": [1, 3], "local.lr": [0.01, 1.0]}).own() == {
        "local.epochs": 1,
        "local.lr": 0.05,
    }
    assert made({"local.lr": [0.1, 1.0]}).own() is None


def test_a_trial_differs_by_its_settings_and_seed_only():
    found = made({"method.mu": [0.1, 1.0], "local.lr": [0.1, 1.0]})
    config = found.at({"method.mu": 0.3, "local.lr": 0.2}, seed=2)
    assert (config.method.settings["mu"], config.local.lr, config.seed) == (0.3, 0.2, 2)
    assert found.changed({"method.mu": 0.3}) == {"method": {"name": "fedprox", "mu": 0.3}}
    plus = tuning({"plus": ["fedadam"], "tune": {"search": {"plus.0.lr": [0.1, 1.0]}}})
    assert plus.changed({"plus.0.lr": 0.5}) == {"plus": [{"name": "fedadam", "lr": 0.5}]}


VALUES = st.recursive(
    st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1e9, 1e9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4))
def test_toml_reads_back_as_it_was(raw):
    assert tomllib.loads(as_toml(raw)) == raw


def test_a_filled_file_is_a_configuration():
    found = made({"local.lr": [0.1, 1.0]})
    assert parse(tomllib.loads(as_toml(found.filled({"local.lr": 1e-5})))).local.lr == 1e-5
