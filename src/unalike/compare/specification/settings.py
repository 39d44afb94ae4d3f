"""The ``[compare]`` section of a file: what is varied, at which budget, and how it is judged."""

import math
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import Field

from unalike.errors import ConfigError, unknown
from unalike.settings import Settings

Kind = Literal["rounds", "samples", "bytes"]
KINDS: tuple[Kind, ...] = ("rounds", "samples", "bytes")
UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
LONGEST = 10  # a cheap method may run this many times the file's rounds to use up its budget


class Judging(Settings):
    """What is compared and how it is judged."""

    title: str = Field(default="", description="heading of the tables")
    question: str = Field(default="", description="the question the comparison should answer")
    metric: str = Field(
        default="auto",
        description="what is compared; auto: accuracy, rmse of a regression, loss of an "
        "autoencoder",
    )
    section: Literal["local", "global", "new", "adapted", "settled", "late", "common", "oracle"] = (
        Field(
            default="local",
            description="which test: clients' own rows, the global test, new clients, new "
            "clients after local steps, clients that were there from the start or "
            "joined late, or clients' own rows at points between the shared and "
            "their own models (common, oracle)",
        )
    )
    statistic: Literal["mean", "weighted_mean", "median", "min", "max", "worst10", "best10"] = (
        Field(default="mean", description="how a run's clients become one number")
    )
    round: Literal["selected", "last"] = Field(
        default="selected", description="the round selected on validation data, or the last"
    )
    best_on_test: bool = Field(
        default=False,
        description="one more column: every run's best evaluated round on the test rows "
        "themselves (with evaluation.line each client's best point), as many papers report it; "
        "too good by chance, so no test and no verdict uses it",
    )
    test: Literal["moderated", "t", "hall", "wilcoxon"] = Field(
        default="moderated",
        description="test of paired differences: a t-test whose variance estimates borrow from "
        "each other, Student's t, the same corrected for skewness (Hall 1992), or "
        "Wilcoxon's signed ranks",
    )
    rows: Literal["fresh", "these"] = Field(
        default="fresh",
        description="what differences are claimed for: fresh rows of the same kind, although all "
        "seeds use the same ones (Nadeau and Bengio 2003), or these rows alone",
    )
    margin: float = Field(
        default=0.0,
        ge=0,
        description="differences within it are called equal, in the metric's own unit: 0.01 is "
        "one point of accuracy; at 0 only identical runs are equal",
    )
    target: float | None = Field(
        default=None,
        description="value of the metric to reach; the first round that reaches it is compared; "
        "unset: 95 % of the baseline's best under the same seed",
    )


class CompareSettings(Judging):
    """Methods on partitions over seeds, paired by seed."""

    methods: list[Any] = Field(
        min_length=1, description="names, or tables with name, settings, plus, topology, set, label"
    )
    partitions: list[Any] = Field(
        default_factory=list,
        description="names, or tables with name, settings, data, model, shift, set, label; "
        "if empty, the file's own",
    )
    seeds: Any = Field(default=10, description="how many, counted from the file's seed, or a list")
    sweep: dict[str, Any] = Field(
        default_factory=dict, description="any setting with the values it should take"
    )
    baseline: str = Field(
        default="", description="the method all are compared with; if empty, the first"
    )
    budget: Any = Field(
        default="rounds",
        description="what is equal for all methods: rounds, samples or bytes (as much as the "
        "baseline uses in its rounds), or a table with the amount and `longest`",
    )


class Budget(NamedTuple):
    """What every method gets the same of; no amount means as much as the baseline uses."""

    kind: Kind
    amount: float | None = None
    longest: int = LONGEST

    def as_dict(self) -> dict[str, Any]:
        """As compare.json stores it."""
        return {"kind": self.kind, "amount": self.amount, "longest": self.longest}


def budget(value: Any) -> Budget:
    """The budget a file asks for: a kind, or a table of one kind and its amount."""
    if isinstance(value, str):
        return Budget(_kind(value))
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"'compare.budget' must be one of {', '.join(KINDS)} or a table such as "
            f"{{ bytes = 1000000 }}, got {value!r}."
        )
    longest = value.get("longest", LONGEST)
    if not _whole(longest) or longest < 1:
        raise ConfigError(
            f"'compare.budget.longest' must be a whole number of at least 1, got {longest!r}."
        )
    amounts = {k: v for k, v in value.items() if k != "longest"}
    if len(amounts) != 1:
        raise ConfigError(
            f"'compare.budget' must give one of {', '.join(KINDS)}, got {len(amounts)} of them."
        )
    ((name, amount),) = amounts.items()
    return Budget(_kind(name), _amount(name, amount), longest)


MOST = 10_000  # seeds, and cells in all: each is a folder of its own


def seeds(value: Any, first: int) -> list[int]:
    """The seeds: a list as given, a number counted up from ``first``."""
    if _whole(value) and value > MOST:
        raise ConfigError(f"'compare.seeds' is {value}; at most {MOST:,} can be compared.")
    if _whole(value) and value >= 1:
        return [first + i for i in range(value)]
    if isinstance(value, list) and value and all(_whole(s) and s >= 0 for s in value):
        twice = next((s for s in value if value.count(s) > 1), None)
        if twice is not None:
            raise ConfigError(f"'compare.seeds' lists {twice} twice; each seed is one repetition.")
        return value
    raise ConfigError(
        "'compare.seeds' must be a number of seeds of at least 1 or a list of seeds, "
        f"got {value!r}."
    )


def _kind(name: str) -> Kind:
    for kind in KINDS:
        if name == kind:
            return kind
    raise unknown("compare.budget", name, KINDS)


def _amount(name: str, value: Any) -> float:
    """A number, or a number of bytes with its unit."""
    if isinstance(value, str) and name == "bytes":
        match = re.fullmatch(r"\s*([0-9.]+)\s*(B|kB|MB|GB|TB)\s*", value)
        if match is not None and match[1].count(".") <= 1:
            value = float(match[1]) * UNITS[match[2]]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    usable = number and math.isfinite(value) and value > 0
    if not usable or (name == "rounds" and value != int(value)):
        example = {"bytes": "1000000 or '1 MB'", "samples": "50000", "rounds": "20"}[name]
        raise ConfigError(
            f"'compare.budget.{name}' must be a positive number such as {example}, got {value!r}."
        )
    return float(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
