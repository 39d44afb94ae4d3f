"""Partitioners: one way of making clients unalike per file, found by name in one table."""

from unalike.federation.partition.base import Partitioner
from unalike.federation.partition.dirichlet import Dirichlet
from unalike.federation.partition.emd import Emd
from unalike.federation.partition.iid import Iid
from unalike.federation.partition.limit_label import LimitLabel
from unalike.federation.partition.limit_label_q import LimitLabelQ
from unalike.federation.partition.mixed import Mixed
from unalike.federation.partition.natural import Natural
from unalike.federation.partition.niid1 import Niid1
from unalike.federation.partition.niid2 import Niid2
from unalike.federation.partition.q_sampler import QSampler
from unalike.federation.partition.quantity import Quantity
from unalike.federation.partition.shards import Shards

PARTITIONERS: dict[str, type[Partitioner]] = {
    "iid": Iid,
    "dirichlet": Dirichlet,
    "mixed": Mixed,
    "shards": Shards,
    "limit_label": LimitLabel,
    "q_sampler": QSampler,
    "limit_label_q": LimitLabelQ,
    "emd": Emd,
    "niid1": Niid1,
    "niid2": Niid2,
    "quantity": Quantity,
    "natural": Natural,
}

__all__ = ["PARTITIONERS", "Partitioner"]
