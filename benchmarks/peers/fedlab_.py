# ruff: noqa: E402
"""FedLab 1.3.0: its serial trainer, alone or two of them, each in a process, and its server."""

import os
import socket
import sys
from unittest.mock import MagicMock

# FedLab imports torchvision for data that are not used here; wheels of it fit few builds.
for name in ("torchvision", "torchvision.transforms", "torchvision.datasets", "torchvision.models"):
    sys.modules[name] = MagicMock()

import logging
import time

import torch
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.core.client.manager import PassiveClientManager
from fedlab.core.network import DistNetwork
from fedlab.core.server.manager import SynchronousServerManager
from fedlab.utils.aggregator import Aggregators
from fedlab.utils.serialization import SerializationTool
from networks import Shuffled, arrays, network
from workload import chosen, cohort, data, say, take_turns, turn

torch.set_num_threads(1)
work, starts = chosen()
x, y = map(torch.from_numpy, data(work))
quiet = logging.getLogger("quiet")
quiet.setLevel(logging.ERROR)  # its own writes a line for every message


class Clients:
    """What the trainer asks a dataset for."""

    def get_dataloader(self, client: int, batch: int) -> Shuffled:
        return Shuffled(x, y, range(*starts[client : client + 2]), batch)


class Trainer(SGDSerialClientTrainer):
    """Also says how many examples a client has."""

    def train(self, model_parameters, train_loader):
        size = torch.tensor([float(len(train_loader.rows))])
        return [*super().train(model_parameters, train_loader), size]


def trainer(clients: int) -> Trainer:
    made = Trainer(network(work), clients, cuda=False, logger=quiet)
    made.setup_dataset(Clients())
    made.setup_optim(1, work.batch, work.lr)
    return made


class Server(SyncServerHandler):
    """Waits for its turn before every round, and weighs clients by their examples."""

    begun = 0.0

    def sample_clients(self):
        return cohort(work, self.round)

    def global_update(self, buffer):
        mean = Aggregators.fedavg_aggregate([p for p, _ in buffer], [float(n) for _, n in buffer])
        SerializationTool.deserialize_model(self._model, mean)

    @property
    def if_stop(self):
        if self.begun:
            say(seconds=time.perf_counter() - self.begun)
        else:
            say(ready=True)
        on = turn(lambda: arrays(self._model))
        self.begun = time.perf_counter()
        return not on


def side(rank: int, port: str):
    """The server, or one of two processes with half of the clients each."""
    net = DistNetwork(("127.0.0.1", port), 3, rank)
    net._LOGGER = quiet
    if rank:
        return PassiveClientManager(net, trainer(work.clients // 2), quiet)
    server = Server(network(work), 10**6, work.cohort / work.clients, logger=quiet)
    return SynchronousServerManager(net, server, "GLOBAL", quiet)


def alone() -> None:
    """The serial trainer in one process."""
    serial = trainer(work.clients)
    model = [serial.model_parameters]

    def one(t: int) -> None:
        serial.local_process(model, cohort(work, t))
        found = serial.uplink_package
        model[0] = Aggregators.fedavg_aggregate([p for p, _ in found], [float(n) for _, n in found])

    def weights():
        SerializationTool.deserialize_model(serial._model, model[0])
        return arrays(serial._model)

    take_turns(one, weights)


if os.environ["MODE"] == "one process":
    alone()
else:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    for rank in (1, 2):
        if os.fork() == 0:
            side(rank, port).run()
            os._exit(0)
    side(0, port).run()
