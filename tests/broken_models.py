"""Thirty models of a user's own that break, each in a way of its own."""

_HEAD = """import sys
import numpy as np
import torch
from torch import nn

"""
_INIT = """class Model(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.flat, self.last = nn.Flatten(), nn.Linear(64, classes)

    def forward(self, x):
"""


def _forward(body: str) -> str:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return f"{_HEAD}seen = []\n\n\n{_INIT}{lines}"


def _made(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{_HEAD}def Model(shape, classes):\n{lines}"


BROKEN = {
    "a file that is empty": "",
    "no Python": "class Model(nn.Module\n",
    "no such import": "import tensorflow_of_mine\n",
    "another name": "class Net:\n    pass\n",
    "fails when it is run": "raise RuntimeError('not today')\n",
    "leaves": "import sys\nsys.exit(3)\n",
    "no class": "Model = 3\n",
    "no module": "class Model:\n    def __init__(self, shape, classes):\n        pass\n",
    "no arguments": f"{_HEAD}class Model(nn.Module):\n    pass\n",
    "gives nothing": _made("pass"),
    "fails when it is made": _made("return nn.Linear(shape[7], classes)"),
    "no weights": _made("return nn.Flatten()"),
    "frozen weights": _made(
        "net = nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\n"
        "return net.requires_grad_(False)"
    ),
    "other rows": _made("return nn.Sequential(nn.Flatten(), nn.Linear(63, classes))"),
    "too few outputs": _made("return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))"),
    "an output for all rows": _forward("return self.last(self.flat(x)).mean(0)"),
    "two outputs": _forward("return self.last(self.flat(x)), x"),
    "a dict": _forward("return {'logits': self.last(self.flat(x))}"),
    "no tensor": _forward("return self.last(self.flat(x)).detach().numpy()"),
    "no gradient": _forward("return self.last(self.flat(x)).detach()"),
    "whole numbers": _forward("return self.last(self.flat(x)).long()"),
    "not a number": _forward("return self.last(self.flat(x)) * float('nan')"),
    "half of the rows": _forward("return self.last(self.flat(x))[: len(x) // 2]"),
    "an error of its own": _forward("raise ValueError('my own mistake')"),
    "leaves in the middle": _forward("sys.exit(1)"),
    "a recursion": _forward("return self.forward(x)"),
    "draws from NumPy": _forward("return self.last(self.flat(x)) + np.random.rand()"),
    "breaks in a later round": _forward(
        "seen.append(1)\nif len(seen) > 12:\n    raise KeyError('weights')\n"
        "return self.last(self.flat(x))"
    ),
    "dropout of a kind without keys": _made(
        "return nn.Sequential(nn.Flatten(), nn.AlphaDropout(), nn.Linear(64, classes))"
    ),
    "a lazy layer": _made("return nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))"),
    "one weight twice": _made(
        "one = nn.Linear(64, 64)\n"
        "return nn.Sequential(nn.Flatten(), one, one, nn.Linear(64, classes))"
    ),
    "on no device": _made(
        "net = nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\nreturn net.to('meta')"
    ),
    "double numbers": _made("return nn.Sequential(nn.Flatten(), nn.Linear(64, classes)).double()"),
}
