# ruff: noqa: E402
"""FedLab 1.3.0: its serial trainer and its average."""

import sys
from unittest.mock import MagicMock

# FedLab imports torchvision for data that are not used here; wheels of it fit few builds.
for name in ("torchvision", "torchvision.transforms", "torchvision.datasets", "torchvision.models"):
    sys.modules[name] = MagicMock()

import torch
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.utils.aggregator import Aggregators
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from workload import LR, chosen, cohort, data, take_turns

torch.set_num_threads(1)
work, starts = chosen()
x, y = map(torch.from_numpy, data(work))


class Clients:
    """What the trainer asks a dataset for."""

    def get_dataloader(self, client: int, batch: int) -> DataLoader:
        begin, end = starts[client : client + 2]
        return DataLoader(TensorDataset(x[begin:end], y[begin:end]), batch, shuffle=True)


module = nn.Sequential(
    nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, work.classes)
)
trainer = SGDSerialClientTrainer(module, work.clients, cuda=False)
trainer.setup_dataset(Clients())
trainer.setup_optim(1, work.batch, LR)
model = trainer.model_parameters


def one(t: int) -> None:
    global model
    ids = cohort(work, t)
    trainer.local_process([model], ids)
    sizes = [int(starts[c + 1] - starts[c]) for c in ids]
    parameters = [package[0] for package in trainer.uplink_package]
    model = Aggregators.fedavg_aggregate(parameters, sizes)


take_turns(one)
