"""The networks of the workloads as PyTorch modules, with the weights that everybody starts from."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from workload import EMBEDDING, HIDDEN, Work, first


class Characters(nn.Module):
    """A stacked LSTM that predicts the next character."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, EMBEDDING)
        self.lstm = nn.LSTM(EMBEDDING, HIDDEN, 2, bias=False, batch_first=True)
        self.last = nn.Linear(HIDDEN, classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.lstm(self.embedding(x))[0][:, -1])


def layers(work: Work) -> list[nn.Module]:
    """One after the other they are the network."""
    if work.model == "lstm":
        return [Characters(work.classes)]
    if work.model == "cnn":
        convolutions: list[nn.Module] = []
        for inputs, outputs in ((1, 32), (32, 64)):
            convolutions += [nn.Conv2d(inputs, outputs, 5, padding=1), nn.ReLU()]
            convolutions += [nn.MaxPool2d(2, padding=1)]
        dense = [nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, work.classes)]
        return [*convolutions, nn.Flatten(), *dense]
    wide = [nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU()]
    return [nn.Flatten(), *wide, nn.Linear(200, work.classes)]


def network(work: Work, kind: type[nn.Sequential] = nn.Sequential) -> nn.Sequential:
    """A new one with the first weights."""
    made = kind(*layers(work))
    load(made, first(work))
    return made


def load(module: nn.Module, weights: list[np.ndarray]) -> None:
    with torch.no_grad():
        for v, a in zip(module.parameters(), weights, strict=True):
            v.copy_(torch.from_numpy(np.asarray(a)))


def arrays(module: nn.Module) -> list[np.ndarray]:
    return [v.detach().numpy() for v in module.parameters()]


class Shuffled:
    """What a data loader gives, with as little effort as the bare loop has with its batches."""

    def __init__(self, x: Tensor, y: Tensor, rows: range, batch: int) -> None:
        self.x, self.y, self.rows, self.batch = x, y, rows, batch
        self.dataset = None  # some ask for it

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = self.rows.start + torch.randperm(len(self.rows))
        return ((self.x[batch], self.y[batch]) for batch in order.split(self.batch))
