"""Flower 1.41: its simulation engine with Ray, one actor a core, and its FedAvg."""

import json
import os
import sys
import time

import numpy as np
import torch
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn
from torch.nn.functional import cross_entropy
from workload import LR, chosen, data

work, starts = chosen()
SHARED = {}  # what an actor keeps between its clients


def network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, work.classes)
    )


class Client(NumPyClient):
    """One epoch of SGD."""

    def __init__(self, number: int) -> None:
        self.number = number

    def fit(self, parameters, config):
        torch.set_num_threads(1)
        if not SHARED:
            x, y = map(torch.from_numpy, data(work))
            SHARED.update(x=x, y=y, module=network())
        x, y, module = SHARED["x"], SHARED["y"], SHARED["module"]
        w = list(module.parameters())
        with torch.no_grad():
            for v, a in zip(w, parameters, strict=True):
                v.copy_(torch.from_numpy(a))
        begin, end = map(int, starts[self.number : self.number + 2])
        optimizer = torch.optim.SGD(w, LR)
        for batch in (begin + torch.randperm(end - begin)).split(work.batch):
            optimizer.zero_grad()
            cross_entropy(module(x[batch]), y[batch]).backward()
            optimizer.step()
        return [v.detach().numpy() for v in w], end - begin, {}


def client(context: Context):
    return Client(int(context.node_config["partition-id"])).to_client()


class Turns(FedAvg):
    """Waits for its turn before every round."""

    begun = 0.0

    def configure_fit(self, server_round, parameters, client_manager):
        if server_round == 1:
            client_manager.wait_for(work.clients)
            print(json.dumps({"ready": True}), flush=True)
        else:
            print(json.dumps({"seconds": time.perf_counter() - self.begun, "mb": 0}), flush=True)
        if not sys.stdin.readline():
            os._exit(0)
        self.begun = time.perf_counter()
        return super().configure_fit(server_round, parameters, client_manager)


def server(context: Context) -> ServerAppComponents:
    first = ndarrays_to_parameters([p.detach().numpy() for p in network().parameters()])
    strategy = Turns(
        fraction_fit=work.cohort / work.clients,
        fraction_evaluate=0.0,
        initial_parameters=first,
    )
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=10**6))


np.random.seed(0)
run_simulation(
    ServerApp(server_fn=server),
    ClientApp(client_fn=client),
    num_supernodes=work.clients,
    backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
)
