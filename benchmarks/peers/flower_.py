"""Flower 1.41: both of its simulations with Ray, one actor a core, and its FedAvg.

`start_simulation` is the older one. An actor keeps its data and its network between clients, which
Flower's examples do not.
"""

import os
import time

import torch
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation, start_simulation
from networks import arrays, load, network
from torch.nn.functional import cross_entropy
from workload import chosen, data, first, say, turn

work, starts = chosen()
SHARED = {}  # what an actor keeps between its clients


class Client(NumPyClient):
    """One epoch of SGD."""

    def __init__(self, number: int) -> None:
        self.number = number

    def fit(self, parameters, config):
        torch.set_num_threads(1)
        if not SHARED:
            x, y = map(torch.from_numpy, data(work))
            SHARED.update(x=x, y=y, module=network(work))
        x, y, module = SHARED["x"], SHARED["y"], SHARED["module"]
        load(module, parameters)
        begin, end = map(int, starts[self.number : self.number + 2])
        optimizer = torch.optim.SGD(module.parameters(), work.lr)
        for batch in (begin + torch.randperm(end - begin)).split(work.batch):
            optimizer.zero_grad()
            cross_entropy(module(x[batch]), y[batch]).backward()
            optimizer.step()
        return arrays(module), end - begin, {}


def client(context: Context):
    return Client(int(context.node_config["partition-id"])).to_client()


class Turns(FedAvg):
    """Waits for its turn before every round."""

    begun = 0.0

    def configure_fit(self, server_round, parameters, client_manager):
        if server_round == 1:
            client_manager.wait_for(work.clients)
            say(ready=True)
        else:
            say(seconds=time.perf_counter() - self.begun)
        if not turn(lambda: parameters_to_ndarrays(parameters)):
            os._exit(0)
        self.begun = time.perf_counter()
        return super().configure_fit(server_round, parameters, client_manager)


strategy = Turns(
    fraction_fit=work.cohort / work.clients,
    fraction_evaluate=0.0,
    initial_parameters=ndarrays_to_parameters(first(work)),
)
config, resources = ServerConfig(num_rounds=10**6), {"num_cpus": 1, "num_gpus": 0.0}
if os.environ["MODE"] == "start_simulation":
    start_simulation(
        client_fn=client,
        num_clients=work.clients,
        client_resources=resources,
        config=config,
        strategy=strategy,
        ray_init_args={"num_cpus": 2, "include_dashboard": False},
    )
else:
    run_simulation(
        ServerApp(server_fn=lambda _: ServerAppComponents(strategy=strategy, config=config)),
        ClientApp(client_fn=client),
        num_supernodes=work.clients,
        backend_config={"client_resources": resources},
    )
