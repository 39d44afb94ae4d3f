"""What an analysis says, in sentences: verdicts, budgets, tests, what is missing."""

import math
from collections.abc import Sequence

from unalike.compare.analysis.claims import LINE, asked
from unalike.compare.analysis.heterogeneity import ALONE, TOGETHER, Gamma
from unalike.compare.analysis.lines import Analysis, Line, Verdict
from unalike.compare.analysis.uses import MORE, Use
from unalike.compare.specification.settings import Budget
from unalike.compare.specification.spec import Comparison
from unalike.compare.statistics.claims import share
from unalike.compare.statistics.differences import least_p
from unalike.compare.statistics.known import ALPHA
from unalike.compare.statistics.ranks import Ranks
from unalike.compare.statistics.speed import SAME, SHARE
from unalike.metrics.catalogue import POOLED, STATISTICS, TESTS, metric
from unalike.run.experiment.cadence import within
from unalike.tables.format import count, decimal, p_value, size, whole, with_unit

NAMED, TOLD = 3, 8  # of many things or methods in a sentence; the others are counted
PROCEDURES = {
    "moderated": "a paired t-test with moderated variances",
    "t": "a paired t-test",
    "hall": "a paired t-test and the same corrected for skewness",
    "wilcoxon": "Wilcoxon's signed-rank test and a paired t-test",
}
LARGER = ("hall", "wilcoxon")  # of whose two p-values the larger one counts


def sentence(verdict: Verdict) -> str:
    """A condition in one sentence."""
    leader, seeds = verdict.leader, verdict.seeds
    if verdict.standing == "missing":
        which = f"the {seeds} seeds" if seeds > 1 else "the one seed"
        return (
            f"{leader} leads over {which} that all methods with results have; no winner is called "
            "while cells are missing."
        )
    if verdict.standing == "one seed":
        return f"{leader} leads; no test, because one seed says nothing about chance."
    if verdict.standing == "equal" or verdict.p is None:
        return "no difference: all methods have the same mean."
    if verdict.standing == "best":
        return (
            f"{leader} is best: ahead of every other method over {seeds} seeds "
            f"(largest {p_value(verdict.p)})."
        )
    rivals = listed(verdict.rivals)
    if verdict.standing == "level":
        return f"no clear winner: {leader} leads, but {rivals} is equal within the margin."
    why = p_value(verdict.p)
    return f"no clear winner: {leader} leads, but not significantly over {rivals} ({why})."


def told(verdict: Verdict, made: Comparison, analysis: Analysis) -> str:
    """A condition in a sentence on who leads it and one on the baseline, if there is news of it."""
    lines = [line for line in (*analysis.lines, *analysis.overall) if line.versus]
    here = [line for line in lines if line.condition == verdict.condition]
    better, worse = ([x.label for x in here if x.outcome == o] for o in ("win", "loss"))
    if verdict.clear and better == [verdict.leader]:
        better = []  # has been said
    if verdict.clear and verdict.leader == made.baseline:
        worse = []
    said = [f"better: {listed(better, TOLD)}"] if better else []
    said += [f"worse: {listed(worse, TOLD)}"] if worse else []
    against = f" Against {made.baseline}, {'; '.join(said)}." if said else ""
    return sentence(verdict) + against


def best_on_test(made: Comparison) -> str:
    """What the marked column is."""
    points = any(cell.config.evaluation.line for cell in made.cells)
    what = (
        "each client's best point between the shared model and its own"
        if points and made.judging.section in LINE
        else "every run's best evaluated round"
    )
    return (
        f"Best on test: the mean over seeds of {what}, chosen on the test rows themselves, as the "
        "source reports it. It is too good by chance; it is shown for comparison with published "
        "numbers, and no test and no verdict uses it."
    )


def gamma(found: Gamma) -> str:
    """What one model for all costs, in one sentence."""
    spread = "" if found.std is None else f" ± {found.std:.4f}"
    over = "one seed" if found.n == 1 else f"{found.n} seeds"
    return (
        f"Γ = {found.mean:.4f}{spread} over {over}: the lowest training loss of {TOGETHER} minus "
        f"that of {ALONE}, clients weighted by their examples."
    )


def listed(words: Sequence[str], named: int = NAMED) -> str:
    """The first of them by name, the others by their number.

    >>> listed(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    rest = f" and {len(words) - named} more" if len(words) > named else ""
    return ", ".join(words[:named]) + rest


def more(line: Line, made: Comparison) -> str:
    """What a method used more of than its budget or the baseline."""
    return " and ".join(_more(use, made.baseline) for use in line.more)


def less(line: Line) -> str:
    """What a method left of its budget."""
    return " and ".join(
        f"only {100 * use.times:.2g} % of the budget of {use.of}" for use in line.less
    )


def _more(use: Use, baseline: str) -> str:
    whose = f"the budget of {use.of}" if use.budget else f"the {use.of} of {baseline}"
    if math.isinf(use.times):
        return f"more than {whose}"
    if use.times >= MORE:
        return f"{use.times:.3g} times {whose}"
    return f"{100 * (use.times - 1):.2g} % more than {whose}"


def amount(budget: Budget) -> str:
    """A stated budget."""
    return size(budget.amount) if budget.kind == "bytes" else count(budget.amount)


def legend(made: Comparison) -> str:
    """What the compared numbers are, and at which budget."""
    j, budget = made.judging, made.budget
    which = "the round selected on validation data" if j.round == "selected" else "the last round"
    how = "" if j.statistic == "mean" else f" ({STATISTICS[j.statistic]} of the clients)"
    what = metric(j.metric).title
    given = "local samples" if budget.kind == "samples" else budget.kind
    much = "" if budget.amount is None else f" ({amount(budget)})"
    equal = "methods set their own rounds" if own_rounds(made) else f"at equal {given}{much}"
    return f"{what[0].upper()}{what[1:]}{how} on {TESTS[j.section]} in {which}, {equal}."


def own_rounds(made: Comparison) -> bool:
    """Whether rounds are what methods get the same of, but some of them set their own."""
    rounds: dict[str, set[int]] = {}
    for cell in made.cells:
        rounds.setdefault(cell.condition, set()).add(cell.config.rounds)
    return made.budget.kind == "rounds" and any(len(found) > 1 for found in rounds.values())


def notes(made: Comparison, analysis: Analysis) -> list[str]:
    """What a reader must know about the tests, and which methods lack seeds or clients."""
    lines = analysis.lines
    said = [*_tests(made, analysis), *_evaluated(made)]
    return [*said, *_left_out(made, lines), *_missing(made, lines)]


def _evaluated(made: Comparison) -> list[str]:
    """In which rounds methods are compared, where that is not every round."""
    rounds = {c.condition: c.config.rounds for c in reversed(made.cells)}
    seldom = {c: within(n, rounds[c]) for c, n in made.cadence.items() if n > 1 and c in rounds}
    told = {c: f"every {n} rounds" for c, n in seldom.items() if n > 1}
    if not told:
        return []
    if len(set(told.values())) == 1 and len(told) == len(made.conditions):
        how = next(iter(told.values()))
    else:
        how = listed([f"{n} on {c}" for c, n in told.items()])
    return [
        f"All methods are evaluated in the same rounds, {how} and after the last; rounds are "
        "selected, and targets reached, among these."
    ]


def _tests(made: Comparison, analysis: Analysis) -> list[str]:
    lines = analysis.lines
    if not lines:
        return []
    judging, n = made.judging, max(line.summary.n for line in lines)
    if not n:
        return ["No run has a value of the metric."]
    if n < 2:
        return ["One seed: no spread, no interval and no test; raise compare.seeds."]
    spread = f"Mean ± standard deviation over {n} seeds"
    if not any(line.versus for line in lines):
        return [f"{spread}; no test, because {_untested(made, lines)}.", *_shared(made, analysis)]
    over = "methods" if len(made.conditions) == 1 else "methods and conditions"
    out = [
        f"{spread}. Differences from {made.baseline} under the same seed are tested by "
        f"{PROCEDURES[judging.test]}"
        f"{', of which the larger p counts' if judging.test in LARGER else ''}; their p-values "
        "and intervals are Holm-corrected over "
        f"{over} ({analysis.tests}){_beside(made)}.",
        *_shared(made, analysis),
        _results(made),
    ]
    times = analysis.tests / share(len(made.labels))
    least = times * float(least_p(n, judging.test))
    if least >= ALPHA:
        among = "" if analysis.tests == 1 else f" and {analysis.tests} differences"
        out.append(
            f"With {n} seeds{among} {PROCEDURES[judging.test]} cannot give less than "
            f"{p_value(min(least, 1.0))}; use at least "
            f"{2 + math.floor(math.log2(times / ALPHA))} seeds."
        )
    return out


def _untested(made: Comparison, lines: Sequence[Line]) -> str:
    """Why no difference from the baseline is known."""
    own = [line for line in lines if line.label == made.baseline]
    if not own:
        return f"nothing of {made.baseline} is finished"
    if not any(line.summary.n for line in own):
        return f"{made.baseline} has no value of the metric"
    if len(made.labels) == 1:
        return "there is no other method"
    return f"no other method has a value under a seed of {made.baseline}"


def _beside(made: Comparison) -> str:
    """With two methods, the best and the difference are the same question."""
    return ", and over who is best" if len(made.labels) > 2 else ""


def _shared(made: Comparison, analysis: Analysis) -> list[str]:
    """What intervals are about, since all seeds use the same rows."""
    if made.judging.rows == "these":
        return [
            "Intervals and tests are about these rows alone: all seeds split the same rows, so "
            "other rows may say otherwise."
        ]
    out = []
    if ratios := sorted({decimal(r.ratio, 2) for r in analysis.reuse if r.ratio}):
        span = ratios[0] if len(ratios) == 1 else f"{ratios[0]} to {ratios[-1]}"
        out.append(
            "All seeds split the same rows, so intervals are widened to hold for fresh ones "
            f"(Nadeau and Bengio; {span} tested rows for each that trains)."
        )
    if fixed := sorted({r.fixed for r in analysis.reuse if r.fixed}):
        rows = " or ".join(map(whole, fixed))
        out.append(
            f"All seeds share a test set of {rows} rows; the intervals include the chance "
            "in those rows."
        )
    if made.judging.section == POOLED and any(r == (0.0, None) for r in analysis.reuse):
        out.append(
            f"All seeds share one test set, and for {metric(made.judging.metric).title} the chance "
            "of its rows is not in the intervals."
        )
    return out


def _results(made: Comparison) -> str:
    """What the words of a result mean."""
    name, margin = made.judging.metric, made.judging.margin
    points = " points" if metric(name).share else ""
    size = f"{100 * margin if metric(name).share else margin:g}{points}"
    equal = f"equal: within ±{size}; " if margin else ""
    return (
        f"win, loss: corrected p < {ALPHA:g}; {equal}open: nothing has been shown. "
        "Least found: the true difference that 80 of 100 such comparisons would find."
    )


def goal(made: Comparison) -> str:
    """The target whose first round is compared."""
    name, stated = made.judging.metric, made.judging.target
    if stated is not None:
        return f"{metric(name).title} {with_unit(stated, name)}"
    of = f"{100 * SHARE:.0f} % of" if metric(name).higher else f"1/{SHARE:g} of"
    if metric(name).higher and not metric(name).share:
        of = f"{100 * SHARE:.0f} % (below zero 1/{SHARE:g}) of"
    return f"{of} {made.baseline}'s best {metric(name).title} under the same seed"


def speed(made: Comparison) -> str:
    """What the speeds are, and what they claim."""
    return (
        f"Target: {goal(made)}. Ratios to {made.baseline} are geometric means over seeds; less "
        "is faster. A run that missed the target counts with all that it spent, so that a ratio is "
        "a bound (≥; ≤ where the baseline missed it; ≈ where both did) and its interval open on "
        "that side; a method that missed it under any seed is never called faster. Equal: within "
        f"{100 * (SAME - 1):.0f} %. Speeds are "
        "corrected over methods and conditions, separately from scores."
    )


def ranked(found: Ranks, conditions: int) -> str:
    """What mean ranks over the conditions say."""
    return (
        f"Mean ranks over {conditions} conditions, 1 is best: two methods differ if their ranks "
        f"are {decimal(found.apart, 2)} apart (Nemenyi); Friedman's {p_value(found.p)}."
    )


def _left_out(made: Comparison, lines: Sequence[Line]) -> list[str]:
    """On how many clients a metric is defined, where that is not all of them."""
    told: list[str] = []
    for condition in made.conditions:
        seen = [c for line in lines if line.condition == condition for c in line.judged]
        if any(mine < total for mine, total in seen):
            few, many = min(c[0] for c in seen), max(c[0] for c in seen)
            totals = sorted({total for _, total in seen})
            total = str(totals[0]) if len(totals) == 1 else f"{totals[0]} to {totals[-1]}"
            span = str(few) if few == many else f"{few} to {many}"
            where = f" on {condition}" if len(made.conditions) > 1 else ""
            told.append(f"{span} of {total} clients{where}")
    name = metric(made.judging.metric).title
    if not told:
        return []
    return [f"Only {'; '.join(told)} have {_a(name)}; the others are left out of means."]


def _a(name: str) -> str:
    """With its article: letters that are read one by one begin with their names."""
    vowels = "aeiou" if name[0].islower() else "AEFHILMNORSX"
    return f"an {name}" if name[0] in vowels else f"a {name}"


def _missing(made: Comparison, lines: Sequence[Line]) -> list[str]:
    there = {(line.label, line.condition): line.summary.n for line in lines}
    few: list[str] = []
    for condition in made.conditions if lines else []:
        for label, n in asked(made, condition).items():
            found = there.get((label, condition), 0)
            if found < n:
                few.append(f"{label} on {condition} has {found or 'none'} of {n} seeds")
    return [f"Missing: {listed(few)}. Tests use the seeds that both methods have."] if few else []
