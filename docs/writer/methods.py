"""Tables of methods: what each changes, which slot it fills, what goes with what."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import cast

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import Method, assembled, objections
from unalike.algorithms.table import METHODS
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.schedule import Participation
from unalike.run.configuration.config import tables
from unalike.run.configuration.topologies import TopologySettings
from unalike.settings import summary
from unalike.tasks import MultiClass
from writer.settings import settings_table

# What a method changes: the model and how it is reached, the weights of the average, or the data.
FAMILY = {
    "": "θ",
    "objective": "θ",
    "server": "θ",
    "private": "θ",
    "personal model": "θ",
    "last rounds": "θ",
    "algorithm": "θ",
    "weights": "w",
    "work": "w",
    "data": "D",
    "sparsity": "compression",
    "precision": "compression",
}
FAMILY_OF = {
    "fedevg": "D",
    "fedcvae": "D",
    "fedcgan": "D",
    "local_only": "bound",
    "pooled": "bound",
}
CHOOSING = {"by_size", "power_of_choice"}  # have nothing to choose if all take part
SMALL = {"latent_disco": {"encoder": "given"}, "fedbuff": {"buffer": 2, "concurrency": 3}}


def family(name: str, cls: type[Method]) -> str:
    """What a method changes, in one word or letter."""
    return FAMILY_OF.get(name, FAMILY.get(cls.slot, cls.slot))


def methods_table(folder: str) -> str:
    """Every method in one line, linked to its page in ``folder``."""
    lines = ["| method | changes | what it does |", "| --- | --- | --- |"]
    for name, cls in _methods().items():
        lines.append(f"| [`{name}`]({folder}{name}.md) | {family(name, cls)} | {summary(cls)} |")
    for name, topology in tables()["topology"].items():
        if name != "star":
            lines.append(f"| [`{name}`]({folder}{name}.md) | topology | {summary(topology)} |")
    return "\n".join(lines) + "\n"


def partitioners_table(page: str) -> str:
    """Every partitioner in one line."""
    lines = ["| partitioner | what it does |", "| --- | --- |"]
    for name, cls in tables()["partition"].items():
        lines.append(f"| [`{name}`]({page}#{name}) | {summary(cls)} |")
    return "\n".join(lines) + "\n"


def combinations() -> str:
    """Which two methods do not go together, and why: every pair is composed."""
    found: dict[str, dict[str, list[str]]] = {}  # reason -> method -> those it is not combined with
    for a, b in permutations(_methods(), 2):
        said = _refusal(a, b)
        if said:
            who, other, why = said
            beside = found.setdefault(why, {}).setdefault(who, [])
            beside += [] if other in beside else [other]
    return _grouped(found, "method", "not with")


def topologies() -> str:
    """Which methods cannot run on which topology, and why."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in _methods():
        for where, cls in tables()["topology"].items():
            if "path" in cls.model_fields:  # a graph of one's own: as any other graph
                continue
            draft = replace(_bare(), topology=cast(TopologySettings, cls()).build())
            _, (party, place) = assembled(draft, [_named(name)], where)
            if why := party.reason(place):
                found.setdefault(why, {}).setdefault(name, []).append(where)
    return _grouped(found, "method", "not on")


def _grouped(found: dict[str, dict[str, list[str]]], left: str, right: str) -> str:
    """One line for a reason and all who give it for the same others."""
    lines = [f"| {left} | {right} | because |", "| --- | --- | --- |"]
    for why, given in found.items():
        together: dict[tuple[str, ...], list[str]] = {}
        for who, others in given.items():
            together.setdefault(tuple(others), []).append(who)
        for others, who in together.items():
            lines.append(f"| {_ticked(who)} | {_by_slot(others)} | {why} |")
    return "\n".join(lines) + "\n"


def _by_slot(names: Sequence[str]) -> str:
    """Names, or the slot where all of its methods are meant."""
    left, words = list(names), []
    for slot in dict.fromkeys(METHODS[n].slot for n in names if n in METHODS):
        filling = [n for n, cls in METHODS.items() if cls.slot == slot]
        if len(filling) > 2 and set(filling) <= set(left):
            left = [n for n in left if n not in filling]
            words.append(f"everything of the slot *{slot}*")
    return ", ".join(filter(None, [_ticked(left), *words]))


def _ticked(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _refusal(a: str, b: str) -> tuple[str, str, str] | None:
    """(who refuses, whom, why) of two methods that fill different slots."""
    bare = _bare()
    if {a, b} & CHOOSING:
        bare = replace(bare, participation=Participation(0.5))
    draft, (one, two, _) = assembled(bare, [_named(a), _named(b)], "star")
    slots = [METHODS[name].slot for name in (a, b)]
    if slots[0] == slots[1] and slots[0]:
        return None
    if one.reason(two):
        return a, b, one.reason(two)
    if two.reason(one):
        return None  # told where the two are named the other way round
    alone = [next(objections(*assembled(bare, [_named(n)], "star")), "") for n in (a, b)]
    assert not any(alone) or {a, b} & CHOOSING, "every method works by itself here"
    said = _named(a)[1].objection(draft)
    return (a, b, said.partition(";")[0]) if said else None


@cache
def _bare() -> Draft:
    """Plain FedAvg of twenty clients on a small network."""
    module = MODELS["mlp"](hidden=[4], batch_norm=True).build((1, 2, 2), 3)
    task = MultiClass(Network(module, track_statistics=False))
    vae = Network(MODELS["vae"](hidden=[4]).build((1, 2, 2), 3))
    return Draft(task, 20, 3, (1, 2, 2), 10, opt=Sgd(0.1), read=lambda path: vae.given())


def _named(name: str) -> tuple[str, Method]:
    """A method as it comes; one that trains an encoder first is given one, so any model will do."""
    return name, METHODS[name](**SMALL.get(name, {}))


def slots_table() -> str:
    """Which slot each method fills."""
    by_slot: dict[str, list[str]] = {}
    for name, cls in _methods().items():
        by_slot.setdefault(cls.slot or "none", []).append(f"`{name}`")
    lines = ["| slot | methods that fill it |", "| --- | --- |"]
    lines += [f"| {slot} | {', '.join(names)} |" for slot, names in by_slot.items()]
    return "\n".join(lines) + "\n"


def _methods() -> Mapping[str, type[Method]]:
    return METHODS  # without the user's own, which has a page of its own


def method_settings(name: str) -> str:
    """The settings of a method or a topology."""
    found = {**tables()["topology"], **tables()["method"]}
    return settings_table(found[name])
