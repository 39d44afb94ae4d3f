"""Records what a function does to tensors while it runs.

PyTorch's own tracer does the same and more, but loads its compiler first, which takes longer than
a short run.
"""

import operator
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from unalike import tree


class _Recorder(TorchDispatchMode):
    """Every operation below autograd becomes a node; its result is in ``meta["val"]``."""

    def __init__(self, inputs: Sequence[Tensor], keep: bool) -> None:
        super().__init__()
        self.graph, self.root, self.keep = fx.Graph(), nn.Module(), keep
        self.nodes: MutableMapping[Tensor, fx.Node] = WeakIdKeyDictionary()
        for i, x in enumerate(inputs):
            self._note(self.graph.placeholder(f"x{i}"), x)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Without this PyTorch would load its compiler, only to leave the next method out."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        read = fx.node.map_aggregate((args, kwargs or {}), self.node)
        node = self._note(self.graph.call_function(func, *read), out)
        if isinstance(out, list | tuple):
            for i, x in enumerate(out):
                self._note(self.graph.call_function(operator.getitem, (node, i)), x)
        return out

    def node(self, x: Any) -> Any:
        """The node of a tensor; one that came from elsewhere is a constant."""
        if not isinstance(x, Tensor):
            return x
        if x not in self.nodes:
            name = f"constant{len(self.graph.nodes)}"
            self.root.register_buffer(name, x.detach())
            self._note(self.graph.get_attr(name), x)
        return self.nodes[x]

    def _note(self, node: fx.Node, out: Any) -> fx.Node:
        node.meta["val"] = out if self.keep else tree.map(_form, out)
        if isinstance(out, Tensor):
            self.nodes.setdefault(out, node)
        return node


def _form(x: Any) -> Any:
    """A tensor's sizes and layout, without its numbers."""
    if not isinstance(x, Tensor):
        return x
    return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device="meta")


def recorded(
    f: Callable[..., list[Tensor]], args: Sequence[Tensor], *, keep: bool = True
) -> fx.GraphModule:
    """The operations of ``f``, whose arguments are distinct tensors.

    Without ``keep`` results are freed after their last use; for many clients they take most of the
    memory.
    """
    recorder = _Recorder(args, keep)
    with recorder:
        out = f(*args)
    recorder.graph.output([recorder.node(x) for x in tree.leaves(out)])
    return fx.GraphModule(recorder.root, recorder.graph)
