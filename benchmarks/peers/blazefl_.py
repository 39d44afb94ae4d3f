"""BlazeFL 2.0.3: its FedAvg in one process, or in two that share memory, forked in every round.

Its threads are for a Python without a lock, and version 3 for Python 3.14; on this one two threads
were no faster than one process on W1 and W3, and W2 was not compared.
Processes made by spawn import PyTorch again in every round.
"""

import copy
import os
import tempfile
from pathlib import Path

import torch
from blazefl.contrib.fedavg import (
    FedAvgBaseClientTrainer,
    FedAvgBaseServerHandler,
    FedAvgProcessPoolClientTrainer,
)
from blazefl.core import IPCMode
from networks import Shuffled, arrays, network
from workload import chosen, cohort, data, take_turns

torch.set_num_threads(1)
torch.multiprocessing.set_start_method("fork")
work, starts = chosen()
x, y = map(torch.from_numpy, data(work))
first = network(work)
# PyTorch imports more with its first optimizer; here, lest every forked process does so again.
torch.optim.SGD(first.parameters(), work.lr).zero_grad()


class Clients:
    """What the trainer asks a dataset for."""

    def get_dataloader(self, type_, cid, batch_size, generator=None):
        return Shuffled(x, y, range(*starts[cid : cid + 2]), batch_size)

    def set_dataset(self, type_, cid, dataset):
        pass


class Models:
    """Makes the one model there is."""

    def select_model(self, name):
        return copy.deepcopy(first)


share, batch = work.cohort / work.clients, work.batch
server = FedAvgBaseServerHandler(
    Models(), "", Clients(), 10**6, work.clients, share, "cpu", batch, 0
)
place = Path(tempfile.mkdtemp())
common = "cpu", work.clients, 1, batch, work.lr, 0
if os.environ["MODE"] == "two processes":
    trainer = FedAvgProcessPoolClientTrainer(
        Models(), "", place, place, Clients(), *common, 2, IPCMode.SHARED_MEMORY
    )
else:
    trainer = FedAvgBaseClientTrainer(Models(), "", Clients(), *common)


def one(t: int) -> None:
    trainer.local_process(server.downlink_package(), cohort(work, t))
    for package in trainer.uplink_package():
        server.load(package)


take_turns(one, lambda: arrays(server.model))
