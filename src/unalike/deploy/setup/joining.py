"""From a site's own file and a coordinator's welcome to everything the site needs for a run."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unalike.algorithms.compressing import Compressing
from unalike.algorithms.method import Method
from unalike.algorithms.table import METHODS
from unalike.deploy.wire.messages import Message, MessageError, digest
from unalike.deploy.wire.release import release
from unalike.errors import ConfigError, DataError
from unalike.federation.build import SPLIT, stream
from unalike.federation.columns import Column
from unalike.federation.data import TEST, TRAIN, VALIDATION, Examples, Federation
from unalike.federation.split import split
from unalike.kinds import CLASSES, Kind, of_classes
from unalike.run.configuration.config import Config, parse
from unalike.run.configuration.topologies import TOPOLOGIES, GraphSettings

# How rows were read: what others need to read new ones in the same way.
READING = ("form", "label", "layout", "size", "gaps", "whole")
FEW, ROWS_OF_A_LEVEL = 10, 4  # more levels than both allow look like names of persons
OWN_CODE = ("own",)  # names under which a configuration asks for code of the user's own


class Joined(NamedTuple):
    """A site that knows its number and its recipe; features are not prepared yet."""

    run: str
    number: int
    clients: int
    config: Config
    federation: Federation  # of one client, this site
    dealt: Callable[[Examples], Federation]  # makes it, of examples with other ranges


def hello(examples: Examples, told: Collection[str] = ()) -> dict[str, Any]:
    """What a site reports about its data before it joins: shapes, classes, columns, levels.

    ``told`` are columns whose levels may be sent although they are nearly as many as the rows.
    """
    _refuse_named(examples, told)
    measured = examples.ranges is not None  # the ranges of a single site are not sent
    fixed = np.zeros(0) if examples.part is None else examples.part
    return {
        "version": release(),
        "rows": len(examples),
        "features": list(examples.x.shape[1:]),
        "targets": list(examples.y.shape[1:]),
        "dtype": str(examples.x.dtype).removeprefix("torch."),
        "kind": examples.kind,
        "classes": 0 if measured else examples.classes,
        "class_names": [] if measured else list(examples.class_names),
        "columns": [[c.name, c.role, *c.levels] for c in examples.pending.columns],
        "drop_first": examples.pending.drop_first,
        "scale": examples.pending.scale,
        "reading": {k: getattr(examples.reading, k) for k in READING},
        "given": [int((fixed == part).sum()) for part in (TRAIN, VALIDATION, TEST)],
        "units": examples.units is not None,
    }


def _refuse_named(examples: Examples, told: Collection[str]) -> None:
    """Raise one sentence if a text column may name persons: all sites would read its levels."""
    for c in examples.pending.columns:
        many = len(c.levels) > max(FEW, len(examples) // ROWS_OF_A_LEVEL)
        if c.role == "levels" and many and c.name not in told:
            raise DataError(
                f"column '{c.name}' has {len(c.levels)} different texts in {len(examples)} rows: "
                "they may name persons, and all sites would learn them; leave it out with "
                f"--set 'drop=[\"{c.name}\"]', or allow it in the policy with "
                f'tell = ["{c.name}"].'
            )


def refuse_simulated(config: Config) -> None:
    """Raise one sentence if a configuration needs what only a simulation has."""
    if config.shift:
        raise ConfigError("[[shift]] changes data, which is for simulations; remove it.")
    if config.attack.name != "none":
        raise ConfigError("[attack] makes clients lie, which is for simulations; remove it.")
    if config.split.new_clients:
        raise ConfigError("split.new_clients holds out clients, which is for simulations; set 0.")
    if config.participation.late:
        raise ConfigError("participation.late lets clients join late in simulations; set 0.")
    for name in ("line", "new_client_steps", "cross", "landscape", "adversary"):
        if getattr(config.evaluation, name):
            raise ConfigError(f"evaluation.{name} is measured in simulations; leave it out.")
    for section in (config.method, *config.plus):
        if section.settings.get("direction") in ("down", "both"):
            raise ConfigError(
                f"'{section.name}' compresses downloads, which is for simulations; set its "
                "direction = 'up'."
            )
        compresses = issubclass(METHODS.get(section.name, Method), Compressing)
        if compresses and issubclass(TOPOLOGIES[config.topology.name], GraphSettings):
            raise ConfigError(
                f"'{section.name}' without a server is for simulations, since a peer would have to "
                "keep a copy of every neighbour and miss none of its messages; leave it out."
            )
    for section in (config.model, config.method, *config.plus):
        if section.name in OWN_CODE:
            raise ConfigError(
                "the recipe names its own Python code, which cannot be sent to sites; use a "
                "built-in model and method."
            )


def join(examples: Examples, welcome: Message) -> Joined:
    """What a welcome makes of a site's data; MessageError or ConfigError if it cannot be."""
    note = welcome.note
    try:
        config = parse(note["config"])
        number, clients = int(note["number"]), int(note["clients"])
        first, rows = int(note["first"]), int(note["rows"])
        classes, names = int(note["classes"]), tuple(str(n) for n in note["class_names"])
        columns = tuple(columned(c) for c in note["columns"])
        validation, test = (bool(b) for b in note["brought"])
    except (KeyError, TypeError, ValueError):
        raise MessageError("the welcome of the coordinator is incomplete.") from None
    if note.get("digest") != digest(note["config"]):
        raise MessageError(
            "the coordinator has another version of unalike, or its recipe was changed in "
            f"transit; this is version {release()}."
        )
    refuse_simulated(config)
    if not 0 <= number < clients or not 0 <= first <= first + len(examples) <= rows:
        raise MessageError("the coordinator's welcome does not fit this site's data.")
    examples = _laid_out(_classed(examples, classes, names), columns)
    # Lots are drawn for the rows of all sites in the order of their names, as in a simulation.
    lots = Lots(stream(config.seed, SPLIT).random(rows)[first : first + len(examples)])

    def dealt(examples: Examples) -> Federation:
        return split(
            examples,
            np.zeros(len(examples), dtype=np.int64),
            # Where files bring validation or test rows, at any site, no more of them are taken.
            validation=0.0 if validation else config.split.validation,
            test=0.0 if test else config.split.test,
            stratified=config.split.stratified,
            rng=lots,  # type: ignore[arg-type]
            names=(str(note["name"]),),
        )

    federation = dealt(examples)
    if not federation.sizes(TRAIN)[0]:
        raise DataError(
            "none of this site's rows is for training; mark some as 'train', or leave the column "
            "empty."
        )
    return Joined(welcome.head.run, number, clients, config, federation, dealt)


def columned(told: list[str]) -> Column:
    """A column as described in a hello or a welcome: its name, its role, its levels."""
    name, role, *levels = told
    if role not in ("number", "levels", "fixed", "protected"):
        raise ValueError(f"'{role}' is not a role")
    return Column(name, max(1, len(levels)), role, tuple(levels))  # type: ignore[arg-type]


def _laid_out(examples: Examples, columns: tuple[Column, ...]) -> Examples:
    """Features in the order of all sites' columns, with a column for every level of any site."""
    own, x = examples.pending.columns, examples.x
    if [(c.name, c.role) for c in own] != [(c.name, c.role) for c in columns]:
        raise MessageError("the coordinator's columns are not those of this site.")
    parts, start = list[Tensor](), 0
    for mine, all_ in zip(own, columns, strict=True):
        held = x[:, start : start + mine.width]
        start += mine.width
        if mine.role != "levels":
            parts.append(held)
            continue
        if not set(mine.levels) <= set(all_.levels):
            raise MessageError(
                f"the coordinator's column '{mine.name}' lacks a level of this site."
            )
        wide = torch.zeros(len(x), all_.width, dtype=x.dtype)
        wide[held.isnan().any(1)] = torch.nan
        wide[:, [all_.levels.index(level) for level in mine.levels]] = held
        parts.append(wide)
    if not columns:
        return examples
    pending = examples.pending._replace(columns=columns)
    return replace(examples, x=torch.cat(parts, 1), pending=pending)


class Lots:
    """A generator whose first numbers are known."""

    def __init__(self, lots: np.ndarray) -> None:
        self.lots = lots

    def random(self, n: int) -> np.ndarray:
        """Them."""
        assert n == len(self.lots), "one lot for each row"
        return self.lots

    def permutation(self, n: int) -> np.ndarray:
        """Nobody is held out, so any order will do."""
        return np.arange(n)


def kind_of(kind: Kind, names: tuple[str, ...]) -> Kind:
    """What the classes of all sites make of a kind that one site's own made."""
    return of_classes(len(names)) if kind in CLASSES and names else kind


def _classed(examples: Examples, classes: int, names: tuple[str, ...]) -> Examples:
    """Labels numbered as all sites number them; numbers have ranges, which come later."""
    if examples.ranges is not None:
        return examples
    if names:
        missing = sorted(set(examples.class_names) - set(names))
        if missing or not examples.class_names:
            raise MessageError("the coordinator's classes do not include all of this site's.")
        at = torch.tensor([names.index(name) for name in examples.class_names])
        examples = replace(examples, y=at[examples.y])
    elif examples.classes > classes:
        raise MessageError("the coordinator's classes do not include all of this site's.")
    kind = kind_of(examples.kind, names)
    return replace(examples, classes=classes, class_names=names, kind=kind)
