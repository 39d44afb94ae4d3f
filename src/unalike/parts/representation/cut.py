"""A network cut in two: what goes into the first of its shared layers is the representation.

The private part f comes first and gives h = f(x), the shared part g comes last and gives g(h).
A second, local network a(h) may hang on the same h; its leaves are named ``local.``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unalike.batches import Batch
from unalike.network import Network
from unalike.tree import Params

LOCAL = "local"


class Tap(nn.Module):
    """A module that also gives what goes into one of its layers."""

    def __init__(self, inner: nn.Module, layer: str) -> None:
        """``layer`` is called once in a forward pass."""
        super().__init__()
        self.inner, self.layer = inner, layer
        inner.get_submodule(layer).register_forward_pre_hook(_remember)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(the output, the input of the layer)."""
        out = self.inner(x)
        return out, self.inner.get_submodule(self.layer).__dict__.pop("seen")


def _remember(layer: nn.Module, args: tuple[Any, ...]) -> None:
    layer.__dict__["seen"] = args[0]


class Chain(nn.Sequential):
    """A sequence that keeps a local network and does not pass through it."""

    def forward(self, x: Any) -> Any:
        """Layer after layer."""
        for name, layer in self.named_children():
            x = x if name == LOCAL else layer(x)
        return x


def with_local(network: Network, local: nn.Module) -> Network:
    """The network with another one beside it, which its forward pass does not use."""
    return network.changed(partial(_beside, local))


def _beside(local: nn.Module, module: nn.Module) -> nn.Module:
    if type(module).forward is nn.Sequential.forward:
        module.__class__ = Chain
    module.add_module(LOCAL, local)
    return module


def layer_of(leaf: str) -> str:
    """The layer that a leaf is of, also where its weight is computed, as by weight normalisation.

    >>> layer_of("body.0.weight"), layer_of("top.parametrizations.weight.original0")
    ('body.0', 'top')
    """
    return leaf.rpartition(".")[0].partition(".parametrizations.")[0]


def layers(leaves: Iterable[str]) -> dict[str, int]:
    """The number of the layer that each leaf is of: a weight and its bias have the same."""
    owner = {leaf: layer_of(leaf) for leaf in leaves}
    places = {layer: i for i, layer in enumerate(dict.fromkeys(owner.values()))}
    return {leaf: places[layer] for leaf, layer in owner.items()}


def first_layer(network: Network, prefixes: tuple[str, ...]) -> str:
    """The first layer with a leaf of these prefixes."""
    return layer_of(next(n for n in network.weights if n.startswith(prefixes)))


def unknown(network: Network, prefixes: Iterable[str], setting: str) -> str:
    """Which of the prefixes in a setting no layer has, as a sentence; empty if all are known."""
    leaves = (*network.weights, *network.buffers)
    strange = next((p for p in prefixes if not any(n.startswith(p) for n in leaves)), None)
    if strange is None:
        return ""
    return (
        f"{setting} names '{strange}', but no layer of the model starts with it; layers are "
        f"{', '.join(leaves[:6])} ..."
    )


def comes_last(network: Network, prefixes: tuple[str, ...]) -> bool:
    """Whether every leaf of these prefixes comes after all others."""
    last = [n.startswith(prefixes) for n in network.weights]
    return any(last) and not all(last) and last == sorted(last)


@dataclass(frozen=True)
class Representation:
    """The representation that a network makes, and a local network on it."""

    tap: Network
    local: Network

    def h(self, w: Params, x: Tensor, batch: Batch) -> Tensor:
        """One vector for each row, in training mode, by the draws of the task's own pass."""
        (_, h), _ = self.tap.train(inner(w), x, batch.key, batch.real)
        vectors: Tensor = h.flatten(1)
        return vectors

    def said(self, w: Params, h: Tensor, batch: Batch) -> Tensor:
        """What the local network says of representations."""
        own = {n.removeprefix(f"{LOCAL}."): v for n, v in w.items() if n.startswith(f"{LOCAL}.")}
        out: Tensor
        out, _ = self.local.train(own, h, batch.key, batch.real)
        return out


def inner(w: Params) -> Params:
    """The weights of a network under the names that they have in a tapped one."""
    return {f"inner.{name}": leaf for name, leaf in w.items()}


def tapped(network: Network, prefixes: tuple[str, ...]) -> Network:
    """The network that gives its output and what goes into the first layer of these prefixes."""
    return network.changed(partial(Tap, layer=first_layer(network, prefixes)))


def width(tap: Network, shape: tuple[int, ...]) -> int:
    """How many numbers represent an example of this shape."""
    w = tap.given()
    with torch.no_grad():
        _, h = tap.eval(w, torch.zeros(2, *shape, dtype=next(iter(w.values())).dtype))
    return int(h[0].numel())
