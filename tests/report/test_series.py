"""Numbers of pictures against the records they come from."""

import json
from dataclasses import replace

import numpy as np
import pytest
from written_runs import config, write_run

from unalike.report import series
from unalike.report.plots.methods import shapes
from unalike.report.records import Reader


@pytest.fixture(scope="module")
def study(comparison_folder):
    return Reader(comparison_folder).read()


def test_curves_hold_every_round_of_every_cell_and_the_bytes_until_then(study):
    rows = series.curves(study, study.partitions[0])
    assert len(rows) == 3 * 3 * 6
    first = [r for r in rows if r["method"] == "FedAvg"][:6]
    assert [r["bytes"] for r in first] == [2000, 5000, 9000, 14000, 20000, 27000]
    line = json.loads((study.places[0].run.folder / "rounds.jsonl").read_text().splitlines()[2])
    assert first[2]["accuracy"] == line["metrics"]["local"]["accuracy"]["mean"]


def test_seconds_of_a_simulated_clock_add_up(study):
    """Only of the runs that have one; rounds that were skipped took no time."""
    place = study.places[0]
    ticked = [{**r, "clock": 1.5} for r in place.run.rounds]
    ticked[1].pop("clock")
    run = replace(place.run, rounds=ticked)
    timed = replace(study, places=[replace(place, run=run), *study.places[1:]])
    rows = series.curves(timed, place.partition)
    assert [r["clock"] for r in rows if "clock" in r] == [1.5, 1.5, 3.0, 4.5, 6.0, 7.5]


def test_the_judged_round_is_the_selected_one(study):
    run = study.places[0].run
    assert series.judged(study, run)["round"] == run.summary["selected"]["round"]
    assert series.judged(replace(study, chosen="last"), run)["round"] == 6


def test_without_a_selected_round_the_last_is_judged(study):
    run = replace(study.places[0].run, summary={**study.places[0].run.summary, "selected": None})
    assert series.judged(study, run)["round"] == 6


def test_clients_of_all_seeds_come_together(study):
    found = series.clients(study, study.partitions[0])
    assert {m: (len(v), len(n)) for m, (v, n) in found.items()} == dict.fromkeys(
        study.methods, (36, 36)
    )


def test_the_frontier_has_a_point_per_seed(study):
    rows = series.frontier(study, study.partitions[1])
    assert len(rows) == 9
    assert all(r["worst"] < r["mean"] for r in rows)


def test_one_test_for_all_clients_has_no_spread_over_them(study):
    overall = replace(study, section="global")
    assert series.frontier(overall, study.partitions[0]) == []
    assert series.clients(overall, study.partitions[0]) == {}
    assert len(series.curves(overall, study.partitions[0])) == 3 * 3 * 6


def test_bins_are_pooled_by_their_counts():
    one = {"counts": [0, 1, 3], "accuracy": [None, 1.0, 0.5], "confidence": [None, 0.4, 0.6]}
    two = {"counts": [0, 3, 0], "accuracy": [None, 0.0, None], "confidence": [None, 0.8, None]}
    pooled = series._pooled([one, two])
    assert pooled["counts"].tolist() == [0, 4, 3]
    np.testing.assert_allclose(pooled["accuracy"], [np.nan, 0.25, 0.5])
    np.testing.assert_allclose(pooled["confidence"], [np.nan, 0.7, 0.6])


def test_methods_that_weight_alike_share_a_picture(study, tmp_path):
    for mu in (0.1, 1.0):
        write_run(config(tmp_path / f"{mu}", method={"name": "fedprox", "mu": mu}))
    write_run(config(tmp_path / "c", method={"name": "scaffold"}))
    found = series.weights(Reader(tmp_path).read(), "dirichlet")
    assert [sorted(w.methods) for w in found] == [["fedprox mu=0.1", "fedprox mu=1"], ["scaffold"]]


def test_a_client_that_is_its_own_server_has_no_weight_to_draw(study, tmp_path):
    """It counts 1 there; what neighbours made of it is in the combination."""
    place = study.places[0]
    nodes = [{**r, "weights": [1.0] * len(r["clients"]), "mixing": {}} for r in place.run.rounds]
    lone = replace(place, run=replace(place.run, rounds=nodes))
    alone = replace(study, places=[lone])
    assert series.weights(replace(study, places=[place]), place.partition)
    assert not series.weights(alone, place.partition)
    assert "last weight" in series.client_rows(place.run)[0]
    assert "last weight" not in series.client_rows(lone.run)[0]


def test_a_missing_section_falls_back_to_one_that_is_there(study):
    assert series.section_of(replace(study, section="new")) == "local"


def test_a_single_run_is_drawn_by_its_tests(run_folder):
    rows = series.tests(Reader(run_folder).read())
    assert {r["method"] for r in rows} == {
        "validation data",
        "clients' own test data",
        "global test data",
    }
    assert len(rows) == 18


def test_client_rows_know_data_part_and_results(run_folder):
    run = Reader(run_folder).read().places[0].run
    rows = series.client_rows(run)
    assert len(rows) == 12
    assert sum(r["rounds"] for r in rows) == 6 * 5
    assert [r["examples"] for r in rows] == [60] * 12
    last = run.clients(6)["local"]["accuracy"]
    assert [r["accuracy"] for r in rows] == last
    assert {r["last weight"] for r in rows} <= {0.2, None}
    assert "mark" not in rows[0]
    marks = [["alpha = 50", "turned by 90"], [], *[["alpha = 50"]] * 10]
    rows = series.client_rows(replace(run, data={**run.data, "marks": marks}))
    assert [r["mark"] for r in rows[:3]] == ["alpha = 50, turned by 90", "", "alpha = 50"]


def test_leaks_are_those_of_the_runs_that_measured_them(study):
    place = study.places[0]
    told = {"backdoor": 0.8, "backdoor_clean": 0.1, "membership": {"mean": 0.6, "worst": 0.9}}
    rounds = [{**r, **told} for r in place.run.rounds[:2]]
    rounds.append({**place.run.rounds[2], **told, "backdoor_clean": None})  # no rows to try it on
    run = replace(place.run, rounds=rounds)
    leaky = replace(study, places=[replace(place, run=run), *study.places[1:]])
    doors, members = (f(leaky, place.partition) for f in (series.backdoor, series.membership))
    assert [(r["round"], r["leak"], r["without"]) for r in doors] == [(1, 0.8, 0.1), (2, 0.8, 0.1)]
    assert [(r["leak"], r["without"]) for r in members] == [(0.6, 0.5)] * 3
    assert series.backdoor(study, place.partition) == []


def test_up_to_eight_methods_have_a_symbol_each():
    """Not everybody can tell methods apart by their colours, and nobody can on grey paper."""
    assert len(set(shapes(8))) == 8
