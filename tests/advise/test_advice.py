"""What may be said after a tournament, from results that were never trained."""

from pathlib import Path

import numpy as np
import pytest

from unalike.advise.advice import advise, finalists, finals
from unalike.advise.entrants import Lineup
from unalike.advise.pages import no_advice, notes, page, tables
from unalike.advise.tournament import INTERRUPTED, TIME, Outcome, Result, Tuning
from unalike.compare.statistics.reuse import resplit


def result(method, rung, seed, score, local, shared, rounds=4) -> Result:
    def spread(mean):
        return {"accuracy": {"mean": 0.0, "weighted_mean": mean, "worst10": mean - 0.1}}

    tests = {"local": spread(local), "global": spread(shared)}
    return Result(method, rung, rounds, seed, score, tests, f"runs/{method}-{seed}", RATES[method])


RATES = {"fedavg": 0.5, "scaffold": 0.16, "local_only": 0.05, "fedprox": 0.5}
RATES |= dict.fromkeys("abc", 0.1)


def sends(method: str) -> float:
    return 0 if method == "local_only" else 25_010


def tournament(methods: dict[str, list[tuple[float, float, float]]]) -> Outcome:
    """A last rung; method -> (validation, local, global) of each seed."""
    found = Outcome("accuracy", plan=[4], alive=[list(methods)])
    for name, rows in methods.items():
        found.results += [result(name, 0, s, *row) for s, row in enumerate(rows)]
    return found


SHARED = {"local": resplit(0.2, 0.1), "global": resplit(0.2, 0.1)}
BASE = [(0.50, 0.50, 0.50), (0.52, 0.52, 0.52), (0.48, 0.48, 0.48)]


def told(found: Outcome, rounds: int = 8) -> dict[str, object]:
    return {a.goal: a for a in advise(found, finalists(found, sends), rounds)}


def test_a_lead_that_every_seed_repeats_is_clear():
    better = [(0.70, 0.71, 0.60), (0.72, 0.72, 0.63), (0.69, 0.68, 0.59)]
    found = told(tournament({"fedavg": BASE, "scaffold": better}))
    assert found["shared"].method == found["personal"].method == "scaffold"
    assert (
        "+10.67 (95 % interval [9.23, 12.10])" in found["shared"].sentence
    )  # (.10 + .11 + .11) / 3
    assert "in global test accuracy % over 3 seeds of 4 rounds" in found["shared"].sentence
    assert found["shared"].sentence.startswith(
        "scaffold at local.lr = 0.16: compared with fedavg at local.lr = 0.5 it scored"
    )
    assert found["shared"].as_dict()["rate"] == 0.16


def test_an_early_lead_is_no_advice():
    """Runs of 4 of 9 rounds: who leads may only be quicker."""
    better = [(0.70, 0.71, 0.60), (0.72, 0.72, 0.63), (0.69, 0.68, 0.59)]
    found = told(tournament({"fedavg": BASE, "scaffold": better}), rounds=9)["shared"]
    assert (found.leader, found.method, found.clear) == ("scaffold", "fedavg", False)
    assert "less than half of the file's 9 rounds" in found.sentence
    assert "an early lead of +10.67 (95 % interval [9.23, 12.10])" in found.sentence


def test_seeds_that_split_the_same_rows_claim_less():
    better = [(0.70, 0.71, 0.60), (0.72, 0.72, 0.63), (0.69, 0.68, 0.59)]
    found = tournament({"fedavg": BASE, "scaffold": better})
    sure, wide = (finalists(found, sends, r)[0].versus["global"] for r in ({}, SHARED))
    assert wide.mean == sure.mean
    # variance s^2 (1 / 3 + 2 / 7) instead of s^2 / 3
    grown = (wide.high - wide.mean) / (sure.high - sure.mean)
    assert grown == pytest.approx((1 + 6 / 7) ** 0.5)


def test_an_interval_with_zero_in_it_is_no_clear_winner():
    wild = [(0.70, 0.9, 0.9), (0.70, 0.5, 0.5), (0.70, 0.4, 0.3)]
    found = told(tournament({"fedavg": BASE, "scaffold": wild}))
    for goal in ("shared", "personal"):
        assert found[goal].sentence.startswith("no clear winner: scaffold at local.lr = 0.16 led")
        assert found[goal].method == "fedavg"


def test_the_choice_never_looks_at_tests():
    """The best of all on test rows, by far, but not on validation rows."""
    lucky = [(0.40, 0.99, 0.99)] * 3
    found = told(tournament({"fedavg": BASE, "scaffold": lucky}))
    assert found["shared"].leader == found["personal"].leader == "fedavg"
    assert found["shared"].clear


def test_personal_methods_do_not_compete_for_the_shared_model():
    own = [(0.90, 0.91, 0.20), (0.92, 0.93, 0.22), (0.91, 0.91, 0.21)]
    found = told(tournament({"fedavg": BASE, "local_only": own}))
    assert found["shared"].method == "fedavg"
    assert found["personal"].method == "local_only"


def test_sentences_name_whom_a_goal_leaves_to_compete():
    """Local training has the best score of all, and makes no shared model."""
    own, wild = [(0.9, 0.9, 0.2)] * 3, [(0.7, 0.9, 0.9), (0.7, 0.5, 0.5), (0.7, 0.4, 0.3)]
    found = told(tournament({"fedavg": BASE, "local_only": own}))
    said = "no other method with one shared model had a better validation accuracy"
    assert said in found["shared"].sentence
    found = told(tournament({"fedavg": BASE, "local_only": own, "scaffold": wild}))
    assert (
        "scaffold at local.lr = 0.16 led the methods with one shared model"
        in found["shared"].sentence
    )
    found = told(tournament({"fedavg": BASE, "local_only": wild}))
    assert "local_only at local.lr = 0.05 led on validation" in found["personal"].sentence
    assert "no other method had" in told(tournament({"fedavg": BASE}))["personal"].sentence


def test_one_seed_says_nothing():
    found = told(tournament({"fedavg": BASE[:1], "scaffold": [(0.9, 0.9, 0.9)]}))
    assert "one seed says nothing" in found["shared"].sentence
    assert found["shared"].method == "fedavg"


def test_seeds_that_all_say_the_same_are_not_called_one_seed():
    """Equal differences have no spread, so there is no interval to show beside them."""
    five = [(0.5, 0.5, 0.5)] * 5
    found = told(tournament({"fedavg": five, "scaffold": [(0.6, 0.6, 0.6)] * 5}))["shared"]
    assert "+10.00 (the same under every seed) in global test" in found.sentence
    assert not found.clear  # 2^(1 - 5) is more than 0.05
    sure = told(tournament({"fedavg": five * 2, "scaffold": [(0.6, 0.6, 0.6)] * 10}))["shared"]
    assert sure.clear


def test_without_test_rows_nothing_confirms_the_leader():
    found = tournament({"fedavg": BASE, "scaffold": [(0.9, 0.9, 0.9)] * 3})
    found.results = [one._replace(tests={}) for one in found.results]
    assert (
        "there is no global test to compare on; raise split.test" in told(found)["shared"].sentence
    )


def test_advice_names_what_it_would_send():
    own = [(0.90, 0.91, 0.20), (0.92, 0.93, 0.22), (0.91, 0.91, 0.21)]
    found = tournament({"fedavg": BASE, "local_only": own})
    assert told(found)["shared"].cost == "Sent in 8 rounds: fedavg 25 kB."
    assert told(found)["personal"].cost == "Sent in 8 rounds: local_only 0 B, fedavg 25 kB."


def test_a_seed_counts_once_everybody_has_run_it():
    found = tournament({"fedavg": BASE, "scaffold": BASE[:2]})
    assert finals(found)[1] == [0, 1]
    assert {line.method for line in finalists(found, sends)} == {"fedavg", "scaffold"}


def test_an_unfinished_last_rung_falls_back_on_the_one_before():
    found = Outcome("accuracy", plan=[2, 4], alive=[["fedavg", "fedprox"], ["fedavg", "fedprox"]])
    found.results = [result(m, 0, 0, 0.5, 0.5, 0.5, rounds=2) for m in ("fedavg", "fedprox")]
    found.results.append(result("fedavg", 1, 0, 0.6, 0.6, 0.6))
    assert {r.rung for r in finals(found)[0]} == {0}


def test_notes_are_those_of_the_rung_that_the_advice_rests_on():
    """FedProx is out of the second rung, but the first is the last that was finished."""
    found = Outcome("accuracy", plan=[1, 2], alive=[["fedavg", "fedprox"], ["fedavg"]])
    found.results = [result(m, 0, 0, 0.5, 0.5, 0.5, rounds=1) for m in ("fedavg", "fedprox")]
    said = " ".join(notes(found, 10))
    assert "rests on runs of 1 of 10 rounds" in said
    assert "Dropped" not in said
    found.results.append(result("fedavg", 1, 0, 0.6, 0.6, 0.6, rounds=2))
    said = " ".join(notes(found, 10))
    assert "rests on runs of 2 of 10 rounds" in said
    assert "without a test: fedprox." in said


def test_a_page_shows_reasons_as_they_are():
    found = tournament({"fedavg": BASE})
    out = Lineup([], {"fedaug": "<b>[/data/x.csv]</b> has no images."})
    lines = finalists(found, sends)
    text = page([], "mlp", out, found, lines, advise(found, lines, 4), 4)
    assert "<b>" not in text
    assert r"- fedaug: &lt;b&gt;\[/data/x.csv]&lt;/b&gt; has no images." in text


def test_nothing_known_means_no_advice():
    assert advise(Outcome("accuracy"), finalists(Outcome("accuracy"), sends), 10) == []
    assert notes(Outcome("accuracy", ended="the time was up"), 10) == [
        "The tournament did not finish: the time was up."
    ]


@pytest.mark.parametrize(
    ("ended", "remedy"),
    [
        (TIME, "Give it more --minutes."),
        (INTERRUPTED, "Start it again and let it finish."),
        ("client 3 has no training example", "Fix what ended it and start it again."),
    ],
)
def test_what_helps_where_there_is_no_advice_depends_on_why_it_ended(ended, remedy):
    found = Outcome("accuracy", ended=ended)
    assert no_advice(found).endswith(f"was finished by all methods. {remedy}")
    assert remedy in page([], "mlp", Lineup([], {}), found, [], [], 10)


def test_losses_are_better_when_lower():
    found = Outcome("loss")
    assert found.best_first({"a": 2.0, "b": 1.0}) == ["b", "a"]
    assert Outcome("accuracy").best_first({"a": 2.0, "b": 1.0}) == ["a", "b"]


def test_rows_begin_with_who_came_furthest_and_scored_best():
    found = Outcome("accuracy", plan=[2, 4])
    found.results = [result(m, 0, 0, s, 0, 0) for m, s in (("a", 0.9), ("b", 0.2), ("c", 0.3))]
    found.results += [result("b", 1, 0, 0.5, 0, 0), result("c", 1, 0, 0.6, 0, 0)]
    (table,) = tables(found, [], 10)
    assert table.title == "Validation accuracy % by rung"
    assert table.columns == ["method", "models", "2 rounds", "4 rounds"]
    assert [[cell.value for cell in row] for row in table.rows] == [
        ["c", "shared", 0.3, 0.6],
        ["b", "shared", 0.2, 0.5],
        ["a", "shared", 0.9, None],
    ]
    assert table.rows[0][2].text == "30.00"


def test_rates_that_were_tried_are_shown():
    found = tournament({"fedavg": BASE})
    found.rates = [
        Tuning("fedavg", 4, {0.05: 0.6, 0.16: 0.7, 0.5: None}),
        Tuning("scaffold", 8, {0.16: 0.8, 0.5: 0.75}),
    ]
    table = tables(found, [], 10)[0]
    assert table.columns == ["method", "rounds", "0.05", "0.16", "0.5"]
    assert [[c.shown for c in row] for row in table.rows] == [
        ["fedavg", "4", "60.00", "70.00*", "failed"],
        ["scaffold", "8", "—", "80.00*", "75.00"],
    ]
    text = page([], "mlp of 9 parameters", Lineup([], {}), found, [], [], 10)
    assert "All methods trained mlp of 9 parameters." in text


def test_finalists_are_shown_as_a_comparison_shows_them():
    better = [(0.70, 0.71, 0.60), (0.72, 0.72, 0.63), (0.69, 0.68, 0.59)]
    found = tournament({"fedavg": BASE, "scaffold": better})
    _, finals, differences = tables(found, finalists(found, sends), 100)
    assert finals.title == "Test accuracy %"
    assert finals.columns[-2:] == ["worst 10 %", "sent in 100 rounds"]
    texts = [[cell.text for cell in row] for row in finals.rows]
    assert texts[0] == ["scaffold", "70.33", "70.33", "60.67", "60.33", "25 kB"]
    # global: d = 10, 11, 11: mean 10.667, s = 0.577, t_{0.975, 2} s / sqrt(3) = 1.434
    assert differences.rows[0][2].text == "+10.67 [9.23, 12.10]"
    assert [row[0].value for row in differences.rows] == ["scaffold"]


def test_equal_methods_are_rarely_recommended(monkeypatch):
    """The leader is chosen on rows that are tested under other seeds; as simulated for the docs."""
    place = Path(__file__).parents[2]
    monkeypatch.syspath_prepend(place / "benchmarks")
    import advice_alarms

    said = (place / "docs/results/false-alarms.txt").read_text(encoding="utf-8")
    row = next(x for x in said.splitlines() if x.startswith("| all twelve are as good"))
    assert max(float(cell) for cell in row.split("|")[2:-1]) < 5
    rng = np.random.default_rng(0)
    assert sum(advice_alarms.wrong(rng, 5) for _ in range(150)) <= 0.11 * 150
    assert sum(advice_alarms.right(rng, 20, 0.5) for _ in range(20)) >= 12
