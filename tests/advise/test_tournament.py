"""Tournaments on digits, and the command around them."""

import json
import time
from pathlib import Path

import pytest
from command_line import mistake

from unalike.advise import tournament
from unalike.advise.advice import finals
from unalike.advise.entrants import PERSONAL, SHARED, Entrant, lineup
from unalike.advise.pages import notes
from unalike.advise.tournament import Outcome, Result, better_half, play
from unalike.cli.advising import configuration
from unalike.errors import ConfigError, DataError, RunError
from unalike.run.configuration.config import parse
from unalike.run.configuration.sections import RunSettings
from unalike.run.execute import start
from unalike.run.experiment.build import federation

SMALL = """
rounds = 4
[data]
name = "digits"
[partition]
name = "dirichlet"
clients = 4
alpha = 0.1
min_size = 20
[model]
name = "mlp"
hidden = [4]
"""
RAW = {
    "rounds": 4,
    "partition": {"clients": 4, "alpha": 0.1, "min_size": 20},
    "model": {"hidden": [4]},
}


@pytest.fixture
def few(monkeypatch):
    """Three methods only, one other rate, and no seeds beyond those asked for and one more."""
    monkeypatch.setattr(tournament, "MOST", 3)
    monkeypatch.setattr("unalike.advise.rates.TRIES", 1)
    monkeypatch.setattr("unalike.advise.entrants.SHARED", ("fedavg", "fedadam"))
    monkeypatch.setattr("unalike.advise.entrants.PERSONAL", ("local_only",))


def entrants(**raw):
    config = parse({**RAW, **raw})
    return lineup(config, federation(config))


def test_all_curated_methods_enter_on_digits():
    assert [e.name for e in entrants().entrants] == [*SHARED, *PERSONAL]


def test_the_own_method_keeps_its_settings():
    found = {e.name: e.config for e in entrants(method={"name": "fedprox", "mu": 0.7}).entrants}
    assert found["fedprox"].method.settings["mu"] == 0.7
    assert found["fedavg"].method.name == "fedavg"


def test_methods_that_do_not_fit_are_left_out_with_a_reason():
    found = entrants(local={"momentum": 0.9}, data={"name": "breast_cancer"})
    assert "not images" in found.left_out["fedaug"]
    assert all(why.endswith(".") for why in found.left_out.values())


def test_the_command_recommends_and_writes(unalike, few, tmp_path):
    (tmp_path / "a.toml").write_text(SMALL)
    place = tmp_path / "[/out]"
    ending = ("--minutes", "1", "--seeds", "2", "--folder", str(place))
    code, out, err = unalike("advise", str(tmp_path / "a.toml"), *ending)
    assert (code, err) == (0, "")
    for words in (
        "label skew",
        "One shared model",
        "A model for each client",
        "95 % interval",
        "Sent in 4",
    ):
        assert words in " ".join(out.split())
    assert f"files: {place}" in out
    found = json.loads((place / "advice.json").read_text())
    assert found["rounds"] == [1, 2, 4]
    assert [a["goal"] for a in found["advice"]] == ["shared", "personal"]
    assert found["model"].startswith("mlp of ")
    assert "All methods train mlp of" in " ".join(out.split())
    tuned = [t["method"] for t in found["rates"]]
    last = [r for r in found["runs"] if r["rung"] == 3]
    assert tuned == ["fedavg", *dict.fromkeys(r["method"] for r in last)]  # first, and as finalist
    assert {a["method"] for a in found["advice"]} <= {r["method"] for r in last}
    for tuning in found["rates"][1:]:
        scores = {float(rate): s for rate, s in tuning["scores"].items()}
        taken = {r["rate"] for r in last if r["method"] == tuning["method"]}
        assert taken == {max(scores, key=scores.get)}
    assert {r["rounds"] for r in last} == {4}
    assert {(r["method"], r["seed"]) for r in last} >= {("fedavg", 0), ("fedavg", 1)}
    first = [(r["method"], r["seed"]) for r in found["runs"] if r["rung"] == 1]
    assert sorted(first) == [(m, s) for m in ("fedadam", "fedavg", "local_only") for s in (0, 1)]
    assert all((place / r["folder"] / "summary.json").is_file() for r in found["runs"])
    assert "## Skew" in (place / "advice.md").read_text()
    code, _, err = unalike("advise", str(tmp_path / "a.toml"), *ending)
    assert code == 2
    assert "already exists" in err


def test_two_seeds_decide_who_goes_on():
    """The luckiest run is FedProx's, and the other methods have the better means."""
    scores = {"fedavg": (0.1, 0.1), "fedprox": (0.9, 0), "fedadam": (0.6, 0.6), "fedep": (0.5, 0.5)}
    found = Outcome("accuracy", plan=[1, 2], alive=[list(scores)])
    found.results += [
        Result(m, 0, 1, seed, score, {}, "", 0.1)
        for m, both in scores.items()
        for seed, score in enumerate(both)
    ]
    some = [Entrant(m, parse(RAW)) for m in scores]
    kept = [e.name for e in better_half(some, found, 0)]
    assert kept == ["fedavg", "fedadam", "fedep"]  # the better half, and the baseline
    found.alive.append(kept)
    found.results += [Result(m, 1, 2, 0, 0.5, {}, "") for m in kept]
    said = notes(found, 2)
    assert said[0].startswith(
        "Dropped along the way, by validation scores of 2 seeds and without a test"
    )
    assert "without a test: fedprox." in said[0]


def test_time_ends_it_with_what_is_known(few, tmp_path):
    begun = time.monotonic()
    found = play(entrants(rounds=10_000).entrants, tmp_path, 1.0, 3, "accuracy")
    assert found.ended == "the time was up"
    assert time.monotonic() - begun < 20  # one run of all rounds would take minutes


def test_time_that_ends_during_spare_seeds_cuts_nothing_short(few, tmp_path, monkeypatch):
    """All that was asked for is done by then; before, it was said not to have finished."""
    real, calls = tournament.start, []

    def start(config, observer):
        calls.append(Path(config.run.folder).name)
        if sum(call.startswith("rung2-fedavg") for call in calls) > enough:
            raise tournament.TimeIsUp
        return real(config, observer)

    enough = 2
    monkeypatch.setattr(tournament, "start", start)
    monkeypatch.setattr(tournament, "rungs", lambda *_: [2, 4])
    nothing = play(entrants().entrants, tmp_path / "none", 0.0, 2, "accuracy")
    assert (nothing.plan, nothing.ended) == ([], "the time was up")
    for enough, ended in ((2, ""), (1, "the time was up")):
        calls.clear()
        found = play(entrants().entrants, tmp_path / str(enough), 60.0, 2, "accuracy")
        assert len(finals(found)[1]) == enough
        assert found.ended == ended


def test_ctrl_c_ends_it_with_what_is_known(few, tmp_path, monkeypatch):
    real, calls = tournament.start, []

    def start(config, observer):
        calls.append(config.run.folder)
        if sum("rung1" in call for call in calls) > 2:
            raise KeyboardInterrupt
        return real(config, observer)

    monkeypatch.setattr(tournament, "start", start)
    found = play(entrants().entrants, tmp_path, 60.0, 3, "accuracy")
    assert found.ended == "it was interrupted"
    assert [r.method for r in found.results] == ["fedavg", "fedadam"]


def test_a_method_whose_training_fails_is_out(few, tmp_path, monkeypatch):
    real = tournament.start

    def start(config, observer):
        if config.method.name == "fedadam":
            raise RunError("training has diverged.")
        return real(config, observer)

    monkeypatch.setattr(tournament, "start", start)
    found = play(entrants().entrants, tmp_path, 60.0, 1, "accuracy")
    assert found.failed == {"fedadam": "with 1 round: training has diverged."}
    assert "fedadam" not in [t.method for t in found.rates]
    assert {r.method for r in found.rung(2)} == {"fedavg", "local_only"}


def test_a_method_that_needs_more_rounds_than_a_rung_has_is_out(few, tmp_path, monkeypatch):
    """Its settings are right for the file, whose rounds only the last rung has."""
    monkeypatch.setattr("unalike.advise.entrants.PERSONAL", ("local_only", "lg_fedavg"))
    entered = entrants(method={"name": "lg_fedavg", "warm_start": 3}).entrants
    found = play(entered, tmp_path, 60.0, 1, "accuracy")
    assert "warm_start of 'lg_fedavg' is 3 of 1 rounds" in found.failed["lg_fedavg"]
    assert found.ended == ""
    assert {r.method for r in found.rung(0)} == {"fedavg", "fedadam", "local_only"}
    assert finals(found)[0][0].rounds == 4


@pytest.mark.slow
def test_time_that_is_left_goes_into_seeds(few, tmp_path, monkeypatch):
    monkeypatch.setattr(tournament, "MOST", 4)
    found = play(entrants().entrants, tmp_path, 60.0, 1, "accuracy")
    assert found.ended == ""
    assert {r.seed for r in found.rung(2)} == {0, 1, 2, 3}
    assert {r.seed for r in found.rung(0)} == {0}  # who asks for one has one before


@pytest.mark.slow
def test_a_rate_that_diverges_costs_the_rate_and_not_the_method(few, tmp_path, monkeypatch):
    real = tournament.start

    def start(config, observer):
        if config.local.lr > 0.1:
            raise RunError("training has diverged.")
        return real(config, observer)

    monkeypatch.setattr(tournament, "start", start)
    found = play(entrants().entrants, tmp_path, 60.0, 1, "accuracy")
    assert found.failed == {}
    assert found.rates[0].scores[0.16] is None
    assert {r.method for r in found.rung(2)} >= {"fedavg"}


def test_a_client_with_one_row_has_hardly_a_say(few, tmp_path, monkeypatch):
    """Its single row makes round 2 the best by the mean over clients, not by the rows."""
    scores = {1: (0.5, 0.8), 2: (0.9, 0.4)}  # round -> mean over clients, over rows

    def start(config, observer):
        place = Path(config.run.folder)
        place.mkdir(parents=True)
        lines = [
            {"round": t, "metrics": {"validation": {"accuracy": {"mean": a, "weighted_mean": b}}}}
            for t, (a, b) in scores.items()
        ]
        (place / "rounds.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        (place / "timing.jsonl").write_text('{"round": 1, "seconds": 0.001}\n')
        return place

    monkeypatch.setattr(tournament, "start", start)
    found = play(entrants().entrants, tmp_path, 60.0, 1, "accuracy")
    assert {r.score for r in found.results} == {0.8}


def test_bytes_are_those_of_all_rounds_of_the_file(tmp_path):
    """LG-FedAvg sends less once its warm start is over, so rounds differ."""
    config = parse({**RAW, "method": {"name": "lg_fedavg", "warm_start": 2}})
    data = federation(config)
    entered = {e.name: e for e in lineup(config, data).entrants}
    for name in ("fedavg", "scaffold", "feddisco", "lg_fedavg", "local_only"):
        place = tmp_path / name
        start(entered[name].config.model_copy(update={"run": RunSettings(folder=str(place))}))
        done = json.loads((place / "summary.json").read_text())
        really = sum(done[f"bytes_{way}"] for way in ("down", "up", "across"))
        assert entered[name].sends(data) == really


def test_a_baseline_that_fails_late_ends_it_with_what_is_known(few, tmp_path, monkeypatch):
    real = tournament.start

    def start(config, observer):
        if config.method.name == "fedavg" and config.seed == 1:
            raise DataError("client 3 has no training example.")
        return real(config, observer)

    monkeypatch.setattr(tournament, "start", start)
    found = play(entrants().entrants, tmp_path / "a", 60.0, 2, "accuracy")
    assert found.ended == "client 3 has no training example"
    assert {r.seed for r in found.results} == {0}
    with pytest.raises(DataError, match="client 3"):
        play(entrants(seed=1).entrants, tmp_path / "b", 60.0, 2, "accuracy")


@pytest.mark.parametrize(
    ("settings", "wards", "message"),
    [
        (["rounds=3"], 1, "there is only one client"),
        (["split.validation=0"], 3, "no client has validation rows"),
        (["split.test=0"], 3, "there is nothing to test on"),
    ],
)
def test_data_that_nothing_can_be_judged_on(unalike, tmp_path, settings, wards, message):
    path, place = tmp_path / "wards.csv", tmp_path / "out"
    rows = "".join(f"w{i % wards},{i * i % 17},{i % 2}\n" for i in range(60))
    path.write_text(f"ward,x,sick\n{rows}")
    asked = ("--label", "sick", "--client", "ward", "--folder", str(place), "--set", *settings)
    assert message in mistake(unalike, "advise", str(path), *asked)
    assert not place.exists()


def test_a_table_with_a_client_column(tmp_path):
    path = tmp_path / "wards.csv"
    rows = "".join(f"w{i % 3},{i * i % 17},{i % 2}\n" for i in range(60))
    path.write_text(f"ward,x,sick\n{rows}")
    config = configuration(str(path), "sick", "ward", ["rounds=3"])
    assert (config.partition.name, config.rounds) == ("natural", 3)
    assert federation(config).n_clients == 3
    drawn = configuration(str(path), "sick", None, ["partition.name=iid", "data.drop=['ward']"])
    assert drawn.partition.name == "iid"


@pytest.mark.parametrize(
    ("target", "label", "client", "message"),
    [
        ("none.csv", None, None, "there is no file 'none.csv'"),
        ("here.csv", None, None, "name the column with --client"),
        ("here.csv", "x", "x", "'x' cannot be both the label and the client"),
        ("here.toml", "y", None, "--label and --client are for a file of data"),
    ],
)
def test_bad_targets(tmp_path: Path, monkeypatch, target, label, client, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.csv").write_text("x,label\n1,0\n")
    with pytest.raises(ConfigError, match=message):
        configuration(target, label, client, [])


def test_a_slow_start_does_not_shorten_the_tournament():
    """The pilot met a busy machine: the latest runs say what the next ones cost."""
    costs = [tournament.Cost(5.0, 2.0)] + [tournament.Cost(0.1, 0.01)] * 8
    at = tournament.Field(Path(), tournament.Clock(0, print), Outcome("accuracy"), 5, costs)
    assert at.cost == (0.1, 0.01)
    assert at._replace(costs=costs[:1]).cost == (5.0, 2.0)


def test_short_runs_of_a_tournament_are_not_refused_for_being_short(few, tmp_path):
    """Edge servers that exchange models every third round do not in a warm-up of one."""
    entered = entrants(rounds=4, topology={"name": "clusters", "servers": 2, "period": 3})
    assert entered.works
    found = tournament.play(entered.entrants, tmp_path, 20.0, 1, "accuracy", works=entered.works)
    assert found.ended == ""
    assert found.results
