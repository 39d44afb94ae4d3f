"""A loop over clients with a module, an optimizer and nothing else, on one thread."""

import torch
from networks import network
from torch.nn.functional import cross_entropy
from workload import chosen, cohort, data, take_turns

torch.set_num_threads(1)
work, starts = chosen()
x, y = map(torch.from_numpy, data(work))
module = network(work)
w = list(module.parameters())
model = [v.detach().clone() for v in w]


def one(t: int) -> None:
    chosen_now = cohort(work, t)
    sizes = [starts[c + 1] - starts[c] for c in chosen_now]
    total = [torch.zeros_like(v) for v in model]
    for c, n in zip(chosen_now, sizes, strict=True):
        with torch.no_grad():
            for v, s in zip(w, model, strict=True):
                v.copy_(s)
        optimizer = torch.optim.SGD(w, work.lr)
        for batch in (starts[c] + torch.randperm(n)).split(work.batch):
            optimizer.zero_grad()
            cross_entropy(module(x[batch]), y[batch]).backward()
            optimizer.step()
        for s, v in zip(total, w, strict=True):
            s.add_(v.detach(), alpha=n / sum(sizes))
    model[:] = total


take_turns(one, lambda: [v.numpy() for v in model])
