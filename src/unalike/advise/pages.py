"""Advice as tables, as a Markdown page and as JSON."""

from typing import Any

from unalike.advise.advice import TITLES, Advice, Finalist, finals
from unalike.advise.entrants import BASELINE, PERSONAL, Lineup
from unalike.advise.rates import best
from unalike.advise.tournament import INTERRUPTED, TIME, Outcome
from unalike.compare.presentation.tables import EMPTY, difference
from unalike.errors import counted
from unalike.federation.skew import Skew
from unalike.metrics.catalogue import head
from unalike.tables.cells import score, size, whole, words
from unalike.tables.markdown import in_markdown, markdown
from unalike.tables.model import Cell, Table

FAILED = Cell(None, "failed")
REMEDIES = {TIME: "Give it more --minutes.", INTERRUPTED: "Start it again and let it finish."}
CAVEAT = (
    "Rounds, rates and methods were chosen on validation rows only, and every row counts the "
    "same; intervals are widened to hold for fresh rows. Only local.lr was tuned: with other "
    "settings tuned for these data (unalike tune), or with another model, the order may change."
)


def tables(found: Outcome, lines: list[Finalist], rounds: int) -> list[Table]:
    """Rates, scores by rung, tests of the finalists, their differences; as far as there are any."""
    out = [_rates(found)] if found.rates else []
    out += [_rungs(found)] if found.results else []
    if lines:
        out.append(_finals(lines, rounds, found.metric))
    if any(any(f.versus.values()) for f in lines):
        out.append(_differences(lines, found.metric))
    return out


def _rates(found: Outcome) -> Table:
    """The score of every method that tuned its rate, at each rate."""
    tried = sorted({rate for tuning in found.rates for rate in tuning.scores})
    rows = []
    for method, rounds, scores in found.rates:
        cells = [_tried(scores, rate, found.metric) for rate in tried]
        taken = best(scores, found.higher)
        cells[tried.index(taken)] = cells[tried.index(taken)]._replace(bold=True, mark="*")
        rows.append([words(method), whole(rounds), *cells])
    heads = ["method", "rounds", *(f"{rate:g}" for rate in tried)]
    note = "*: the rate that was chosen."
    return Table(f"Validation {head(found.metric)} by local.lr", heads, rows, [note])


def _tried(scores: dict[float, float | None], rate: float, metric: str) -> Cell:
    if rate not in scores:
        return EMPTY
    return FAILED if scores[rate] is None else score(scores[rate], metric)


def _rungs(found: Outcome) -> Table:
    """Validation scores, one line a method, one column a rung; means over finished seeds."""
    columns = [found.means(number) for number in range(len(found.plan))]
    order: dict[str, None] = {}  # who came furthest, then who scored best there
    for column in reversed(columns):
        order |= dict.fromkeys(m for m in found.best_first(column) if m not in order)
    rows = [
        [
            words(method),
            words(_kind(method)),
            *(score(c.get(method), found.metric) for c in columns),
        ]
        for method in order
    ]
    heads = ["method", "models", *(counted(r, "round") for r in found.plan)]
    return Table(f"Validation {head(found.metric)} by rung", heads, rows)


def _finals(lines: list[Finalist], rounds: int, metric: str) -> Table:
    """Tests of the finalists and what they would send."""
    rows = [
        [
            words(f.method),
            *(score(value, metric) for value in (f.validation, f.local, f.shared)),
            score(f.worst10, metric, "worst10"),
            size(f.bytes),
        ]
        for f in lines
    ]
    sent = f"sent in {counted(rounds, 'round')}"
    heads = ["method", "validation", "local", "global", head(metric, "worst10"), sent]
    return Table(f"Test {head(metric)}", heads, rows)


def _differences(lines: list[Finalist], metric: str) -> Table:
    """Differences from the baseline over the same seeds, with 95 % intervals."""
    rows = [
        [
            words(f.method),
            *(
                EMPTY if v is None else difference(v.mean, v.low, v.high, metric)
                for v in f.versus.values()
            ),
        ]
        for f in lines
        if any(f.versus.values())
    ]
    title = f"Difference from {BASELINE} in test {head(metric)} [95 % interval]"
    return Table(title, ["method", *lines[0].versus], rows)


def notes(found: Outcome, rounds: int) -> list[str]:
    """What a reader has to know besides."""
    out = []
    if found.ended:
        out.append(f"The tournament did not finish: {found.ended}.")
    results, _ = finals(found)
    if not results:
        return out
    reached, had = results[0].rung, results[0].rounds
    if had < rounds:
        out.append(
            f"The advice rests on runs of {had} of {counted(rounds, 'round')}; with more "
            "--minutes they would have more, and the order may change."
        )
    if dropped := found.dropped(reached):
        seeds = len({r.seed for r in found.rung(0)})
        out.append(
            f"Dropped along the way, by validation scores of {counted(seeds, 'seed')} and "
            f"without a test: {', '.join(dropped)}. The best of them may be as good as those "
            "that stayed; if you have reason to prefer one, compare it."
        )
    return [*out, CAVEAT]


def no_advice(found: Outcome) -> str:
    """Why there is nothing to advise, and what to do about it."""
    remedy = REMEDIES.get(found.ended, "Fix what ended it and start it again.")
    return f"There is no advice: no seed of the first rung was finished by all methods. {remedy}"


def page(
    skew: list[str],
    model: str,
    entered: Lineup,
    found: Outcome,
    lines: list[Finalist],
    advice: list[Advice],
    rounds: int,
) -> str:
    """The whole advice as a page."""
    said = [f"**{TITLES[a.goal]}.** {in_markdown(f'{a.sentence} {a.cost}')}" for a in advice]
    parts = ["# Advice", *(said or [no_advice(found)]), *map(in_markdown, notes(found, rounds))]
    parts += ["## Model", f"All methods trained {in_markdown(model)}."]
    parts += ["## Skew", " ".join(skew)]
    for table in tables(found, lines, rounds):
        parts += [f"## {in_markdown(table.title)}", markdown([table._replace(title="")])]
    out = {**entered.left_out, **found.failed}
    if out:
        reasons = [f"- {in_markdown(f'{name}: {why}')}" for name, why in out.items()]
        parts += ["## Left out", "\n".join(reasons)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def as_dict(
    skew: Skew,
    words: list[str],
    model: str,
    entered: Lineup,
    found: Outcome,
    lines: list[Finalist],
    advice: list[Advice],
) -> dict[str, Any]:
    """The whole advice as plain data."""
    return {
        "skew": skew.as_dict(),
        "words": words,
        "model": model,
        "metric": f"validation {found.metric}, mean over rows",
        "rates": [
            {**t._asdict(), "scores": {f"{rate:g}": s for rate, s in t.scores.items()}}
            for t in found.rates
        ],
        "rounds": found.plan,
        "ended": found.ended,
        "advice": [a.as_dict() for a in advice],
        "finalists": [_plain(f) for f in lines],
        "runs": [
            {k: v for k, v in r._asdict().items() if k != "tests"} | {"rung": r.rung + 1}
            for r in found.results
        ],
        "left_out": {**entered.left_out, **found.failed},
    }


def _plain(line: Finalist) -> dict[str, Any]:
    versus = {s: None if d is None else d._asdict() for s, d in line.versus.items()}
    own = {
        k: getattr(line, k) for k in ("method", "validation", "local", "worst10", "bytes", "rate")
    }
    return {**own, "global": line.shared, "to_fedavg": versus}


def _kind(method: str) -> str:
    return "personal" if method in PERSONAL else "shared"
