"""Data in, a federation out, by the names that a configuration uses."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from unalike.errors import ConfigError
from unalike.federation import build
from unalike.federation.anything import examples_of
from unalike.federation.columns import Learn
from unalike.federation.data import Federation
from unalike.federation.datasets.base import Dataset
from unalike.federation.partition.base import Partitioner
from unalike.federation.shift.base import Shift
from unalike.run.configuration.config import tables
from unalike.run.configuration.explain import check
from unalike.settings import look_up

Table = Mapping[str, Any]


def federate(
    data: Any,
    partitioner: Partitioner | str | Table = "",
    shifts: Sequence[Shift | str | Table] = (),
    *,
    label: str = "label",
    client: str = "",
    task: Learn = "auto",
    validation: float = 0.1,
    test: float = 0.2,
    new_clients: int = 0,
    adapt: bool = False,
    stratified: bool = True,
    seed: int = 0,
) -> Federation:
    """A federation made from data, read and scaled as ``unalike run`` reads a file.

    The partition, the split and each shift draw from separate streams, so changing the test share
    does not change the partition, and adding a shift does not change the others.

    Args:
        data: Arrays ``(x, y)`` or ``(x, y, groups)``, a pandas or polars frame, the name of a
            dataset, a PyTorch or Hugging Face dataset, or a mapping from clients' names to arrays
            ``(x, y)`` or PyTorch datasets.
        partitioner: Who gets which example: a name (``"iid"``), its table (``{"name":
            "dirichlet", "alpha": 0.1}``), or what ``unalike.partitioner`` made; by default the
            clients that the data come with.
        shifts: Applied in this order, after the split: names, tables or objects.
        label: The column to predict, if the data are a frame.
        client: The column that names each row's client, if the data are a frame.
        task: ``regression`` predicts the labels as numbers; ``auto`` does so only if they are
            clearly measurements.
        validation: Share of each client's examples.
        test: Share of each client's examples.
        new_clients: How many whole clients to hold out.
        adapt: Whether held-out clients get rows to train on before they are tested.
        stratified: Whether a client's test and validation rows hold its classes in proportion.
        seed: The same seed gives the same federation.

    Example:
        >>> federation = federate("digits", {"name": "dirichlet", "alpha": 0.3}, new_clients=2)
        >>> federation.n_clients, federation.n_new, federation.counts.shape
        (8, 2, (8, 10))
    """
    source = dataset(data) if isinstance(data, str) else data
    dealer = _made("partition", partitioner or "natural", Partitioner)
    made = build.federate(
        examples_of(source, label, client, task),
        dealer,
        [_made("shift", shift, Shift) for shift in shifts],
        validation=validation,
        test=test,
        new_clients=new_clients,
        adapt=adapt,
        stratified=stratified,
        seed=seed,
    )
    known = next((n for n, cls in tables()["partition"].items() if cls is type(dealer)), None)
    return made if known is None else replace(made, dealt={"name": known, **dealer.model_dump()})


def dataset(name: str, **settings: Any) -> Dataset:
    """A named dataset with its settings, for ``federate``; ``unalike list`` shows the names."""
    return cast(Dataset, _chosen("data", name, settings))


def partitioner(name: str, **settings: Any) -> Partitioner:
    """A named partitioner with its settings, for ``federate``."""
    return cast(Partitioner, _chosen("partition", name, settings))


def _made(kind: str, given: Any, cls: type[Any]) -> Any:
    """An object as it is; or what a name or table stands for."""
    if isinstance(given, cls):
        return given
    table = {"name": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ConfigError(
            f"'{kind}' must be a name, a table with a name, or an object of that kind, "
            f"got {given!r}."
        )
    return _chosen(kind, table["name"], {k: v for k, v in table.items() if k != "name"})


def _chosen(kind: str, name: str, settings: Mapping[str, Any]) -> Any:
    return check(look_up(kind, name, tables()[kind]), settings, kind, name)
