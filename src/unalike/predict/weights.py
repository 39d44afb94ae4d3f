"""The models that a run folder holds, by client."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError
from safetensors.torch import load_file

from unalike import tree
from unalike.errors import RunError, no_such
from unalike.packed import owned
from unalike.run.folder.records import by_what, read_json
from unalike.run.saving.models import SELECTED, Models
from unalike.run.saving.rows import FORMAT
from unalike.tree import Params

Which = Literal["selected", "last"]


@dataclass(frozen=True)
class Weights:
    """The models in use after one round."""

    round: int
    servers: Params | None  # stacked; None if only the clients hold whole models
    personal: Params | None  # stacked; None if all use the shared model
    row_of: tuple[int, ...]  # each client's row among the personal models
    lost: bool = False  # whether clients had models of their own that were not kept
    layers: frozenset[str] = frozenset()  # of the network that was judged
    frozen: Params = field(default_factory=dict)  # the same in every model
    at_sites: bool = False  # whether clients' own models are where their data are
    given: str = ""  # the class of a module that was given in Python

    def of(self, client: int) -> Params:
        """The model that a client is tested with."""
        if self.lost and self.at_sites:
            raise RunError(
                "each site keeps its personal model to itself; predict there, with the folder of "
                "this run at the site."
            )
        if self.lost:
            raise RunError(
                "the run kept no personal models, only the shared one; run it again with "
                "run.keep = 'all'."
            )
        held = self.servers if self.personal is None else self.personal
        assert held is not None, "checked when it was read"
        return {**tree.row(held, self.row_of[client]), **self.frozen}

    def shared(self) -> list[Params]:
        """The servers' models, or those of all clients if there is no server's."""
        held = self.personal if self.servers is None else self.servers
        assert held is not None, "checked when it was read"
        return [{**tree.row(held, i), **self.frozen} for i in range(_rows(held))]


def description(folder: Path) -> dict[str, Any]:
    """The contents of features.json, if the run ended and this version can read it."""
    if not folder.is_dir():
        raise RunError(no_such("run folder", folder))
    if (folder / "compare.json").is_file():
        raise RunError(f"'{folder}' is a comparison; name the folder of one of its runs in cells/.")
    read_json(folder / "config.json")
    if not (folder / "summary.json").is_file():
        raise RunError(f"'{folder}' has not finished; {by_what(folder)}")
    if not (folder / "features.json").is_file():
        raise RunError(
            f"'{folder}' has no features.json, so an older version of unalike wrote it; run it "
            "again."
        )
    raw = read_json(folder / "features.json")
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise RunError(
            f"'{folder}/features.json' was not written by this version of unalike; use the version "
            "that wrote it."
        )
    return raw


def read_weights(folder: Path, which: Which) -> Weights:
    """The models of the selected round (the last, if none was selected) or of the last."""
    summary = read_json(folder / "summary.json")
    chosen = summary["last"] if which == "last" else summary["selected"] or summary["last"]
    t = int(chosen["round"])
    place = folder if t == summary["last"]["round"] else folder / SELECTED
    if not (place / "models.json").is_file():
        raise RunError(f"'{folder}' did not keep the models of round {t}; run it again.")
    notes = read_json(place / "models.json")
    if notes["round"] != t:
        raise RunError(
            f"'{place}' holds the models of round {notes['round']} instead of {t}; run it again."
        )
    model, servers, personal, frozen = (
        _read(place / f"{name}.safetensors") for name in ("model", "servers", "personal", "frozen")
    )
    frozen = frozen or {}
    if model is not None and notes["frozen"]:
        frozen = {name: model.pop(name) for name in notes["frozen"]}
    if servers is None and model is not None:
        servers = tree.map(lambda x: x[None], model)
    at_sites = (folder / "deploy.json").is_file()
    if servers is None and personal is None and at_sites:
        raise RunError(
            "only the sites of this run hold whole models; predict there, with the folder of this "
            "run at the site."
        )
    if servers is None and personal is None:
        raise RunError(f"'{place}' holds no model; restore it from a copy.")
    given = str(notes.get("given", ""))
    kept = Models(t, servers, personal, notes, frozen)
    return replace(of_models(kept), given=given, at_sites=at_sites)


def of_models(kept: Models) -> Weights:
    """The same from models that are still in memory."""
    notes = kept.notes
    row_of = _row_of(kept.servers, kept.personal, notes["personal_of"])
    lost = notes["personal_models"] and kept.personal is None
    layers = frozenset(notes["layers"])
    return Weights(kept.round, kept.servers, kept.personal, row_of, lost, layers, kept.frozen)


def _row_of(servers: Params | None, personal: Params | None, rows: list[int]) -> tuple[int, ...]:
    """Each client's row; the first if all use one server's model."""
    return tuple([0] * len(rows) if personal is None and _rows(servers) == 1 else rows)


def _rows(stacked: Params | None) -> int:
    return 0 if stacked is None else len(next(iter(stacked.values())))


def _read(path: Path) -> Params | None:
    if not path.is_file():
        return None
    try:
        return owned(load_file(path))
    except (SafetensorError, OSError) as error:
        raise RunError(f"'{path}' is damaged ({error}); restore it from a copy.") from None
