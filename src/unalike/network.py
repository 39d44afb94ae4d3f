"""An ordinary ``nn.Module`` as pure functions of a dict of tensors, also under vmap and threads.

Three things in a module are not pure: dropout draws from a global generator, batch normalisation
writes its running statistics in place and counts padded rows, and PyTorch's functional call swaps
attributes of a shared module. Here dropout draws from a key, batch normalisation masks padding and
returns its statistics, and every thread calls a copy of its own.
"""

import copy
import threading
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from unalike import filling, rng, tree
from unalike.errors import ConfigError
from unalike.generator import seeded
from unalike.kernels.layers import accelerated
from unalike.rng import Key, Stream
from unalike.tree import Params


class Dropout(nn.Module):
    """``nn.Dropout`` (or, for whole channels, ``nn.Dropout2d``) that draws from a key."""

    key: Tensor | None

    def __init__(self, p: float, channels: bool) -> None:
        """``channels`` drops whole feature maps."""
        super().__init__()
        self.p, self.channels = p, channels
        self.register_buffer("key", None, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with a share p of its entries zeroed and the rest scaled up, while training."""
        if not self.training or self.p == 0:
            return x
        shape = (*x.shape[:2], *[1] * (x.ndim - 2)) if self.channels else x.shape
        keep = rng.uniform(cast(Tensor, self.key), *shape) >= self.p
        return x * keep / (1 - self.p)


class BatchNorm(nn.Module):
    """Batch normalisation whose statistics skip padded rows and are reassigned, never mutated."""

    real: Tensor | None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, like: _BatchNorm, track: bool) -> None:
        """The same parameters as ``like``; without ``track`` batch statistics are always used."""
        super().__init__()
        self.eps, self.momentum = like.eps, like.momentum
        self.track = track and like.track_running_stats
        self.weight, self.bias = like.weight, like.bias
        self.register_buffer("real", None, persistent=False)
        if self.track:
            self.register_buffer("running_mean", cast(Tensor, like.running_mean))
            self.register_buffer("running_var", cast(Tensor, like.running_var))
            if (
                self.momentum is None
            ):  # a float, so that averaging over clients is not a special case
                count = cast(Tensor, like.num_batches_tracked).float()
                self.register_buffer("num_batches_tracked", count)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` normalised by batch statistics while training, by running ones otherwise."""
        if x.dtype == torch.bfloat16:  # too few digits for a mean
            return self.forward(x.float()).to(x.dtype)
        if self.track and not self.training:
            mean, var = self.running_mean, self.running_var
        else:
            mean, var = self._batch_statistics(x)
        shape = (1, -1, *[1] * (x.ndim - 2))
        y = (x - mean.reshape(shape)) * torch.rsqrt(var.reshape(shape) + self.eps)
        if self.weight is None:
            return y
        return y * self.weight.reshape(shape) + self.bias.reshape(shape)

    def _batch_statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        axes = [0, *range(2, x.ndim)]
        if self.real is None:
            count = x.new_full((), x.numel() // x.shape[1])
            mean = x.mean(axes)
            var = x.var(axes, unbiased=False)
        else:
            mask = self.real.to(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
            places = x[0, 0].numel()
            count = (self.real.sum() * places).clamp(min=1)
            mean = (x * mask).sum(axes) / count
            centred = (x - mean.reshape(1, -1, *[1] * (x.ndim - 2))) * mask
            var = (centred**2).sum(axes) / count
        if self.track and self.training:
            unbiased = var.detach() * count / (count - 1).clamp(min=1)
            rate: float | Tensor
            if self.momentum is None:  # the mean over all batches so far
                self.num_batches_tracked = self.num_batches_tracked + 1
                rate = 1 / self.num_batches_tracked
            else:
                rate = self.momentum
            self.running_mean = (1 - rate) * self.running_mean + rate * mean.detach()
            self.running_var = (1 - rate) * self.running_var + rate * unbiased
        return mean, var


def _pure(module: nn.Module, track: bool) -> nn.Module:
    """A copy of ``module`` in which dropout and batch normalisation are the classes above."""
    module = copy.deepcopy(module)

    def swap(m: nn.Module) -> nn.Module:
        if isinstance(m, _BatchNorm):
            return BatchNorm(m, track)
        if isinstance(m, nn.AlphaDropout | nn.FeatureAlphaDropout):
            raise ConfigError(
                f"the model uses {type(m).__name__}, which has no keyed form here; "
                "use nn.Dropout instead."
            )
        if isinstance(m, _InstanceNorm) and m.track_running_stats:
            raise ConfigError(
                f"the model uses {type(m).__name__} with running statistics, which it would change "
                "in place; set track_running_stats=False."
            )
        if isinstance(m, nn.RNNBase) and m.dropout:
            raise ConfigError(
                f"the model uses {type(m).__name__} with dropout inside, which draws from a global "
                "generator; set dropout=0 and put nn.Dropout between layers."
            )
        if isinstance(m, _DropoutNd):
            return Dropout(m.p, channels=not isinstance(m, nn.Dropout))
        for name, child in m.named_children():
            setattr(m, name, swap(child))
        return m

    return swap(module)


class Network:
    """``module`` as functions of a dict of weights and buffers."""

    def __init__(
        self,
        module: nn.Module,
        *,
        track_statistics: bool = True,
        kernels: bool = False,
        bf16: bool = False,
        start: str = "glorot",
        alike: Hashable = None,
    ) -> None:
        """Without ``track_statistics`` batch normalisation has no running statistics at all.

        With ``kernels`` convolutions inside vmap on a GPU are those of ``unalike.kernels``; with
        ``bf16`` products are made of numbers of 16 bits there, in training mode. ``start`` is the
        distribution that ``init`` draws from: "glorot" or "torch". Networks that are ``alike`` make
        the same of the same weights: what was traced of one serves the others.
        """
        self.kernels, self.bf16, self.start = kernels, bf16, start
        pure = _pure(module, track_statistics)
        if kernels:
            pure = accelerated(pure)
        self._masters = {True: _copied(pure).train(), False: pure.eval()}
        self._mine = threading.local()
        parameters, buffers = dict(pure.named_parameters()), dict(pure.named_buffers())
        self.weights = tuple(n for n, p in parameters.items() if p.requires_grad)
        self.frozen = tuple(n for n, p in parameters.items() if not p.requires_grad)
        # Integer buffers (position numbers, masks) are constants of the module and not averaged.
        self.buffers = tuple(n for n, b in buffers.items() if b.is_floating_point())
        self._fixed = (*self.frozen, *(n for n in buffers if n not in self.buffers))
        own = alike is None or bool(self._fixed)  # whose constants may be its own too
        self._alike = object() if own else (alike, track_statistics, kernels, bf16)
        self._dropouts = [n for n, m in pure.named_modules() if isinstance(m, Dropout)]
        self._norms = [n for n, m in pure.named_modules() if isinstance(m, BatchNorm)]
        leaves = (*self.weights, *self.buffers)
        self.norms = tuple(n for n in leaves if n.rpartition(".")[0] in self._norms)
        head = getattr(module, "head", ())
        # A layer of that name is the head; else the attribute lists the prefixes of its leaves.
        self.head: tuple[str, ...] = ("head.",) if isinstance(head, nn.Module) else tuple(head)
        self.seeds_global = False  # whether a call draws from PyTorch's generator and must seed it
        self.layers = frozenset(type(m).__name__ for m in pure.modules())
        self._rules = {
            name: (m, leaf)
            for prefix, m in pure.named_modules()
            for leaf, _ in m.named_parameters(recurse=False)
            for name in [f"{prefix}.{leaf}" if prefix else leaf]
        }

    def __eq__(self, other: object) -> bool:
        """Whether they make the same of the same weights; those they came with may differ."""
        return isinstance(other, Network) and self._alike == other._alike

    def __hash__(self) -> int:
        return hash(self._alike)

    def __getstate__(self) -> dict[str, Any]:
        """All but the threads' own copies: another process makes its own."""
        return {k: v for k, v in self.__dict__.items() if k != "_mine"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _mine=threading.local())

    def constants(self, device: torch.device | None = None) -> Params:
        """What is neither trained nor sent: frozen parameters, and with a device integer buffers.

        A call finds them in its copy of the module, except on another device.
        """
        if device is None:
            held = dict(self._masters[False].named_parameters())
            return {n: held[n].detach().clone() for n in self.frozen}
        copies = self._mine.__dict__
        name = f"constants on {device}"
        if name not in copies:
            own = self._masters[False]
            state = {**dict(own.named_parameters()), **dict(own.named_buffers())}
            copies[name] = {n: state[n].detach().to(device) for n in self._fixed}
        return cast(Params, copies[name])

    def _held(self, w: Params, x: Tensor) -> Params:
        """All tensors that a call with these weights needs from outside the module."""
        return dict(w) if x.device.type == "cpu" else {**self.constants(x.device), **w}

    @property
    def dense(self) -> bool:
        """Whether it is made of matrix products alone, which a CPU batches well."""
        slow = ("Conv", "LSTM", "GRU", "RNN")
        return not any(s in name for name in self.layers for s in slow)

    @property
    def batch_dependent(self) -> bool:
        """Whether a row's output depends on the rows beside it, also in evaluation mode."""
        tracked = any(name.endswith("running_mean") for name in self.buffers)
        return "BatchNorm" in self.layers and not tracked

    def _module(self, training: bool) -> nn.Module:
        copies = self._mine.__dict__
        name = "train" if training else "eval"
        if name not in copies:
            copies[name] = _copied(self._masters[training])
        return cast(nn.Module, copies[name])

    def given(self) -> Params:
        """Weights and buffers as the module came, for instance pre-trained."""
        state = self._masters[False]
        named = {**dict(state.named_parameters()), **dict(state.named_buffers())}
        return {n: named[n].detach().clone() for n in (*self.weights, *self.buffers)}

    def init(self, key: Key) -> Params:
        """Fresh weights on the key's device, from the key alone; buffers as the module came.

        Glorot-normal matrices and kernels, zero biases, N(0, 1) embeddings, U(-1/sqrt H, 1/sqrt H)
        recurrent weights, normalisation layers at the identity. With ``start = "torch"`` linear and
        convolutional layers are U(-1/sqrt F, 1/sqrt F) for F inputs of a unit, biases too, which is
        what PyTorch does if nobody asks; it does the rest as above.
        """
        draw, fresh = _uniform if self.start == "torch" else _glorot, {}
        keys = rng.fold_in(key, torch.arange(len(self.weights), device=key.device))
        for i, n in enumerate(self.weights):
            module, leaf = self._rules[n]
            p = cast(Tensor, getattr(module, leaf)).detach()
            drawn = draw(module, leaf, p, keys[i]).to(key.device, p.dtype)
            fresh[n] = drawn.clone() if drawn is p else drawn
        held = dict(self._masters[False].named_buffers()) if self.buffers else {}
        return {**fresh, **{n: held[n].detach().clone().to(key.device) for n in self.buffers}}

    def train(
        self, w: Params, x: Tensor, key: Key, real: Tensor, *more: Tensor
    ) -> tuple[Any, Params]:
        """The output in training mode, and the buffers after it; ``more`` are further inputs."""
        held = self._held(w, x)
        if self._dropouts or self.seeds_global:  # a key takes a dozen kernels
            key = rng.fold_in(key, Stream.DROPOUT)
        for i, name in enumerate(self._dropouts):
            held[f"{name}.key"] = rng.fold_in(key, i)
        for name in self._norms:
            held[f"{name}.real"] = real
        with seeded(key) if self.seeds_global else nullcontext(), self._narrow(x):
            out = functional_call(self._module(True), held, (x, *more))
        if self.bf16:
            out = tree.map(lambda v: v.float() if v.dtype == torch.bfloat16 else v, out)
        return out, {n: held[n] for n in self.buffers}  # the call writes new buffers back

    def _narrow(self, x: Tensor) -> AbstractContextManager[object]:
        """Products of 16 bits, where they were asked for and there is a GPU that makes them."""
        if not (self.bf16 and x.is_cuda):
            return nullcontext()
        return torch.autocast("cuda", torch.bfloat16, cache_enabled=False)  # a graph has no cache

    def eval(self, w: Params, x: Tensor, real: Tensor | None = None, *more: Tensor) -> Any:
        """The output in evaluation mode; without running statistics, padding must be marked."""
        held = self._held(w, x)
        if real is not None:
            for name in self._norms:
                held[f"{name}.real"] = real
        with seeded(rng.key(0).to(x.device)) if self.seeds_global else nullcontext():
            return functional_call(self._module(False), held, (x, *more))

    def module(self, w: Params) -> nn.Module:
        """A copy of the module with these weights and buffers, in evaluation mode."""
        own = copy.deepcopy(self._masters[False])
        own.load_state_dict({k: v.detach().cpu() for k, v in w.items()}, strict=False)
        return own

    def drawing(self, call: Callable[[], Any]) -> str:
        """The innermost layer that draws from PyTorch's generator while ``call`` runs."""
        found, hooks = list[str](), list[Any]()

        def watch(name: str, module: nn.Module) -> None:
            before: list[Tensor] = []
            hooks.append(
                module.register_forward_pre_hook(lambda *_: before.append(torch.get_rng_state()))
            )

            def after(*_: Any) -> None:
                if not torch.equal(before.pop(), torch.get_rng_state()):
                    found.append(f"layer '{name}' ({type(module).__name__})" if name else "it")

            hooks.append(module.register_forward_hook(after))

        for name, module in self._module(True).named_modules():
            watch(name, module)
        try:
            call()
        finally:
            for hook in hooks:
                hook.remove()
        return next(iter(found), "it")

    def leaves(self, kind: type[nn.Module], leaf: str) -> tuple[str, ...]:
        """The names of a leaf that layers of one kind have."""
        return tuple(
            n for n, (m, own) in self._rules.items() if isinstance(m, kind) and own == leaf
        )

    def part(self, name: str) -> "Network":
        """A submodule as a network of its own; its leaves lose the prefix ``name.``."""
        own = self._masters[False].get_submodule(name)
        return Network(own, bf16=self.bf16, start=self.start)

    def changed(self, change: Callable[[nn.Module], nn.Module]) -> "Network":
        """The network of ``change(module)``, where the module is a copy that may be altered."""
        module = change(copy.deepcopy(self._masters[False]))
        made = Network(module, bf16=self.bf16, start=self.start, alike=(self._alike, change))
        made.seeds_global = self.seeds_global
        return made


def _copied(module: nn.Module) -> nn.Module:
    """A copy of the module around the same parameters: a call replaces them with others."""
    kept = {id(p): p for p in module.parameters()}
    # Buffers by an operation that can be recorded: a thread's first call may be one that is.
    return copy.deepcopy(module, kept | {id(b): b.clone() for b in module.buffers()})


def _uniform(module: nn.Module, leaf: str, p: Tensor, key: Key) -> Tensor:
    if not isinstance(module, nn.Linear | _ConvNd):
        return _glorot(module, leaf, p, key)
    return (2 * filling.uniform(key, *p.shape) - 1) * module.weight[0].numel() ** -0.5


def _glorot(module: nn.Module, leaf: str, p: Tensor, key: Key) -> Tensor:
    if isinstance(module, nn.RNNBase) or hasattr(module, "hidden_size"):
        return (2 * filling.uniform(key, *p.shape) - 1) * int(module.hidden_size) ** -0.5  # type: ignore[arg-type]
    if isinstance(module, nn.Embedding):
        return filling.normal(key, *p.shape)
    if leaf == "bias":
        return torch.zeros_like(p)
    if p.ndim < 2:  # the scale of a normalisation layer, or a parameter of the user's own
        return p
    fans = p[0].numel() + p.shape[0] * p[0, 0].numel()
    return float((2 / fans) ** 0.5) * filling.normal(key, *p.shape)
