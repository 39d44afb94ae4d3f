"""The overview of docs/results/index.md: how many claims of each source have which verdict."""

import re
from collections import Counter

from writer.results import PLACE, table

VERDICTS = {
    "Holds": "holds",
    "Holds in part": "holds in part",
    "Does not hold": "does not hold",
    "Not shown": "not shown",
    "Seen": "seen or not seen",
    "Not seen": "seen or not seen",
    "Not run": "not run",
    "Cannot be tested here": "cannot be tested here",
}


def verdicts() -> str:
    """Counted in the tables below "Every claim", one for each source."""
    text = (PLACE / "index.md").read_text(encoding="utf-8").partition("## Every claim\n")[2]
    heads, rows, total = list(dict.fromkeys(VERDICTS.values())), [], Counter[str]()
    for section in text.split("\n### ")[1:]:
        source = section.partition("\n")[0]
        told = re.findall(r"^\| .* \| \*\*([\w ]+?)\.?\*\*", section, re.MULTILINE)
        found = Counter(VERDICTS[verdict] for verdict in told)
        total += found
        anchor = source.lower().replace(" ", "-")
        rows.append([f"[{source}](#{anchor})", *(str(found[head] or "") for head in heads)])
    rows.append(["together", *(str(total[head]) for head in heads)])
    return table(["claims of", *heads], rows)
