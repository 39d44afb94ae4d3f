"""pfl-research 0.6.0 on its own CIFAR-10 benchmark, as ``benchmarks/pfl_cifar.py`` is: one GPU.

    UNALIKE_DATA=FOLDER python benchmarks/peers/pfl_cifar_.py [--rounds 1500] [--device cpu]

Examples are on the device, as in its own benchmark. Needs ``pfl[pytorch]==0.6.0`` beside unalike.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

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

sys.path.insert(0, str(Path(__file__).parent.parent))
from gpu_rounds import WORK, pfl_cnn
from pfl_cifar import images, shuffled


class Judged(nn.Sequential):
    """With the two functions that pfl asks for."""

    def loss(self, x, y, is_eval=False):
        return cross_entropy(self.train(not is_eval)(x), y)

    def metrics(self, x, y):
        return {}


class Watch(TrainingProcessCallback):
    """Seconds of every round, and the accuracy after some."""

    def __init__(self, x, y, every) -> None:
        self.x, self.y, self.every, self.rounds, self.curve = x, y, every, [], {}

    def on_train_begin(self, *, model):
        self.begun = self.now = time.perf_counter()
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        if self.x.is_cuda:
            torch.cuda.synchronize()
        self.rounds.append(time.perf_counter() - self.now)
        if (central_iteration + 1) % self.every == 0:
            with torch.no_grad():
                right = model.pytorch_model.eval()(self.x).argmax(1) == self.y
            self.curve[central_iteration + 1] = round(float(right.double().mean()), 4)
            print(central_iteration + 1, self.curve[central_iteration + 1], file=sys.stderr)
            model.pytorch_model.train()
        self.now = time.perf_counter()
        return False, Metrics()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=1500)
    options.add_argument("--every", type=int, default=10, help="rounds between evaluations")
    options.add_argument("--device", default="cuda", help="cpu: for the accuracy alone")
    chosen = options.parse_args()
    rounds, device = chosen.rounds, torch.device(chosen.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    *train, test_x, test_y = images()
    x, y = (part.to(device) for part in shuffled(*train))
    work, draw = WORK["pfl cifar 50x5x10"], np.random.default_rng(0)

    def user(c: int) -> Dataset:
        order = c * work.each + torch.randperm(work.each, device=device)
        return Dataset([x[order], y[order]], user_id=str(c))

    def users():
        while True:
            yield from draw.choice(work.clients, work.cohort, replace=False).tolist()

    torch.manual_seed(0)
    module = Judged(*pfl_cnn())
    for layer in module:
        if hasattr(layer, "weight"):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    module, drawn = module.to(device), users()
    watch = Watch(test_x.to(device), test_y.to(device), chosen.every)
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=rounds + 1,
            train_cohort_size=work.cohort,
            val_cohort_size=0,
        ),
        SimulatedBackend(FederatedDataset(user, lambda: next(drawn)), None, []),
        PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), 1.0)),
        NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=0.1, local_batch_size=work.batch
        ),
        NNEvalHyperParams(local_batch_size=10_000),
        [watch],
    )
    line = {
        "side": "pfl-research",
        "rounds": rounds,
        "round_ms": round(statistics.median(watch.rounds) * 1e3, 1),
        "total_s": round(time.perf_counter() - watch.begun, 1),
        "accuracy": {t: v for t, v in watch.curve.items() if t % 50 == 0},
    }
    print(json.dumps(line))
