# ruff: noqa: E402
"""pfl-research 0.6.0: its simulated backend and its FedAvg, in two processes of torch.distributed.

Of clients with unequal sizes it is told how large they are, as its documentation advises, so that
it can balance the processes. Tried as well: one process.
"""

import os
import signal
import socket
import subprocess
import sys
import time

PROCESSES = 2
if "RANK" not in os.environ:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
    os.environ |= {"WORLD_SIZE": str(PROCESSES), "LOCAL_WORLD_SIZE": str(PROCESSES)}
    os.environ |= {"TORCHELASTIC_RUN_ID": "here"}  # by which it knows that torchrun started it
    others = []
    for rank in map(str, range(1, PROCESSES)):
        more = {**os.environ, "RANK": rank, "LOCAL_RANK": rank}
        quiet = {"stdin": subprocess.DEVNULL, "start_new_session": True}
        others.append(subprocess.Popen(sys.orig_argv, env=more, **quiet))
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0"}

import numpy as np
import torch
from networks import arrays, network
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import nn
from torch.nn.functional import cross_entropy
from workload import chosen, cohort, data, say, turn

torch.set_num_threads(1)
work, starts = chosen()
x, y = map(torch.from_numpy, data(work))
leads = os.environ["RANK"] == "0"


class Judged(nn.Sequential):
    """With the two functions that pfl asks for."""

    def loss(self, x, y, is_eval=False):
        return cross_entropy(self(x), y)

    def metrics(self, x, y):
        return {}


def user(c: int) -> Dataset:
    begin, end = starts[c : c + 2]
    order = begin + torch.randperm(int(end - begin))
    return Dataset([x[order], y[order]], user_id=str(c))


class Cohorts:
    """One client after the other, each round's cohort as everybody's."""

    def __init__(self) -> None:
        self.t, self.left = 0, []

    def __call__(self) -> int:
        if not self.left:
            self.left, self.t = cohort(work, self.t), self.t + 1
        return self.left.pop(0)


class Turns(TrainingProcessCallback):
    """Waits for its turn before every round."""

    begun = 0.0

    def wait(self, model) -> bool:
        on = turn(lambda: arrays(model.pytorch_model)) if leads else True
        if on and PROCESSES > 1:
            torch.distributed.barrier()
        self.begun = time.perf_counter()
        return on

    def on_train_begin(self, *, model):
        if PROCESSES > 1:
            torch.distributed.barrier()
        if leads:
            say(ready=True)
        self.wait(model)
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        if leads:
            say(seconds=time.perf_counter() - self.begun)
        return not self.wait(model), Metrics()


if __name__ == "__main__":
    np.random.seed(0)
    sizes = dict(enumerate(np.diff(starts).tolist()))
    unequal = len(set(sizes.values())) > 1
    people = FederatedDataset(user, Cohorts(), user_id_to_weight=sizes if unequal else None)
    module = network(work, Judged)
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=10**6,
            evaluation_frequency=10**6 + 1,
            train_cohort_size=work.cohort,
            val_cohort_size=0,
        ),
        SimulatedBackend(people, people, [WeightByDatapoints()]),
        PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), 1.0)),
        NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=work.lr, local_batch_size=work.batch
        ),
        NNEvalHyperParams(local_batch_size=work.batch),
        [Turns()],
    )
    for other in others if leads else ():
        os.killpg(other.pid, signal.SIGKILL)  # with the process that samples for it
