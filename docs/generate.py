"""Writes the reference pages from the code, so that they cannot say anything else.

python docs/generate.py          writes every generated page and every generated block
python docs/generate.py --check  names the files that are out of date, and fails

Generated pages carry a notice at their top. In pages written by hand, and in the README, a block
between ``<!-- generated: NAME -->`` and ``<!-- /generated -->`` is replaced.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from writer import (
    alarms,
    claims,
    earlier,
    fair,
    fedep,
    fedevg,
    lg,
    rate,
    results,
    skew,
    speed,
    superfed,
)
from writer.commands import cli_page, config_page
from writer.methods import (
    combinations,
    method_settings,
    methods_table,
    partitioners_table,
    slots_table,
    topologies,
)
from writer.presets import presets_page
from writer.python import python_page
from writer.settings import settings_table
from writer.things import datasets_page, models_page, partitioners_page

from unalike.compare.specification.settings import CompareSettings
from unalike.tune.space import TuneSettings

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
NOTICE = "<!-- Written by docs/generate.py from the code; edit the code instead. -->\n"
BLOCK = re.compile(r"(<!-- generated: ([\w. -]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)

PAGES: dict[str, Callable[[], str]] = {
    "ref-config.md": config_page,
    "ref-cli.md": cli_page,
    "ref-python.md": python_page,
    "ref-partitioners.md": partitioners_page,
    "ref-datasets.md": datasets_page,
    "ref-models.md": models_page,
    "ref-presets.md": presets_page,
}
BLOCKS: dict[str, Callable[[], str]] = {
    "methods": lambda: methods_table(""),
    "partitioners for the readme": lambda: partitioners_table("docs/ref-partitioners.md"),
    "combinations": combinations,
    "topologies of methods": topologies,
    "slots": slots_table,
    "settings of a comparison": lambda: settings_table(CompareSettings),
    "settings of a search": lambda: settings_table(TuneSettings),
    "table verdicts": claims.verdicts,
    "table vae": results.vae,
    "table vae glorot": results.vae_glorot,
    "table vae paired": results.vae_paired,
    "table vae variance": results.vae_variance,
    "table lg mnist": lg.mnist,
    "table lg cifar": lg.cifar,
    "table lg late": lg.late,
    "table lg fair": lg.fair,
    "table lg mnist glorot": lambda: earlier.lg_fedavg("mnist"),
    "table lg cifar glorot": lambda: earlier.lg_fedavg("cifar10"),
    "table superfed 50": lambda: superfed.two_classes("superfed-mnist-50"),
    "table superfed 100": lambda: superfed.two_classes("superfed-mnist-100"),
    "table superfed 500": lambda: superfed.two_classes("superfed-mnist-500"),
    "table superfed cifar": lambda: superfed.two_classes("superfed-cifar-500"),
    "table superfed start": superfed.start,
    "table superfed pull and push": superfed.pull_and_push,
    "table superfed new": superfed.new,
    "table superfed line 100": lambda: superfed.along("superfed-line"),
    "table superfed line 500": lambda: superfed.along("superfed-line-500"),
    "table superfed ahead": lambda: superfed.ahead("superfed-line-500"),
    "table superfed noise digits": lambda: superfed.noise("superfed-noise"),
    "table superfed noise mnist": lambda: superfed.noise("superfed-noise-mnist"),
    "table fedevg": fedevg.made,
    "table emd": skew.emd,
    "table emd dense": skew.emd_dense,
    "table epochs": skew.epochs,
    "table phase-shift": skew.phase_shift,
    "table phase-shift rate": rate.along,
    "table phase-shift target": rate.until,
    "table fedaug": skew.fedaug,
    "table fedaug combined": skew.fedaug_combined,
    "table fedaug emd": skew.fedaug_dense,
    "table divergence": skew.divergence,
    "table compression": results.compression,
    "table speed cpu": speed.cpu,
    "table speed sizes": speed.sizes,
    "table speed stateful": speed.stateful,
    "table speed peers": speed.peers,
    "table speed gpu": speed.gpu,
    "table speed stateful gpu": speed.stateful_gpu,
    "table speed pfl": speed.pfl,
    "table speed population": speed.population,
    "table fedep": lambda: fedep.fedep("fedep-complete"),
    "table fedep pure": lambda: fedep.fedep("fedep-pure"),
    "table fedep cifar": lambda: fedep.fedep("fedep-cifar"),
    "table fedep adam": lambda: fedep.fedep("fedep-adam"),
    "table fedep macro": fedep.macro,
    "table topologies": fedep.topologies,
    "table fedep mixed": earlier.fedep_mixed,
    "table fedep mixed differences": earlier.fedep_mixed_differences,
    "table fedep mixed skewed": earlier.fedep_mixed_skewed,
    "table berka": lambda: fair.fair("berka"),
    "table berka responses": fair.responses,
    "table berka objective": fair.objective,
    "table heart": lambda: fair.fair("heart"),
    "table plug-in": fair.plug_in,
    "table writers": fair.writers,
    "table gini": fair.gini,
    "table sampled regret": fair.sampled_regret,
}
BLOCKS |= {
    f"table alarms {name}": lambda name=name: alarms.parts()[name] for name in alarms.parts()
}


def filled(text: str) -> str:
    """A page with its generated blocks replaced."""

    def new(match: re.Match[str]) -> str:
        name = match[2].strip()
        body = BLOCKS[name]() if name in BLOCKS else method_settings(name.split()[-1])
        return f"{match[1]}\n{body}\n{match[3]}"

    return BLOCK.sub(new, text)


def generated() -> Iterator[tuple[Path, str]]:
    """Every file this script is responsible for, with what it should hold."""
    for name, page in PAGES.items():
        yield DOCS / name, NOTICE + "\n" + page().rstrip() + "\n"
    written = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    for path in written:
        text = path.read_text(encoding="utf-8")
        if BLOCK.search(text):
            yield path, filled(text)


def main() -> None:
    """Write, or with ``--check`` compare."""
    stale = []
    for path, text in generated():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(str(path.relative_to(ROOT)))
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    for name in stale:
        print(("out of date: " if "--check" in sys.argv else "wrote ") + name)
    sys.exit(1 if stale and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
