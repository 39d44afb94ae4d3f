"""Gamma: the training loss of one model for all less that of everybody's own."""

from pathlib import Path
from typing import Any

import pytest
from comparisons import run_here, tiny

from unalike.compare.analysis.claims import analyse
from unalike.compare.analysis.heterogeneity import gammas
from unalike.compare.analysis.results import Results
from unalike.compare.presentation.tables import tables
from unalike.compare.presentation.wording import gamma
from unalike.run.folder.records import read_json, read_lines


def row(method: str, seed: int, loss: float | None, condition: str = "a") -> dict[str, Any]:
    found = {} if loss is None else {"train_loss": loss}
    return {"method": method, "seed": seed, "condition": condition, **found}


def test_seeds_are_paired() -> None:
    """0.9 - 0.4 and 0.8 - 0.5: mean 0.4, standard deviation 0.1414; a third seed has no partner."""
    rows = [row("pooled", 0, 0.9), row("pooled", 1, 0.8), row("pooled", 2, 9.0)]
    rows += [row("local_only", 1, 0.5), row("local_only", 0, 0.4), row("fedavg", 2, 0.1)]
    (found,) = gammas(rows)
    assert (found.condition, found.n) == ("a", 2)
    assert found.mean == pytest.approx(0.4)
    assert found.std == pytest.approx(0.1414, abs=1e-4)
    assert gamma(found).startswith("Γ = 0.4000 ± 0.1414 over 2 seeds: ")


@pytest.mark.parametrize(
    "rows",
    [
        [row("pooled", 0, 0.9)],
        [row("pooled", 0, 0.9), row("local_only", 1, 0.9)],
        [row("pooled", 0, 0.9), row("local_only", 0, None)],
        [row("pooled", 0, 0.9), row("local_only", 0, 0.9, "b")],
    ],
)
def test_nothing_is_said_without_both(rows: list[dict[str, Any]]) -> None:
    assert gammas(rows) == []


def test_a_comparison_states_it(tmp_path: Path) -> None:
    """The number is that of the cells' own records: weighted means by examples, lowest round."""
    judged = "[evaluation]\ntrain = true"
    made = tiny('methods = ["pooled", "local_only"]\nseeds = 1', judged)
    run_here(made, tmp_path)
    lowest = {}
    for cell in made.cells:
        lines = read_lines(tmp_path / cell.folder / "clients.jsonl")
        each = [line["train"] for line in lines]
        sums = [sum(n * v for n, v in zip(e["n"], e["loss"], strict=True)) for e in each]
        lowest[cell.method] = min(s / sum(e["n"]) for s, e in zip(sums, each, strict=True))
    want = lowest["pooled"] - lowest["local_only"]
    (found,) = read_json(tmp_path / "statistics.json")["gamma"].values()
    assert found["mean"] == pytest.approx(want, rel=1e-5)
    analysis = analyse(made, Results(made, tmp_path).records)
    assert any(
        f"Γ = {want:.4f} over one seed" in n for t in tables(made, analysis) for n in t.notes
    )
