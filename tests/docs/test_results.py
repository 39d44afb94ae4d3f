"""What the pages of results claim agrees with itself."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
INTERVAL = re.compile(r"\[([−+][\d.]+), ([−+][\d.]+)\]$")
P = re.compile(r"(< )?([01]\.\d{3})$")
INDEX = (RESULTS / "index.md").read_text(encoding="utf-8")


def claims() -> list[tuple[str, float, float, float]]:
    """(where, both ends of an interval, the p-value in the next cell) of every table."""
    found = []
    for page in sorted(RESULTS.glob("*.md")):
        for line in page.read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            for left, right in pairwise(cells):
                ends, p = INTERVAL.search(left), P.match(right)
                if ends and p:
                    low, high = (float(e.replace("−", "-")) for e in ends.groups())
                    chance = 0.0 if p[1] else float(p[2])
                    found.append((f"{page.name}: {cells[1]}", low, high, chance))
    return found


def test_an_interval_beside_a_p_says_the_same_about_zero():
    """Both are corrected, or neither is."""
    assert len(claims()) > 30
    for where, low, high, p in claims():
        assert (p < 0.05) == (low > 0 or high < 0), where


def defined() -> set[str]:
    """The verdicts that the index explains before it uses them."""
    listed = INDEX.partition("## How to read a verdict\n")[2].partition("\n## ")[0]
    return set(re.findall(r"\*\*([\w ]+)\*\*", listed))


def rows() -> list[list[str]]:
    """(claim, verdict) of every table below "Every claim"."""
    lines = [
        line for line in INDEX.partition("## Every claim\n")[2].splitlines() if line[:1] == "|"
    ]
    told = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return [row for row in told if row != ["claim", "verdict"] and row[0].strip("-| ")]


def test_every_source_has_claims():
    assert len(defined()) > 6
    assert len(rows()) > 60


def test_the_overview_counts_every_claim():
    last = next(line for line in INDEX.splitlines() if line.startswith("| together |"))
    assert sum(int(cell) for cell in last.strip("| ").split(" | ")[1:]) == len(rows())


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_every_claim_has_a_verdict_that_is_explained(row):
    claim, verdict = row
    first = re.match(r"\*\*([\w ]+?)\.?\*\*", verdict)
    assert first, f"'{claim}' has no verdict: {verdict}"
    assert first[1] in defined(), f"'{claim}' has a verdict that is not explained: {first[1]}"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_what_holds_or_does_not_rests_on_five_seeds_or_an_interval(row):
    verdict = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", row[1])
    if not verdict.startswith(("**Holds", "**Does not hold")):
        return
    counted = re.search(r"\b(five|six|seven|eight|ten|twenty|20) (seeds|runs)\b", verdict)
    interval = re.search(r"\[[−+]?\d[\d.]*, [−+]?\d", verdict)
    exact = "by counting" in verdict or "formulas" in verdict or "every run" in verdict
    assert counted or interval or exact, verdict
