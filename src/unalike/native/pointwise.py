"""Operations that compute each number of their result from one number of each operand, in C++."""

from collections.abc import Callable
from typing import Any

import torch

ATEN = torch.ops.aten
Expression = Callable[..., str]
NAMES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.int64: "int64_t",
    torch.int32: "int32_t",
    torch.bool: "bool",
}


def number(x: Any, kind: torch.dtype) -> str:
    """A number of Python's as one of this type."""
    if kind == torch.bool:
        return str(bool(x)).lower()
    if not kind.is_floating_point:
        return f"INT64_C({int(x)})"
    x, end = float(x), "f" if kind == torch.float32 else ""
    if x != x:
        return "NAN"
    if x in (float("inf"), -float("inf")):
        return "INFINITY" if x > 0 else "(-INFINITY)"
    return f"({x!r}{end})"


def _call(name: str) -> Expression:
    return lambda x: f"std::{name}({x})"


def _binary(sign: str) -> Expression:
    return lambda a, b: f"({a} {sign} {b})"


def _added(sign: str) -> Expression:
    """With the factor of the second operand, which is a number."""

    def both(a: str, b: str, alpha: str) -> str:
        return f"({a} {sign} {b})" if alpha in _ONES else f"({a} {sign} {alpha} * {b})"

    return both


_ONES = ("INT64_C(1)", "(1.0)", "(1.0f)")


def _reversed(a: str, b: str, alpha: str) -> str:
    return _added("-")(b, a, alpha)


def _along(a: str, x: str, y: str, value: str) -> str:
    return f"({a} + {x} * {y})" if value in _ONES else f"({a} + {value} * {x} * {y})"


def _divided(a: str, x: str, y: str, value: str) -> str:
    return f"({a} + {value} * {x} / {y})"


def _between(a: str, b: str, w: str) -> str:
    """As PyTorch does: exact at both ends."""
    return f"({w} < 0.5f ? {a} + {w} * ({b} - {a}) : {b} - ({b} - {a}) * (1 - {w}))"


def _power(x: str, p: str) -> str:
    known = {
        "1.0": x,
        "2.0": f"({x} * {x})",
        "3.0": f"({x} * {x} * {x})",
        "0.5": f"std::sqrt({x})",
        "-1.0": f"(1 / {x})",
    }
    return known.get(p.strip("()f"), f"std::pow({x}, {p})")


def _bounded(x: str, low: str | None, high: str | None) -> str:
    """What is not a number stays what it is."""
    if low is not None:
        x = f"({x} < {low} ? {low} : {x})"
    if high is not None:
        x = f"({x} > {high} ? {high} : {x})"
    return x


def _threshold_backward(g: str, x: str, at: str) -> str:
    return f"({x} <= {at} ? 0 : {g})"


def _leaky(x: str, slope: str) -> str:
    return f"({x} > 0 ? {x} : {slope} * {x})"


def _leaky_backward(g: str, x: str, slope: str, _: str) -> str:
    return f"({x} > 0 ? {g} : {slope} * {g})"


def _sigmoid(x: str) -> str:
    return f"(1 / (1 + std::exp(-{x})))"


def _softplus(x: str, beta: str, limit: str) -> str:
    return f"({x} * {beta} > {limit} ? {x} : std::log1p(std::exp({x} * {beta})) / {beta})"


def _softplus_backward(g: str, x: str, beta: str, limit: str) -> str:
    e = f"std::exp({x} * {beta})"
    return f"({x} * {beta} > {limit} ? {g} : {g} * {e} / ({e} + 1))"


def _same(x: str, *_: Any) -> str:
    return x


# Operands are converted to the type of the result first,
ARITHMETIC: dict[Any, Expression] = {
    ATEN.add.Tensor: _added("+"),
    ATEN.add.Scalar: _added("+"),
    ATEN.sub.Tensor: _added("-"),
    ATEN.sub.Scalar: _added("-"),
    ATEN.rsub.Scalar: _reversed,
    ATEN.rsub.Tensor: _reversed,
    ATEN.mul.Tensor: _binary("*"),
    ATEN.mul.Scalar: _binary("*"),
    ATEN.div.Tensor: _binary("/"),
    ATEN.div.Scalar: _binary("/"),
    ATEN.neg.default: lambda x: f"(-{x})",
    ATEN.abs.default: _call("abs"),
    ATEN.sqrt.default: _call("sqrt"),
    ATEN.rsqrt.default: lambda x: f"(1 / std::sqrt({x}))",
    ATEN.reciprocal.default: lambda x: f"(1 / {x})",
    ATEN.exp.default: _call("exp"),
    ATEN.log.default: _call("log"),
    ATEN.log1p.default: _call("log1p"),
    ATEN.sin.default: _call("sin"),
    ATEN.cos.default: _call("cos"),
    ATEN.tanh.default: _call("tanh"),
    ATEN.sigmoid.default: _sigmoid,
    ATEN.tanh_backward.default: lambda g, y: f"({g} * (1 - {y} * {y}))",
    ATEN.sigmoid_backward.default: lambda g, y: f"({g} * (1 - {y}) * {y})",
    ATEN.softplus.default: _softplus,
    ATEN.softplus_backward.default: _softplus_backward,
    ATEN.relu.default: lambda x: _bounded(x, "0", None),
    ATEN.clamp.default: _bounded,
    ATEN.clamp_min.default: lambda x, low: _bounded(x, low, None),
    ATEN.clamp_max.default: lambda x, high: _bounded(x, None, high),
    ATEN.threshold_backward.default: _threshold_backward,
    ATEN.leaky_relu.default: _leaky,
    ATEN.leaky_relu_backward.default: _leaky_backward,
    ATEN.addcmul.default: _along,
    ATEN.addcdiv.default: _divided,
    ATEN.lerp.Tensor: _between,
    ATEN.lerp.Scalar: _between,
    ATEN.pow.Tensor_Scalar: _power,
    ATEN.pow.Scalar: lambda x, p: f"std::pow({x}, {p})",
    ATEN.bitwise_and.Tensor: _binary("&"),
    ATEN.bitwise_and.Scalar: _binary("&"),
    ATEN.bitwise_or.Tensor: _binary("|"),
    ATEN.bitwise_xor.Tensor: _binary("^"),
    ATEN.bitwise_xor.Scalar: _binary("^"),
    ATEN.__rshift__.Scalar: _binary(">>"),
    ATEN.clone.default: _same,
    ATEN._to_copy.default: _same,
}
# or, of comparisons, to what both of them become.
COMPARISON: dict[Any, Expression] = {
    ATEN.eq.Tensor: _binary("=="),
    ATEN.eq.Scalar: _binary("=="),
    ATEN.ne.Tensor: _binary("!="),
    ATEN.ne.Scalar: _binary("!="),
    ATEN.lt.Tensor: _binary("<"),
    ATEN.lt.Scalar: _binary("<"),
    ATEN.le.Tensor: _binary("<="),
    ATEN.le.Scalar: _binary("<="),
    ATEN.gt.Tensor: _binary(">"),
    ATEN.gt.Scalar: _binary(">"),
    ATEN.ge.Tensor: _binary(">="),
    ATEN.ge.Scalar: _binary(">="),
}
# Filled with one number: (which argument it is), or the number itself.
FILLED: dict[Any, Callable[[dict[str, Any]], Any]] = {
    ATEN.full.default: lambda a: a["fill_value"],
    ATEN.full_like.default: lambda a: a["fill_value"],
    ATEN.fill.Scalar: lambda a: a["value"],
    ATEN.scalar_tensor.default: lambda a: a["s"],
    ATEN.zeros_like.default: lambda a: 0,
    ATEN.ones_like.default: lambda a: 1,
    ATEN.new_zeros.default: lambda a: 0,
    ATEN.zeros.default: lambda a: 0,
    ATEN.ones.default: lambda a: 1,
    ATEN.empty_like.default: lambda a: 0,
}
