"""Tables of docs/results/error-and-power.md: what benchmarks/false_alarms.py printed."""

from functools import cache

from writer.results import PLACE


@cache
def parts() -> dict[str, str]:
    """The tables by the names of the parts."""
    text = (PLACE / "false-alarms.txt").read_text(encoding="utf-8")
    sections = [section.partition("\n") for section in text.split("## ")[1:]]
    return {name.strip().replace("_", " "): table.strip() for name, _, table in sections}
