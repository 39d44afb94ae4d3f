"""The reference of the presets: what each one compares, and where it differs from its source."""

import re

from unalike.compare.presets import about, names, text
from unalike.compare.specification.spec import loads

CODE = re.compile(r"--set (?:[\w.]+=[\w./-]+ ?)+(?<! )|--folder [\w/-]+|unalike list \w+")


def presets_page() -> str:
    """Every preset, by the words at the head of its file."""
    parts = [
        "# Presets\n",
        "*Which published experiments come with unalike, and what is not as in the publication?*\n",
        "`unalike compare NAME --scale paper` runs a preset with the grid and the settings of its "
        "source, `--scale small` in minutes: fewer rounds, epochs, clients and often other data. "
        "[Compare methods](how-to-compare-methods.md#presets) says what to know about both. Where "
        "a source states a setting in its text and another one in its code, the text counts unless "
        "the entry says otherwise; *its code* is what the authors published.\n",
    ]
    return "\n".join([*parts, *map(_entry, names())])


def _code(found: re.Match[str]) -> str:
    """In code, without the full stop of the sentence."""
    words = found[0].rstrip(". ")
    return f"`{words}`{found[0][len(words) :]}"


def _entry(name: str) -> str:
    title, question, _ = about(name)
    head = text(name).partition("\nrounds =")[0]
    lines = (line.removeprefix("#").strip() for line in head.splitlines())
    said = "\n".join(lines).strip().split("\n\n")
    paragraphs = [CODE.sub(_code, " ".join(p.split())) for p in said]
    paragraphs = [
        p.replace("Differs from the source: ", "**Differs from the source.** ") for p in paragraphs
    ]
    cells = {scale: len(loads(text(name), name, scale).cells) for scale in ("small", "paper")}
    runs = f"{cells['small']} runs at `small` scale and {cells['paper']} at `paper` scale."
    return "\n".join(
        [f"## {name}\n", f"{title}: *{question}*\n", *(f"{p}\n" for p in paragraphs), f"{runs}\n"]
    )
