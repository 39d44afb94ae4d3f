"""Every preset from the command line to its report, one seed in as few rounds as it can be."""

import json
import math
from pathlib import Path

import pytest
from interrupted import process
from real_data import FOLDER, MISSING, skip_absent

from unalike.compare.presets import names, text
from unalike.compare.specification.spec import loads

SHORT = ("compare.seeds=1", "local.epochs=0.2", "evaluation.every=2")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", names())
def test_a_preset_ends_with_tables_and_a_report(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = loads(text(name), name, "small").cells
    warm = max(c.config.method.settings.get("warm_start", 0) for c in cells)
    joined = max(c.config.participation.joins for c in cells)
    short = (f"rounds={max(2, warm + 1, joined)}", *SHORT)
    made = loads(text(name), name, "small", short)
    needed = {c.config.data.name for c in made.cells} - {"digits"}
    if needed and not FOLDER.is_dir():
        pytest.skip(MISSING)
    monkeypatch.setenv("UNALIKE_DATA", str(FOLDER))
    skip_absent(made)
    place = tmp_path / name
    words = ["compare", name, "--scale", "small", "--folder", str(place), "--set", *short]
    with process(words, tmp_path) as running:
        out, err = running.communicate(timeout=1200)
    assert running.returncode == 0, err
    results = [json.loads(line) for line in (place / "results.jsonl").read_text().splitlines()]
    assert [r["id"] for r in results] == [c.id for c in made.cells]
    assert all(math.isfinite(r["value"]) for r in results)
    for label in made.labels:
        assert label in out
        assert label in (place / "table.md").read_text()
        assert label in (place / "report.html").read_text()
