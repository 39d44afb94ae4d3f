"""Arithmetic on pytrees of tensors. Every function is pure and safe under vmap."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree  # private in PyTorch, so wrapped here and nowhere else

Params = dict[str, Tensor]
Tree = Any


def map(f: Callable[..., Any], *trees: Tree) -> Tree:
    """``f`` of corresponding leaves.

    By recursion over the usual containers: PyTorch's generic way takes longer than a round of a
    small model.
    """
    first, *rest = trees
    kind = type(first)
    if kind is dict and all(type(t) is dict and t.keys() == first.keys() for t in rest):
        return {k: map(f, v, *[t[k] for t in rest]) for k, v in first.items()}
    if _fields(kind) and all(type(t) is kind for t in rest):
        return kind(*[map(f, *parts) for parts in zip(*trees, strict=True)])
    if isinstance(first, Tensor):
        return f(*trees)
    return pytree.tree_map(f, *trees)


_fields: Callable[[Any], bool] = cache(pytree.is_namedtuple_class)


def leaves(t: Tree, whole: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves in a fixed order; a part that is ``whole`` counts as one."""
    if whole is not None:
        return pytree.tree_leaves(t, whole)
    found = list[Any]()
    _collect(t, found)
    return found


def _collect(t: Tree, found: list[Any]) -> None:
    kind = type(t)
    if isinstance(t, Tensor):
        found.append(t)
    elif kind is dict:
        for part in t.values():
            _collect(part, found)
    elif kind is tuple or kind is list or _fields(kind):
        for part in t:
            _collect(part, found)
    else:
        found += pytree.tree_leaves(t)


def structure(t: Tree) -> Any:
    """What a tree is like without its leaves; can be compared and looked up."""
    return pytree.tree_structure(t)


def build(leaves: list[Any], structure: Any) -> Tree:
    """The tree of these leaves."""
    return pytree.tree_unflatten(leaves, structure)


def leaves_as(t: Tree, structure: Any) -> list[Any]:
    """The leaves in the order of a structure, which a dict may have in another."""
    found: list[Any] = structure.flatten_up_to(t)
    return found


def flatten(t: Tree) -> tuple[list[Any], Any]:
    """(the leaves in a fixed order, the structure around them)."""
    return pytree.tree_flatten(t)


def unflatten(leaves: Iterable[Any], structure: Any) -> Tree:
    """The inverse of ``flatten``."""
    return pytree.tree_unflatten(leaves, structure)


def named(t: Tree, whole: Callable[[Any], bool] | None = None) -> dict[str, Any]:
    """The leaves by path: what travels on a wire or lies in a file; a ``whole`` part is one."""
    return {pytree.keystr(path): leaf for path, leaf in pytree.tree_leaves_with_path(t, whole)}


def restore(flat: dict[str, Tensor], like: Tree) -> Tree:
    """The inverse of ``named``, given a tree of the same structure."""
    paths, spec = pytree.tree_flatten_with_path(like)
    return pytree.tree_unflatten([flat[pytree.keystr(path)] for path, _ in paths], spec)


def add(a: Tree, b: Tree) -> Tree:
    """The sum a + b."""
    return map(torch.add, a, b)


def sub(a: Tree, b: Tree) -> Tree:
    """The difference a - b."""
    return map(torch.sub, a, b)


def scale(c: float | Tensor, a: Tree) -> Tree:
    """The multiple c a."""
    return map(lambda x: c * x, a)


def lerp(a: Tree, b: Tree, c: float | Tensor) -> Tree:
    """The point (1 - c) a + c b."""
    if isinstance(c, Tensor):
        return map(lambda x, y: torch.lerp(x, y.to(x), c.to(x)), a, b)
    return map(lambda x, y: torch.lerp(x, y, c), a, b)


def zeros(a: Tree) -> Tree:
    """A tree of zeros of the same shapes."""
    return map(torch.zeros_like, a)


def dot(a: Tree, b: Tree) -> Tensor:
    """The inner product of all leaves seen as one vector."""
    return torch.stack(leaves(map(lambda x, y: (x * y).sum(), a, b))).sum()


def sqnorm(a: Tree) -> Tensor:
    """The squared length of all leaves seen as one vector."""
    squares = [x.square().sum() for x in leaves(a)]
    return torch.stack(squares).sum() if squares else torch.zeros(())


def norms(a: Tree) -> Tensor:
    """The sum of the lengths of the leaves; one of zeros has no slope, where a root has none."""
    squares = [x.square().sum() for x in leaves(a)]
    roots = [torch.where(s > 0, s, 1.0).sqrt() * (s > 0) for s in squares]
    return torch.stack(roots).sum() if roots else torch.zeros(())


def cos2(a: Tree, b: Tree) -> Tensor:
    """The squared cosine between two trees seen as vectors."""
    found: Tensor = _Cos2.apply(*leaves(a), *leaves(b))[0]
    return found


class _Cos2(torch.autograd.Function):
    """The value c^2 / (A B) with c = a . b, A = a . a, B = b . b, and its gradient.

    That is 2 c/(A B) b - 2 c^2/(A^2 B) a for a, and likewise for b. Differentiation would go over
    all leaves twice as often.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(*both: Tensor) -> tuple[Tensor, ...]:
        """(the value, what b counts for a and a for b, what a counts for a, and b for b)."""
        a, b = both[: len(both) // 2], both[len(both) // 2 :]
        c, of_a, of_b = dot(a, b), sqnorm(a), sqnorm(b)
        ratio = c / (of_a * of_b).clamp(min=1e-12)
        return c * ratio, 2 * ratio, -2 * ratio * (ratio * of_b), -2 * ratio * (ratio * of_a)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        """Both trees, and what the gradient is made of."""
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs, *output[1:])

    @staticmethod
    def backward(ctx: Any, slope: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        """The gradients of all leaves."""
        *both, across, of_a, of_b = ctx.saved_tensors
        across, of_a, of_b = slope * across, slope * of_a, slope * of_b
        pairs = list(zip(both[: len(both) // 2], both[len(both) // 2 :], strict=True))
        first = (torch.addcmul(of_a * x, y, across) for x, y in pairs)
        return *first, *(torch.addcmul(of_b * y, x, across) for x, y in pairs)


def where(condition: Tensor, a: Tree, b: Tree) -> Tree:
    """``a`` where the condition holds, else ``b``."""
    return map(lambda x, y: torch.where(condition, x, y), a, b)


def mean(p: Tensor, stacked: Tree) -> Tree:
    """The sum over k of p_k x_k along the leading (client) axis."""
    return map(lambda x: weighted(p, x), stacked)


def weighted(p: Tensor, x: Tensor) -> Tensor:
    """The same of one leaf: ``torch.tensordot``, without what it thinks about first."""
    return (p.to(x)[None] @ x.reshape(len(x), -1)).view(x.shape[1:])


def gram(stacked: Tree) -> Tensor:
    """Inner products of all pairs of clients, [n, n] in double precision on the CPU."""
    flat = [x.reshape(len(x), -1).double() for x in leaves(stacked)]
    return torch.stack([x @ x.T for x in flat]).sum(0).cpu()


def sqnorms(stacked: Tree) -> Tensor:
    """The squared length of every client's part, [n] in double precision on the CPU.

    A few rows at a time: all of them in double precision would be twice the uploads themselves, and
    on a CPU what stays in its caches takes a tenth of the time. A GPU squares while it adds up.
    """

    def of(x: Tensor) -> Tensor:
        flat, cpu = x.reshape(len(x), -1), x.device.type == "cpu"
        rows = flat.split(max(1, (1 << (18 if cpu else 27)) // max(flat.shape[1], 1)))
        if cpu:
            return torch.cat([part.double().square().sum(1) for part in rows])
        wide = torch.float64
        parts = [torch.linalg.vector_norm(part, dim=1, dtype=wide) for part in rows]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    found = torch.stack([of(x) for x in leaves(stacked)])
    return (found if found.device.type == "cpu" else found.square()).sum(0).cpu()


def lengths(stacked: Tree) -> Tensor:
    """The length of every client's part, [n] in double precision on the CPU.

    In the precision of the leaves, which is several times faster than ``sqnorms`` and tells short
    from long; only what overflows is measured again.
    """
    return sure(rough(stacked).cpu(), stacked)


def rough(stacked: Tree) -> Tensor:
    """The same where the leaves are, and what overflows is not finite."""
    rows = [x.reshape(len(x), -1) for x in leaves(stacked)]
    each = torch.stack([torch.linalg.vector_norm(x, dim=1) for x in rows]).double()
    return torch.linalg.vector_norm(each, dim=0)


def sure(found: Tensor, stacked: Tree) -> Tensor:
    """Rough lengths, of which those that are not finite are measured again."""
    again = ~torch.isfinite(found)
    if again.any():
        rows = [x.reshape(len(x), -1) for x in leaves(stacked)]
        found[again] = sqnorms([x[again.to(x.device)] for x in rows]).sqrt()
    return found


def row(stacked: Tree, i: int | Tensor) -> Tree:
    """One client of a stacked tree, or several if ``i`` is a mask or an index vector."""
    return map(lambda x: x[i.to(x.device) if isinstance(i, Tensor) else i], stacked)


def neighbours(at: Tensor) -> slice | None:
    """Row numbers as a slice, if one follows on the other: then nothing need be copied."""
    first = int(at[0]) if len(at) else 0
    return slice(first, first + len(at)) if bool((at.diff() == 1).all()) else None


def rows(stacked: Tree, at: Tensor) -> Tree:
    """Several clients of a stacked tree, by their row numbers; views if they are neighbours."""
    near = neighbours(at)
    return row(stacked, at) if near is None else map(lambda x: x[near], stacked)


def stack(trees: list[Tree]) -> Tree:
    """One tree with a leading client axis."""
    return map(lambda *xs: torch.stack(xs), *trees)


def on_host(t: Tree) -> Tree:
    """The tree on the CPU; numbers of one shape come over together, since every copy is a wait."""
    alike: dict[Any, list[Tensor]] = {}
    for x in leaves(t):
        alike.setdefault((x.shape, x.device), []).append(x)
    found: dict[int, Tensor] = {}
    for (_, device), several in alike.items():
        if device.type == "cpu":
            found |= {id(x): x for x in several}
            continue
        both = torch.stack([x.double() for x in several]).cpu()
        found |= {id(x): row.to(x.dtype) for x, row in zip(several, both, strict=True)}
    return map(lambda x: found[id(x)], t)


def to(t: Tree, device: torch.device | str) -> Tree:
    """The tree on another device."""
    return map(lambda x: x.to(device), t)


def size_bytes(t: Tree) -> int:
    """How many bytes the leaves hold."""
    return sum(x.numel() * x.element_size() for x in leaves(t))


def split(w: Params, names: Callable[[str], bool] | Iterable[str]) -> tuple[Params, Params]:
    """(the named leaves, the rest)."""
    chosen = names if callable(names) else set(names).__contains__
    yes = {k: v for k, v in w.items() if chosen(k)}
    return yes, {k: v for k, v in w.items() if k not in yes}
