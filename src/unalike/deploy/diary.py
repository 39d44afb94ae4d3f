"""What a site records for its own people: a run folder in which it is the only client.

Rounds, results on its own rows, models and how rows are prepared for them: ``unalike report``,
``watch`` and ``predict`` read it like any run. Nothing in it is sent.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unalike.engine.evaluation.server import recorded
from unalike.engine.transport import Work
from unalike.federation.data import Federation
from unalike.federation.skew import measure
from unalike.files import new_folder, write
from unalike.metrics.catalogue import main_metric
from unalike.run.configuration.config import Config
from unalike.run.folder.artefacts import SELECTED, Models, description, model_files, partitioned
from unalike.run.folder.environment import environment
from unalike.run.folder.records import LOGS, dumps, read_json, read_lines
from unalike.run.summary import summarise
from unalike.tasks import Judged

NEWEST = "newest"  # models of the last round that was judged, which may become the selected ones
REFUSALS = "refusals.jsonl"


class Diary:
    """The folder of one run at one site."""

    def __init__(self, folder: Path, site: str, config: Config) -> None:
        """Continues what is there."""
        self.folder, self.site, self.config = folder, site, config
        new_folder(folder)
        self.held = {name: read_lines(folder / name) for name in LOGS}
        self.open: dict[str, Any] = {}  # the current round

    def begin(self, federation: Federation) -> None:
        """What the data are like, once they are prepared."""
        how = self.config.evaluation.ensemble
        skew = measure(federation.counts).as_dict()
        files = {
            "config.json": self.config.resolved(),
            "environment.json": environment(),
            "deploy.json": {"site": self.site, "run": self.folder.name},
            "features.json": description(federation, how),
            "skew.json": {**partitioned(federation, skew, 1), "clients": 1},
        }
        for name, held in files.items():
            write(self.folder / name, dumps(held, indent=1))

    def trained(self, number: int, work: Mapping[str, float], down: int, up: int) -> None:
        """This site took part in a round; the first is 1."""
        self._turn_to(number)
        self.open |= {**Work(**work).record, "clients": [0], "weights": [1.0]}
        self.open |= {"bytes_down": down, "bytes_up": up, "messages": 2 if up else 1}
        self.open |= {"bytes_at_once": max(down, up), "bytes_link": down + up}

    def judged(self, number: int, found: dict[str, Judged], models: Models | None) -> None:
        """How models did on this site's rows after a round; ``models`` if they may be chosen."""
        self._turn_to(number)
        clients, self.open["metrics"], reliability = recorded(found)
        self._append(LOGS[1], {"round": number, **clients, "reliability": reliability})
        self._append(LOGS[0], self.open)
        self.open = {}
        if models is not None:
            self._put(models, self.folder / NEWEST)

    def select(self, number: int) -> None:
        """The coordinator counts a round as the best so far; 0: none."""
        newest = self.folder / NEWEST
        if _round_of(newest) == number > 0:
            shutil.rmtree(self.folder / SELECTED, ignore_errors=True)
            newest.replace(self.folder / SELECTED)

    def finish(self, models: Models, selected: int) -> None:
        """The last round's models and the summary."""
        if self.open:
            self._append(LOGS[0], self.open)
            self.open = {}
        self.select(selected)
        if selected == models.round:
            shutil.rmtree(self.folder / SELECTED, ignore_errors=True)
        shutil.rmtree(self.folder / NEWEST, ignore_errors=True)
        self._put(models, self.folder)
        write(self.folder / "summary.json", dumps(self._summary(models.round, selected), indent=1))

    def refused(self, kind: str, why: str) -> None:
        """A question that this site did not answer."""
        last = max((r["round"] for r in self.held[LOGS[0]]), default=0)
        with (self.folder / REFUSALS).open("a", encoding="utf-8") as f:
            f.write(dumps({"round": last, "site": self.site, "asked": kind, "why": why}) + "\n")

    def _summary(self, last: int, selected: int) -> dict[str, Any]:
        """The summary of the records; the coordinator has chosen one round for all sites."""
        records = self.held[LOGS[0]] or [_blank(last)]
        if not any(r["metrics"] for r in records):  # this site was away whenever models were judged
            records = [*records[:-1], {**records[-1], "metrics": {"local": {}}}]
        judged = (m for r in records for m in (r["metrics"] or {}).values() if m)
        told = summarise(records, self.config.evaluation, main_metric(next(judged, ("accuracy",))))
        there = {r["round"]: r["metrics"] for r in records if r["metrics"]}
        kept = selected == last or _round_of(self.folder / SELECTED) == selected
        chosen = {"round": selected, **there.get(selected, {})} if kept and selected else None
        return {
            **told,
            "last": {**told["last"], "round": last},
            "selected": chosen,
            "selected_on": "validation rows of all sites, mean over sites",
        }

    def _turn_to(self, number: int) -> None:
        """Open a round: a new one is recorded, and one that is asked for again starts over."""
        if self.open and self.open["round"] != number:
            self._append(LOGS[0], self.open)
            self.open = {}
        for name, held in self.held.items():
            if held and held[-1]["round"] >= number:
                held[:] = [r for r in held if r["round"] < number]
                write(self.folder / name, "".join(dumps(r) + "\n" for r in held))
        self.open = self.open or _blank(number)

    def _append(self, name: str, record: dict[str, Any]) -> None:
        self.held[name].append(record)
        with (self.folder / name).open("a", encoding="utf-8") as f:
            f.write(dumps(record) + "\n")

    def _put(self, models: Models, place: Path) -> None:
        new_folder(place)
        for name, raw in model_files(models).items():
            write(place / name, raw)


def _round_of(place: Path) -> int:
    """The round of the models in a folder; 0 if there are none."""
    path = place / "models.json"
    return int(read_json(path)["round"]) if path.exists() else 0


def _blank(number: int) -> dict[str, Any]:
    """A round in which this site did nothing."""
    sent = ("down", "up", "across", "before", "at_once", "link")
    return {
        "round": number,
        "clients": [],
        "weights": [],
        "rejected": {},
        "skipped": "",
        "notes": [],
        **{f"bytes_{way}": 0 for way in sent},
        "messages": 0,
        **Work().record,
        "metrics": None,
    }
