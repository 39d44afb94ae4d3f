"""What may be said of a comparison: leaders, corrections, ledgers."""

import numpy as np
import pytest
from comparisons import asked, records
from scipy import stats

from unalike.compare.analysis.claims import analyse
from unalike.compare.presentation.wording import notes, sentence
from unalike.compare.statistics.claims import claims
from unalike.compare.statistics.differences import Design
from unalike.compare.statistics.family import holm
from unalike.compare.statistics.reuse import resplit

CLEAR = {
    "a": [0.80, 0.81, 0.79, 0.80, 0.82],
    "b": [0.90, 0.92, 0.90, 0.91, 0.92],
    "c": [0.70, 0.70, 0.69, 0.72, 0.71],
}


STUDENT = {"test": "t", "rows": "these"}  # as textbooks have it


def test_differences_are_paired_by_seed_and_corrected_over_the_methods():
    values = {**CLEAR, "b": [0.81, 0.80, 0.80, 0.81, 0.83]}
    made = asked(values, baseline="a", **STUDENT)
    found = analyse(made, records(made, values))
    raw = [stats.ttest_rel(values[m], values["a"]).pvalue for m in ("b", "c")]
    lines = {line.label: line for line in found.lines}
    assert lines["a"].versus is None
    assert lines["a"].outcome is None
    assert [lines[m].versus.p for m in ("b", "c")] == pytest.approx(raw)
    # c first, with a part of 0.45 of alpha; then b beside who is best, whose part is 0.1
    assert raw[1] < raw[0]
    assert [lines[m].versus.p_corrected for m in ("b", "c")] == pytest.approx(
        [raw[0] * 0.55 / 0.45, lines["c"].versus.p_corrected]
    )
    assert (lines["b"].outcome, lines["c"].outcome) == ("open", "loss")
    assert found.tests == 2


def test_by_default_variances_are_moderated_and_rows_are_fresh():
    made = asked(CLEAR, baseline="a")
    found = analyse(made, records(made, CLEAR))
    x = np.array([[CLEAR[m] for m in "abc"]])
    by_hand = claims(x, 0, design=Design(reuse=[resplit(0.2, 0.1)]))
    mine = [line.versus for line in found.lines if line.versus]
    assert [v.p_corrected for v in mine] == pytest.approx(by_hand.corrected.p[0, 1:].tolist())
    assert [v.low_corrected for v in mine] == pytest.approx(
        by_hand.corrected_interval()[0][0, 1:].tolist()
    )
    assert [v.detectable for v in mine] == pytest.approx(by_hand.detectable()[0, 1:].tolist())
    assert found.reuse == [resplit(0.2, 0.1)]


def test_rows_that_runs_report_count_before_shares_that_were_asked_for():
    made = asked(CLEAR)
    rows = records(made, CLEAR)
    for r in rows:
        r["rows"] = {"train": 80, "validation": 0, "test": 40, "new": 0, "own": 1000, "unused": 20}
    assert analyse(made, rows).reuse[0] == (pytest.approx(0.4), None)
    made = asked(CLEAR, section="global")
    assert analyse(made, [{**r, "rows": rows[0]["rows"]} for r in records(made, CLEAR)]).reuse[
        0
    ] == (0.0, 1000)


def test_one_test_set_of_many_rows_is_in_intervals_of_accuracies_only():
    told = {}
    for metric in ("accuracy", "f1"):
        made = asked(CLEAR, section="global", metric=metric)
        rows = records(made, CLEAR)
        for r in rows:
            r["rows"] = {"train": 9, "validation": 0, "test": 0, "new": 0, "own": 50, "unused": 0}
        found = analyse(made, rows)
        told[metric] = found.of("b")[0].versus.low, " ".join(notes(made, found))
    assert told["accuracy"][0] < told["f1"][0]
    assert (
        "share a test set of 50 rows; the intervals include the chance in those rows"
        in told["accuracy"][1]
    )
    assert "for F1 the chance of its rows is not in the intervals" in told["f1"][1]


def test_a_clear_winner_is_the_only_bold_one():
    made = asked(CLEAR)
    found = analyse(made, records(made, CLEAR))
    assert [line.label for line in found.lines if line.best] == ["b"]
    assert found.verdicts[0].clear
    assert sentence(found.verdicts[0]).startswith("b is best: ahead of every other method")
    assert (found.of("b")[0].outcome, found.of("c")[0].outcome) == ("win", "loss")


def test_nobody_is_bold_if_the_runner_up_is_too_close():
    values = {**CLEAR, "d": [0.91, 0.91, 0.91, 0.90, 0.93]}
    made = asked(values)
    found = analyse(made, records(made, values))
    assert not any(line.best for line in found.lines)
    said = sentence(found.verdicts[0])
    assert said.startswith("no clear winner: d leads, but not significantly over b (p = ")


def test_nobody_is_bold_if_a_later_one_is_uncertain():
    """The runner-up is beaten for sure, but the third swings so much that it is not."""
    values = {
        "a": [0.90, 0.91, 0.90, 0.91, 0.90],
        "b": [0.89, 0.90, 0.89, 0.90, 0.888],
        "c": [0.99, 0.60, 0.99, 0.70, 0.99],
    }
    made = asked(values)
    found = analyse(made, records(made, values))
    assert found.verdicts[0].leader == "a"
    assert not found.verdicts[0].clear


def test_two_tables_never_contradict_each_other():
    """Sure among the leader's differences, not among those to the baseline: claimed in both."""
    draw = np.random.default_rng(0)
    base = np.array([0.80, 0.82, 0.79, 0.83, 0.81])
    best = base + np.array([0.017, 0.03, 0.049, 0.03, 0.034])
    values = {"a": base.tolist(), "b": best.tolist()}
    values |= {m: (best - 0.032 + draw.normal(0, 0.001, 5)).tolist() for m in "cdefghijklmnopqrst"}
    made = asked(values, baseline="a", **STUDENT)
    found = analyse(made, records(made, values))
    line = found.of("b")[0]
    assert holm([other.versus.p for other in found.lines if other.versus]).p[0] > 0.05
    assert found.verdicts[0].clear
    assert (line.outcome, line.best) == ("win", True)
    assert line.versus.p_corrected == pytest.approx(found.verdicts[0].p)
    assert 0 < line.versus.low_corrected < line.versus.high_corrected


def test_less_is_better_for_a_loss():
    made = asked(CLEAR, metric="loss", baseline="a")
    found = analyse(made, records(made, CLEAR))
    assert [line.label for line in found.lines if line.best] == ["c"]
    assert {line.label: line.outcome for line in found.lines} == {
        "a": None,
        "b": "loss",
        "c": "win",
    }


def test_one_seed_is_said_to_prove_nothing():
    made = asked(seeds=1)
    found = analyse(made, records(made, {"a": [0.5], "b": [0.9]}))
    assert not any(line.best for line in found.lines)
    assert sentence(found.verdicts[0]) == (
        "b leads; no test, because one seed says nothing about chance."
    )
    assert notes(made, found) == [
        "One seed: no spread, no interval and no test; raise compare.seeds."
    ]


def test_missing_cells_pair_only_what_both_have():
    made = asked(seeds=4)
    values = {"a": [0.1, 0.2, 0.3], "b": [0.2, None, 0.5, 0.9]}
    line = analyse(made, records(made, values)).of("b")[0]
    assert line.versus.n == 2
    assert line.versus.mean == pytest.approx(0.15)
    assert line.summary.n == 3


def test_leaders_are_ranked_over_the_seeds_that_all_have():
    """a has only seeds that were easy for everybody; b is better than a on each of them."""
    hard, easy = [0.50, 0.51, 0.50], [0.95, 0.96, 0.955]
    values = {"a": [None, None, None, 0.90, 0.91, 0.905], "b": [*hard, *easy]}
    made = asked(seeds=6)
    found = analyse(made, records(made, values))
    assert found.of("a")[0].summary.mean > found.of("b")[0].summary.mean
    assert found.verdicts[0].leader == "b"
    assert not found.verdicts[0].clear
    assert not any(line.best for line in found.lines)
    assert sentence(found.verdicts[0]) == (
        "b leads over the 3 seeds that all methods with results have; no winner is called while "
        "cells are missing."
    )
    assert notes(made, found)[-1] == (
        "Missing: a on dirichlet has 3 of 6 seeds. Tests use the seeds that both methods have."
    )


def test_a_method_without_any_result_is_named_and_nobody_wins():
    made = asked("abc", seeds=5)
    found = analyse(made, records(made, {m: CLEAR[m] for m in "ab"}))
    assert not any(line.best for line in found.lines)
    assert sentence(found.verdicts[0]).startswith("b leads over the 5 seeds that all methods with")
    assert "c on dirichlet has none of 5 seeds" in notes(made, found)[-1]


def test_without_the_baseline_nothing_is_tested():
    made = asked("abc", seeds=5, baseline="c")
    found = analyse(made, records(made, {m: CLEAR[m] for m in "ab"}))
    assert all(line.versus is None and not line.differs for line in found.lines)
    assert notes(made, found)[0].endswith("no test, because nothing of c is finished.")


def test_one_method_alone_is_not_tested():
    made = asked("a", seeds=5)
    found = analyse(made, records(made, {"a": CLEAR["a"]}))
    assert found.verdicts == []
    assert notes(made, found) == [
        "Mean ± standard deviation over 5 seeds; no test, because there is no other method.",
        "All seeds split the same rows, so intervals are widened to hold for fresh ones (Nadeau "
        "and Bengio; 0.29 tested rows for each that trains).",
    ]


def test_methods_that_are_the_same_have_no_leader():
    made = asked("abc", seeds=5)
    found = analyse(made, records(made, dict.fromkeys("abc", CLEAR["a"])))
    assert sentence(found.verdicts[0]) == "no difference: all methods have the same mean."


def test_results_follow_the_corrected_test():
    """Significant alone, but not among four; its corrected interval says so, too."""
    base = np.array([0.80, 0.82, 0.79, 0.83, 0.81])
    values = {"a": base.tolist(), "b": (base - np.array([0.01, 0.02, 0.05, 0.02, 0.03])).tolist()}
    values |= {m: (base + np.array([0.01, -0.01, 0.02, -0.02, 0.0])).tolist() for m in "cde"}
    made = asked(values, baseline="a", **STUDENT)
    line = analyse(made, records(made, values)).of("b")[0]
    assert line.versus.p < 0.05 < line.versus.p_corrected
    assert line.versus.high < 0 < line.versus.high_corrected
    assert (line.outcome, line.differs) == ("open", False)


def test_seeds_that_no_two_share_have_no_leader():
    made = asked(seeds=4)
    found = analyse(made, records(made, {"a": [0.5, 0.6], "b": [None, None, 0.7, 0.8]}))
    assert found.verdicts == []


def test_signed_ranks_claim_nothing_that_the_interval_does_not():
    """They ignore how far out one seed is; the interval does not, and the larger p counts."""
    base = [0.30] * 10
    far = [b + d for b, d in zip(base, np.r_[np.linspace(0.01, 0.018, 9), 0.5], strict=True)]
    values = {"a": base, "b": far}
    made = asked(values, test="wilcoxon", rows="these", seeds=10)
    found = analyse(made, records(made, values))
    line = found.of("b")[0]
    assert stats.wilcoxon(np.subtract(far, base)).pvalue < 0.05
    assert line.versus.low < 0 < line.versus.high
    assert (line.outcome, line.differs, line.best) == ("open", False, False)
    assert sentence(found.verdicts[0]).startswith("no clear winner: b leads, but not significantly")


def test_an_interval_holds_zero_where_another_test_leaves_it_open():
    """Signed ranks of five seeds have p = 1/16 at least, however sure Student's test is."""
    values = {"a": [0.50, 0.51, 0.49, 0.50, 0.52], "b": [0.70, 0.72, 0.70, 0.71, 0.73]}
    made = asked(values, test="wilcoxon", rows="these")
    versus = analyse(made, records(made, values)).of("b")[0].versus
    assert versus.p_corrected == 2**-4
    assert versus.low_corrected == 0 < versus.high_corrected


def test_nothing_finished_is_no_error():
    made = asked()
    found = analyse(made, [])
    assert (found.lines, found.verdicts, notes(made, found)) == ([], [], [])


def test_a_method_beside_itself_is_equal():
    values = {"a": CLEAR["a"], "b": CLEAR["a"]}
    made = asked(values)
    line = analyse(made, records(made, values)).of("b")[0]
    assert (line.versus.p_corrected, line.outcome, line.best) == (1.0, "equal", False)


def test_equal_needs_a_margin_and_open_says_nothing():
    draw = np.random.default_rng(1)
    base = draw.normal(0.8, 0.01, 10)
    values = {"a": base.tolist(), "b": (base + draw.normal(0.002, 0.001, 10)).tolist()}
    for margin, said in ((0.0, "win"), (0.02, "equal")):
        made = asked(values, seeds=10, margin=margin)
        found = analyse(made, records(made, values))
        assert found.of("b")[0].outcome == said
    assert sentence(found.verdicts[0]) == (
        "no clear winner: b leads, but a is equal within the margin."
    )
    assert "equal: within ±2 points" in " ".join(notes(made, found))


def test_wilcoxon_warns_of_its_limit():
    made = asked(test="wilcoxon", seeds=5)
    found = notes(made, analyse(made, records(made, {k: CLEAR[k] for k in "ab"})))
    assert "cannot give less than p = 0.062; use at least 6 seeds" in found[-1]
    made = asked(test="wilcoxon", seeds=6)
    values = {k: [*CLEAR[k], 0.8] for k in "ab"}
    assert "cannot give" not in " ".join(notes(made, analyse(made, records(made, values))))


def test_wilcoxons_limit_is_that_of_the_corrected_p():
    """Two differences of six seeds, which share nine tenths of alpha: 2 / 0.9 x 2^-5 = 0.069."""
    made = asked("abc", test="wilcoxon", seeds=6)
    found = notes(made, analyse(made, records(made, {m: [*CLEAR[m], 0.8] for m in "abc"})))
    assert "and 2 differences" in found[-1]
    assert "cannot give less than p = 0.069; use at least 7 seeds" in found[-1]
    made = asked("abcd", test="wilcoxon", seeds=7)  # 3 x 2^-6 is less than 0.05, / 0.9 is not
    values = {m: [*CLEAR["a"], 0.8, 0.81] for m in "abcd"}
    for place, m in enumerate("bcd", 1):
        values[m] = [v + 0.01 * place + 0.001 * i for i, v in enumerate(values[m])]
    found = analyse(made, records(made, values))
    assert min(found.of(m)[0].versus.p_corrected for m in "bcd") == pytest.approx(3 / 0.9 / 64)
    assert "cannot give less than p = 0.052; use at least 8 seeds" in notes(made, found)[-1]


def test_clients_without_a_value_are_counted():
    made = asked(CLEAR, metric="auroc")
    rows = records(made, CLEAR)
    for r in rows:
        r["metrics"]["local"]["auroc"] |= {"clients": 10 + r["seed"] % 3, "undefined": 10}
    assert analyse(made, rows).of("b")[0].judged[0] == (10, 20)
    told = notes(made, analyse(made, rows))
    assert (
        "Only 10 to 12 of 20 to 22 clients have an AUROC; the others are left out of means." in told
    )
    for r in rows:
        r["metrics"]["local"]["auroc"] |= {"clients": 20, "undefined": 0}
    assert "left out of means" not in " ".join(notes(made, analyse(made, rows)))


TWO = ["iid", {"name": "dirichlet", "alpha": 0.1}]


def test_conditions_are_one_family_with_their_mean():
    made = asked(CLEAR, partitions=TWO)
    found = analyse(made, records(made, CLEAR))
    assert [v.condition for v in found.verdicts] == ["iid", "dirichlet", "all conditions"]
    assert len(found.lines) == 6
    first, second = found.at("iid"), found.at("dirichlet")
    assert [line.versus for line in first] == [line.versus for line in second]
    assert found.tests == 6
    assert [line.label for line in found.overall] == ["a", "b", "c"]
    assert found.overall[1].values == pytest.approx(found.of("b")[0].values)
    assert (found.overall[1].outcome, found.overall[1].best) == ("win", True)


def test_a_seed_counts_over_all_conditions_once_all_have_it():
    made = asked(CLEAR, partitions=TWO)
    rows = [r for r in records(made, CLEAR) if (r["condition"], r["seed"]) != ("iid", 4)]
    found = analyse(made, rows)
    assert sorted(found.overall[0].values) == [0, 1, 2, 3]
    assert found.verdicts[-1].standing == "missing"
    only = analyse(made, [r for r in rows if r["condition"] == "iid"])
    assert only.overall == []
    assert [v.condition for v in only.verdicts] == ["iid"]


def test_ranks_come_with_the_fifth_condition():
    for n, there in ((4, False), (5, True)):
        many = [{"name": "dirichlet", "alpha": 0.1 * (i + 1)} for i in range(n)]
        made = asked(CLEAR, partitions=many)
        found = analyse(made, records(made, CLEAR))
        assert (found.ranks is not None) == there
    assert found.ranks.mean.tolist() == [2.0, 1.0, 3.0]


def test_of_two_methods_one_is_best_just_if_the_test_says_so():
    made, draw = asked(**STUDENT), np.random.default_rng(7)
    told = 0
    for _ in range(200):
        values = {m: draw.normal(0.9, 0.02, 5).tolist() for m in "ab"}
        found = analyse(made, records(made, values))
        differ = stats.ttest_rel(values["a"], values["b"]).pvalue < 0.05
        assert any(line.best for line in found.lines) == differ
        assert (found.of("b")[0].versus.p_corrected < 0.05) == differ
        told += differ
    assert 0 < told < 30


def test_of_many_equals_none_is_best_although_one_leads():
    """Choosing the leader afterwards must not turn chance into a winner."""
    made, draw = asked("abcdef", seeds=5), np.random.default_rng(8)
    told = 0
    for _ in range(60):
        values = {m: draw.normal(0.9, 0.02, 5).tolist() for m in "abcdef"}
        told += analyse(made, records(made, values)).verdicts[0].clear
    assert told <= 3
