"""pfl-research 0.6.0: its simulated backend and its FedAvg, in one process."""

import json
import sys
import time

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
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
from workload import LR, chosen, cohort, data

torch.set_num_threads(1)
work, starts = chosen()
x, y = map(torch.from_numpy, data(work))


class TwoNN(nn.Sequential):
    """With the two functions that pfl asks for."""

    def loss(self, x, y, is_eval=False):
        return cross_entropy(self(x), y)

    def metrics(self, x, y):
        return {}


def user(c: int) -> Dataset:
    begin, end = starts[c : c + 2]
    order = begin + torch.randperm(int(end - begin))
    return Dataset([x[order], y[order]], user_id=str(c))


def ids():
    t = 0
    while True:
        yield from cohort(work, t)
        t += 1


class Turns(TrainingProcessCallback):
    """Waits for its turn before every round."""

    def __init__(self) -> None:
        self.begun = 0.0

    def on_train_begin(self, *, model):
        print(json.dumps({"ready": True}), flush=True)
        sys.stdin.readline()
        self.begun = time.perf_counter()
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        print(json.dumps({"seconds": time.perf_counter() - self.begun, "mb": 0}), flush=True)
        over = not sys.stdin.readline()
        self.begun = time.perf_counter()
        return over, Metrics()


sampler = ids()
people = FederatedDataset(user, lambda: next(sampler))
module = TwoNN(
    nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, work.classes)
)
model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), 1.0))
np.random.seed(0)
FederatedAveraging().run(
    NNAlgorithmParams(
        central_num_iterations=10**6,
        evaluation_frequency=10**6 + 1,
        train_cohort_size=work.cohort,
        val_cohort_size=0,
    ),
    SimulatedBackend(people, people),
    model,
    NNTrainHyperParams(local_num_epochs=1, local_learning_rate=LR, local_batch_size=work.batch),
    NNEvalHyperParams(local_batch_size=work.batch),
    [Turns()],
)
