"""BlazeFL 2.0.3: its FedAvg in one process.

Its pool of processes is made anew in every round and imports PyTorch each time, which takes
seconds; its threads are for Python without a lock, and version 3 for Python 3.14.
"""

import torch
from blazefl.contrib.fedavg import FedAvgBaseClientTrainer, FedAvgBaseServerHandler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from workload import LR, chosen, cohort, data, take_turns

torch.set_num_threads(1)
work, starts = chosen()
x, y = map(torch.from_numpy, data(work))


class Clients:
    """What the trainer asks a dataset for."""

    def get_dataloader(self, type_, cid, batch_size, generator=None):
        begin, end = starts[cid : cid + 2]
        own = TensorDataset(x[begin:end], y[begin:end])
        return DataLoader(own, batch_size, shuffle=True, generator=generator)


class Models:
    """Makes the one model there is."""

    def select_model(self, name):
        return nn.Sequential(
            nn.Linear(784, 200),
            nn.ReLU(),
            nn.Linear(200, 200),
            nn.ReLU(),
            nn.Linear(200, work.classes),
        )


share, batch = work.cohort / work.clients, work.batch
server = FedAvgBaseServerHandler(
    Models(), "mlp", Clients(), 10**6, work.clients, share, "cpu", batch, 0
)
trainer = FedAvgBaseClientTrainer(Models(), "mlp", Clients(), "cpu", work.clients, 1, batch, LR, 0)


def one(t: int) -> None:
    trainer.local_process(server.downlink_package(), cohort(work, t))
    for package in trainer.uplink_package():
        server.load(package)


take_turns(one)
