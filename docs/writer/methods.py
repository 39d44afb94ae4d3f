"""Tables of methods: what each changes, which slot it fills, what goes with what."""

from collections.abc import Mapping

from unalike.algorithms.method import Method
from unalike.algorithms.table import METHODS
from unalike.errors import ConfigError
from unalike.run.config import tables
from unalike.settings import summary
from writer.settings import settings_table

# What a method changes: the model and how it is reached, the weights of the average, or the data.
FAMILY = {
    "": "θ",
    "objective": "θ",
    "server": "θ",
    "private": "θ",
    "algorithm": "θ",
    "weights": "w",
    "work": "w",
    "data": "D",
}
FAMILY_OF = {"fedevg": "D", "local_only": "bound", "pooled": "bound"}


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
    """Which two methods may be combined, tried on a small federation."""
    from unalike.federation.build import federate
    from unalike.federation.datasets.digits import Digits
    from unalike.federation.partition.iid import Iid
    from unalike.run.build import recipe, task
    from unalike.run.config import parse

    data = federate(Digits(), Iid(clients=20))
    made = task(parse({}), data.examples)
    names = list(_methods())

    def goes(first: str, second: str) -> bool:
        config = parse({"method": {"name": first}, "plus": [{"name": second}]})
        try:
            recipe(config, made, data)
        except ConfigError:
            return False
        return True

    lines = ["| method | can be combined with |", "| --- | --- |"]
    for a in names:
        beside = [f"`{b}`" for b in names if a != b and goes(a, b) and goes(b, a)]
        lines.append(f"| `{a}` | {', '.join(beside) or 'nothing'} |")
    return "\n".join(lines) + "\n"


def slots_table() -> str:
    """Which slot each method fills."""
    by_slot: dict[str, list[str]] = {}
    for name, cls in _methods().items():
        by_slot.setdefault(cls.slot or "none: the plain default", []).append(f"`{name}`")
    lines = ["| slot | methods that fill it |", "| --- | --- |"]
    lines += [f"| {slot} | {', '.join(names)} |" for slot, names in by_slot.items()]
    return "\n".join(lines) + "\n"


def _methods() -> Mapping[str, type[Method]]:
    return METHODS  # without the user's own, which has a page of its own


def method_settings(name: str) -> str:
    """The settings of a method or a topology."""
    found = {**tables()["topology"], **tables()["method"]}
    return settings_table(found[name])
