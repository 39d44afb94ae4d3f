"""What a comparison says of its tests."""

import pytest
from comparisons import asked, records

from unalike.compare.analysis.claims import analyse
from unalike.compare.presentation.wording import notes

CLEAR = {
    "a": [0.80, 0.81, 0.79, 0.80, 0.82],
    "b": [0.90, 0.92, 0.90, 0.91, 0.92],
    "c": [0.70, 0.70, 0.69, 0.72, 0.71],
}


def test_why_nothing_is_tested_is_told_as_it_is():
    """A metric may be undefined on all runs of one method, and runs may not have finished."""
    made, none = asked("abc", seeds=5), [None] * 5
    for values, why in (
        ({**CLEAR, "a": none}, "a has no value of the metric"),
        ({**CLEAR, "b": none, "c": none}, "no other method has a value under a seed of a"),
        ({"a": CLEAR["a"]}, "no other method has a value under a seed of a"),
        ({"a": [0.8, 0.8], "b": [None, None, 0.7, 0.8]}, "no other method has a value under"),
    ):
        found = analyse(made, records(made, values))
        assert f"no test, because {why}" in notes(made, found)[0]


def test_larger_p_values_that_count_are_named():
    """A reader who computes Wilcoxon's p alone would find another number."""
    for test, said in (
        ("wilcoxon", "Wilcoxon's signed-rank test and a paired t-test, of which the larger p"),
        ("hall", "a paired t-test and the same corrected for skewness, of which the larger p"),
    ):
        made = asked(test=test, seeds=5)
        found = notes(made, analyse(made, records(made, {k: CLEAR[k] for k in "ab"})))
        assert f"are tested by {said} counts; " in found[0]


@pytest.mark.parametrize(
    ("name", "said"), [("rmse", "an RMSE"), ("r2", "an R²"), ("kl", "a KL"), ("loss", "a loss")]
)
def test_metrics_have_the_article_of_their_sound(name, said):
    made = asked(metric=name)
    rows = records(made, CLEAR)
    for r in rows:
        r["metrics"]["local"][name] |= {"clients": 5, "undefined": 1}
    [told] = [note for note in notes(made, analyse(made, rows)) if "left out" in note]
    assert told == f"Only 5 of 6 clients have {said}; the others are left out of means."
