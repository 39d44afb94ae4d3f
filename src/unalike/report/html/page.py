"""The page: sections filled from a study, pictures as specifications, scripts and style inside.

A content security policy lets the browser run the page's own scripts by their hash and nothing
else, and lets it fetch nothing; so the file shows the same wherever and whenever it is opened.
"""

import base64
import hashlib
import json
import warnings
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, NamedTuple

from unalike.compare.presentation.wording import listed
from unalike.errors import RunError, RunWarning
from unalike.report import series
from unalike.report.html import facts, figures, results, settings
from unalike.report.html.asked import asked
from unalike.report.html.grouped import grouped
from unalike.report.html.personal import latent_figures, personal_figures
from unalike.report.html.pictures import pictures
from unalike.report.html.sites import sites
from unalike.report.plots.methods import colours, dashes
from unalike.report.records import Reader, Record, Study, intact
from unalike.report.skew import short_table, skew_table
from unalike.run.folder.records import write
from unalike.tables.format import size
from unalike.tables.html import html
from unalike.tables.model import Table

LIMIT = 5_000_000  # characters of a page
CLIENTS = 200  # rows of the table of clients
NAME = "report.html"
WIDE = 4  # partitions that stand side by side

SECTIONS = {
    "answer": "In short",
    "data": "Data and skew",
    "methods": "Methods and settings",
    "results": "Results",
    "clients": "Clients",
    "sites": "Sites",
    "mixing": "Weights and topology",
    "budget": "Budgets",
    "environment": "Environment",
    "commands": "Commands",
}


class Detail(NamedTuple):
    """How much a page shows: partitions with pictures, cells of a picture, files of settings."""

    partitions: int
    coarse: bool = False


# The first that keeps a page within the limit is taken.
DETAILS = (*map(Detail, (8, 4, 2, 1)), Detail(1, coarse=True), Detail(0, coarse=True))


class Content(NamedTuple):
    """What changes while runs continue: the sections' HTML and the pictures."""

    sections: dict[str, str]
    charts: dict[str, Record]
    status: str
    finished: bool


def write_report(folder: str | Path, path: str | Path | None = None) -> Path:
    """Write the report of a run, a comparison or a folder of runs as one HTML file."""
    place = Path(folder) / NAME if path is None else Path(path)
    with intact(Path(folder)):
        study = Reader(folder).read()
        if place.is_dir():
            raise RunError(
                f"'{place}' is a folder; name the file to write, such as {place}/{NAME}."
            )
        text = _text(study, place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write(place, text)
    except OSError as error:
        why = error.strerror or error
        raise RunError(f"'{place}' cannot be written: {why}; name another --output.") from None
    return place


def _text(study: Study, place: Path) -> str:
    """The page, with as much detail as a report has room for."""
    most = len(study.partitions)
    for detail in dict.fromkeys(d._replace(partitions=min(most, d.partitions)) for d in DETAILS):
        made = content(study, detail)
        text = render(study, made)
        if len(text.encode()) <= LIMIT:
            return text
    _warn_of_size(place, text, made)
    return text


def _warn_of_size(place: Path, text: str, made: Content) -> None:
    pictures = len(json.dumps(made.charts).encode())
    tables = sum(len(html.encode()) for html in made.sections.values())
    library = sum(len(script.encode()) for script in scripts())
    warnings.warn(
        f"'{place}' has {size(len(text.encode()))}, more than the {size(LIMIT)} a report should "
        f"have: tables and text take {size(tables)}, the remaining charts {size(pictures)}, the "
        f"chart library {size(library)}; report fewer runs at a time.",
        RunWarning,
        stacklevel=3,
    )


def content(study: Study, detail: Detail = DETAILS[0]) -> Content:
    """All sections of a study as it stands, with pictures of its first partitions."""
    values, found = _values(study, detail)
    shown = [id for id in SECTIONS if id not in ("clients", "sites") or values[id]]
    made = {
        id: _template(f"sections/{id}.html.j2").render(**values, section=id, title=SECTIONS[id])
        for id in shown
    }
    charts = {f.id: f.spec for f in found}
    return Content(made, charts, status(study), study.finished)


def render(study: Study, made: Content, version: str = "") -> str:
    """The whole page; with a version it asks its server for newer ones."""
    live = bool(version)
    bundle, script = scripts()
    methods = study.methods
    looks = zip(methods, colours(len(methods)), dashes(len(methods)), strict=True)
    state = {"charts": made.charts, "live": live, "methods": methods, "version": version}
    return _template("page.html.j2").render(
        study=study,
        titles={id: SECTIONS[id] for id in made.sections},
        sections=made.sections,
        status=made.status,
        switches=[(name, colour, " ".join(map(str, dash))) for name, colour, dash in looks],
        style=_asset("style.css"),
        bundle=bundle,
        script=script,
        policy=policy(live),
        state=json.dumps(state, separators=(",", ":")).replace("<", "\\u003c"),
        made=date(study),
    )


def status(study: Study) -> str:
    """How far the study has come, in words."""
    total = len(study.places)
    done = sum(run.finished for _, run in study.begun)
    runs = "run" if total == 1 else "runs"
    if done == total:
        return f"{total} {runs}, finished."
    begun = [  # whether anybody works on them is not written anywhere
        f"{place.id} ({len(run.rounds)} of {run.config['rounds']} rounds)"
        for place, run in study.begun
        if not run.finished and place.id not in study.failed
    ]
    lost = sum(p.id in study.failed and not (p.run and p.run.finished) for p in study.places)
    failed = f", {lost} failed" if lost else ""
    others = f"; started: {listed(begun)}" if begun else ""
    return f"{done} of {total} {runs} finished{failed}{others}."


def policy(live: bool) -> str:
    """The content security policy of a page."""
    hashes = " ".join(f"'sha256-{_hash(text)}'" for text in scripts())
    rules = [
        "default-src 'none'",
        f"script-src {hashes}",
        "style-src 'unsafe-inline'",  # the chart library writes style elements
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*rules, "connect-src 'self'"] if live else rules)


@cache
def scripts() -> tuple[str, str]:
    """The chart libraries and the page's own script, each closed against the other."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return f"(()=>{{{bundle}\n}})();", _asset("report.js")


def _values(study: Study, detail: Detail) -> tuple[dict[str, Any], list[figures.Figure]]:
    found = results.results(study)
    places, coarse = study.partitions[: detail.partitions], detail.coarse
    data = _data_figures(study, places, coarse)
    outcome = {
        p: [
            *figures.result_figures(study, p, i),
            *personal_figures(study, p, i),
            *figures.leak_figures(study, p, i),
        ]
        for i, p in enumerate(places)
    }
    weights = [f for i, p in enumerate(places) for f in figures.weight_figures(study, p, i, coarse)]
    weights += [f for i, p in enumerate(places) for f in latent_figures(study, p, i)]
    network = [f for i, p in enumerate(places) for f in figures.network_figures(study, p, i)]
    topology = [*network, *figures.topology_figures(study)]
    ranks = figures.rank_figures(study.methods, found.analysis.ranks if found.analysis else None)
    only = study.begun[0][1] if len(study.places) == 1 and study.begun else None
    clients = None if only is None else results.clients(series.client_rows(only), CLIENTS)
    files = facts.files(study)
    values = {
        "study": study,
        "results": found,
        "pictured": places,
        "skews": _skews(study),
        "asked": asked(study),
        "grouped": grouped(study),
        "data_figures": data,
        "result_figures": outcome,
        "pictures": {p: pictures(study, p, i) for i, p in enumerate(places)},
        "rank_figures": ranks,
        "mixing_figures": [*weights, *topology],
        "regrets": results.regrets(study),
        "clients": clients,
        "sites": sites(study),
        "gaps": facts.gaps(study, found.unusable) if len(study.places) > 1 else [],
        "partitions": settings.partitions(study),
        "methods": settings.methods(study),
        "shared": settings.shared(study),
        "everything": settings.everything(study),
        "budget": facts.budget(study),
        "ledger": results.ledger(study),
        "environment": facts.environment(study),
        "commands": facts.commands(study),
        "files": files[:1] if coarse else files,
        "files_left_out": len(files) - 1 if coarse and files else 0,
    }
    all_figures = [f for group in (data, outcome) for some in group.values() for f in some]
    return values, [*all_figures, *ranks, *weights, *topology]


def _data_figures(study: Study, places: list[str], coarse: bool) -> dict[str, list[figures.Figure]]:
    """Who holds what; conditions with the same partition, at other rates say, are drawn once."""
    seen: list[Any] = []
    found = {}
    for i, place in enumerate(places):
        run = series.first_run(study, place)
        counts = None if run is None else run.data["counts"]
        found[place] = [] if counts in seen else figures.data_figures(study, place, i, coarse)
        seen.append(counts)
    return found


def _skews(study: Study) -> Table | None:
    """Every measure of skew of every partition whose data were read."""
    firsts = {p: series.first_run(study, p) for p in study.partitions}
    found = {p: run.data["skew"] for p, run in firsts.items() if run is not None}
    title = "How unalike the clients are, by their training examples under the first seed"
    if not found:
        return None
    return skew_table(found, title) if len(found) <= WIDE else short_table(found, title)


def date(study: Study) -> str:
    """When the newest record was written; the report itself adds no date of its own."""
    names = ("rounds.jsonl", "config.json")
    times = [
        (run.folder / name).stat().st_mtime
        for _, run in study.begun
        for name in names
        if (run.folder / name).exists()
    ]
    return f"{datetime.fromtimestamp(max(times), UTC):%Y-%m-%d %H:%M} UTC" if times else ""


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup

    made = Environment(
        loader=PackageLoader("unalike.report.html"),
        autoescape=select_autoescape(["html", "html.j2"], default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["table"] = lambda *args, **kwargs: Markup(html(*args, **kwargs))
    return made


def _template(name: str) -> Any:
    return _environment().get_template(name)


@cache
def _asset(name: str) -> str:
    return (resources("unalike.report.html") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
