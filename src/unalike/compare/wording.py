"""What an analysis says, in sentences: verdicts, budgets, what tests rest on, what is missing."""

import math
from collections.abc import Sequence

from unalike.compare.analysis import MORE, Analysis, Line, Use, Verdict, asked
from unalike.compare.settings import Budget
from unalike.compare.spec import Comparison
from unalike.compare.statistics import ALPHA, least_p
from unalike.metrics.catalogue import STATISTICS, TESTS, metric
from unalike.tables.format import count, p_value, size

FEW = 20  # seeds below which the bootstrap's intervals are clearly too narrow
NAMED = 3  # of many things in a sentence; the others are counted
PROCEDURES = {
    "t": "paired t-test",
    "hall": "paired t-test guarded against skew",
    "wilcoxon": "Wilcoxon's signed-rank test",
}


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
        return f"{leader} leads; no test, since one seed says nothing about chance."
    if verdict.standing == "equal" or verdict.p is None:
        return "no difference: all methods have the same mean."
    if verdict.standing == "best":
        return (
            f"{leader} is best: ahead of every other method over {seeds} seeds "
            f"(largest corrected {p_value(verdict.p)})."
        )
    why = p_value(verdict.p) if verdict.p >= ALPHA else "an interval has a zero"
    rivals = listed(verdict.rivals)
    return f"no clear winner: {leader} leads, but not significantly over {rivals} ({why})."


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
    """What a reader must know about the tests, and which methods lack seeds."""
    return [*_tests(made, analysis.lines), *_missing(made, analysis.lines)]


def _tests(made: Comparison, lines: Sequence[Line]) -> list[str]:
    if not lines:
        return []
    judging, n = made.judging, max(line.summary.n for line in lines)
    if n < 2:
        return ["One seed: no spread, no interval and no test; raise compare.seeds."]
    test = PROCEDURES[judging.test]
    kind = "Student's t" if judging.interval == "t" else "the bootstrap"
    spread = f"Mean ± standard deviation over {n} seeds; 95 % intervals by {kind}"
    if not any(line.versus for line in lines):
        begun = any(line.label == made.baseline for line in lines)
        why = "there is no other method" if begun else f"nothing of {made.baseline} is finished"
        return [f"{spread}; no test, since {why}."]
    out = [
        f"{spread}; p by the {test} on differences to {made.baseline} with the same seed, "
        "Holm-corrected over the methods."
    ]
    others = len(made.labels) - 1
    least = others * least_p(n, judging.test)
    if least >= ALPHA:
        among = "" if others == 1 else f" and {others} differences"
        out.append(
            f"With {n} seeds{among} {test} cannot give less than {p_value(min(least, 1.0))}; use "
            f"at least {2 + math.floor(math.log2(others / ALPHA))} seeds."
        )
    if judging.interval == "bootstrap" and n < FEW:
        out.append(
            f"The bootstrap's intervals are too narrow with fewer than {FEW} seeds; "
            "compare.interval = 't' has wider ones."
        )
    return out


def _missing(made: Comparison, lines: Sequence[Line]) -> list[str]:
    there = {(line.label, line.condition): line.summary.n for line in lines}
    few: list[str] = []
    for condition in made.conditions if lines else []:
        for label, n in asked(made, condition).items():
            found = there.get((label, condition), 0)
            if found < n:
                few.append(f"{label} on {condition} has {found or 'none'} of {n} seeds")
    return [f"Missing: {listed(few)}. Tests use the seeds that both methods have."] if few else []
