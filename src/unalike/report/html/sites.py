"""The sites of a deployed run: what each was sent and sent, and what it did not answer."""

from collections import Counter
from pathlib import Path

from unalike.deploy.audit import entries
from unalike.deploy.diary import REFUSALS
from unalike.report.records import Run, Study
from unalike.run.folder.records import read_lines
from unalike.tables.cells import size, whole, words
from unalike.tables.model import Table

SHOWN = 50  # refusals, the newest


def sites(study: Study) -> list[Table]:
    """Tables of the one run of a study, if it is a deployed one."""
    if len(study.begun) != 1 or not study.begun[0][1].deploy:
        return []
    run = study.begun[0][1]
    return [table for table in (_exchanged(run), _refused(run)) if table is not None]


def log_of(folder: Path, deploy: dict[str, object]) -> Path:
    """The audit log of a deployed run; that of a site is for all its runs."""
    return folder.parent.parent / "audit.jsonl" if "site" in deploy else folder / "audit.jsonl"


def _exchanged(run: Run) -> Table | None:
    """Messages and bytes by site, as the audit log has them."""
    log = log_of(run.folder, run.deploy)
    if not log.exists():
        return None
    sent, received = Counter[str](), Counter[str]()
    messages, seen = Counter[str](), dict[str, str]()
    for entry in entries(log):
        site = entry.site
        (sent if entry.way == "sent" else received)[site] += entry.bytes
        messages[site] += 1
        if entry.way == "received":
            seen[site] = entry.time
    answered = Counter(_names(run)[i] for r in run.rounds for i in r["clients"])
    here = "site" in run.deploy
    own = str(run.deploy.get("site", ""))
    rows = [
        [
            words(site),
            whole(answered[own] if here else answered[site]),
            whole(messages[site]),
            size(sent[site]),
            size(received[site]),
            words(seen.get(site, "never")[:19].replace("T", " ")),
        ]
        for site in sorted(messages)
    ]
    heads = ["partner", "rounds", "messages", "sent to it", "received from it", "last heard (UTC)"]
    title = "What this site sent and received, in all its runs" if here else "What each site got"
    return Table(title, heads, rows, ["Bytes of whole messages, from the audit log."])


def _names(run: Run) -> list[str]:
    return list(run.features.get("clients", ())) or list(map(str, range(1 << 10)))


def _refused(run: Run) -> Table | None:
    """What sites did not answer, or was turned away, in their own or the coordinator's words."""
    names = _names(run)
    told = [(r["round"], r["site"], r["why"]) for r in read_lines(run.folder / REFUSALS)]
    told += [
        (r["round"], names[int(i)], f"its update was refused: {why}")
        for r in run.rounds
        for i, why in r["rejected"].items()
    ]
    if not told:
        return None
    newest = sorted(told, key=lambda row: -int(row[0]))[:SHOWN]
    rows = [[words(str(site)), whole(at), words(str(why))] for at, site, why in newest]
    left = len(told) - len(newest)
    notes = [f"{left} older ones are in {REFUSALS}."] if left else []
    return Table("Refused or not answered", ["site", "round", "why"], rows, notes)
