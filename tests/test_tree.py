"""Arithmetic on nested collections of tensors."""

from collections import OrderedDict
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from unalike import tree


class Pair(NamedTuple):
    """A record with a dict in it."""

    x: dict[str, Tensor]
    n: Tensor


def pair(a: float = 1.0, b: float = 2.0) -> Pair:
    """A small tree."""
    w, n = torch.tensor([a, b], dtype=torch.float32), torch.tensor(b, dtype=torch.float32)
    return Pair({"w": w, "b": w[0]}, n)


def test_vector_space() -> None:
    """Leaf by leaf, and the structure stays."""
    a, b = pair(1, 2), pair(3, 5)
    for got, want in (
        (tree.add(a, b), (4, 7)),
        (tree.sub(b, a), (2, 3)),
        (tree.scale(2.0, a), (2, 4)),
        (tree.lerp(a, b, 0.5), (2, 3.5)),
        (tree.lerp(a, b, torch.tensor(0.0)), (1, 2)),
        (tree.zeros(a), (0, 0)),
    ):
        assert isinstance(got, Pair)
        assert got.x["w"].tolist() == list(want)
        assert float(got.n) == want[1]


def test_inner_product_and_length() -> None:
    """Of all leaves as one vector; of nothing it is zero."""
    assert float(tree.dot(pair(1, 2), pair(3, 5))) == 3 + 10 + 3 + 10
    assert float(tree.sqnorm(pair(1, 2))) == 1 + 4 + 1 + 4
    assert float(tree.sqnorm({})) == 0
    assert float(tree.sqnorm(())) == 0


def test_choosing_by_a_condition() -> None:
    """The whole tree, not entries of it; what is not chosen may be undefined."""
    broken = tree.scale(torch.nan, pair())
    got = tree.where(torch.tensor(False), broken, pair())
    assert got.x["w"].tolist() == [1, 2]
    assert torch.isnan(tree.where(torch.tensor(True), broken, pair()).n)


def test_weighted_mean_over_clients() -> None:
    """Weights need not sum to one; scalars per client work like tensors."""
    stacked = tree.stack([pair(1, 2), pair(3, 6)])
    assert stacked.x["w"].shape == (2, 2)
    assert stacked.n.shape == (2,)
    got = tree.mean(torch.tensor([0.5, 1.0], dtype=torch.float64), stacked)
    assert got.x["w"].tolist() == [3.5, 7]
    assert float(got.n) == 7
    assert got.n.dtype == torch.float32


def test_rows() -> None:
    """One client, or several by a mask or by numbers."""
    stacked = tree.stack([pair(float(i), 0.0) for i in range(4)])
    assert float(tree.row(stacked, 2).x["b"]) == 2
    mask = torch.tensor([True, False, False, True])
    assert tree.row(stacked, mask).x["b"].tolist() == [0, 3]
    assert tree.row(stacked, torch.tensor([3, 1])).x["b"].tolist() == [3, 1]


def test_names_and_back() -> None:
    """Every leaf has its own name, and a tree of the same structure takes them back."""
    flat = tree.named(pair())
    assert len(flat) == len(set(flat)) == 3
    back = tree.restore(flat, pair(0, 0))
    assert isinstance(back, Pair)
    assert back.x["w"].tolist() == [1, 2]
    with pytest.raises(KeyError):
        tree.restore({}, pair())


def test_bytes() -> None:
    """Four for each single-precision number, eight for a double."""
    assert tree.size_bytes(pair()) == 16
    assert tree.size_bytes({"w": torch.zeros(3, dtype=torch.float64)}) == 24
    assert tree.size_bytes(()) == 0


def test_splitting_by_name() -> None:
    """By a rule or by a list; the order of the rest stays."""
    w = {"a.w": torch.ones(1), "b.w": torch.ones(1), "a.b": torch.ones(1)}
    yes, no = tree.split(w, lambda n: n.startswith("a."))
    assert list(yes) == ["a.w", "a.b"]
    assert list(no) == ["b.w"]
    assert list(tree.split(w, ["b.w"])[0]) == ["b.w"]


def test_leaves_of_dicts_in_another_order_meet_by_name() -> None:
    """Two states may hold the same names in different orders."""
    a = {"u": torch.tensor(1.0), "v": torch.tensor(10.0)}
    b = {"v": torch.tensor(20.0), "u": torch.tensor(2.0)}
    assert {k: float(v) for k, v in tree.add(a, b).items()} == {"u": 3.0, "v": 30.0}


def test_moving_to_a_device_keeps_the_structure() -> None:
    """The only device every machine has."""
    assert isinstance(tree.to(pair(), "cpu"), Pair)


def test_numbers_on_the_host_stay_what_they_are():
    """By way of another device, where there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    t = {"a": torch.arange(3), "b": torch.tensor([0.1, -torch.inf, torch.nan]), "c": torch.eye(2)}
    found = tree.on_host(tree.to(t, device))
    for k, x in t.items():
        torch.testing.assert_close(found[k], x, rtol=0, atol=0, equal_nan=True)


def test_lengths_are_those_of_exact_sums() -> None:
    """To the digits of single precision; what overflows there is measured in double."""
    some = {"a": torch.randn(4, 30, 5), "b": torch.randn(4)}
    some["a"][2] = 1e30
    some["b"][3] = torch.nan
    found = tree.lengths(some)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found[:2], tree.sqnorms(some)[:2].sqrt(), rtol=1e-5, atol=0)
    assert float(found[2]) == pytest.approx(1e30 * 150**0.5)
    assert torch.isnan(found[3])


def test_the_gradient_of_a_squared_cosine() -> None:
    """As differentiation finds it, alone and for many at once, also of one that is zero."""
    draw = torch.Generator().manual_seed(0)
    a, b = ({k: torch.randn(4, 3, generator=draw).double() for k in "uv"} for _ in range(2))
    a["u"][0] = a["v"][0] = 0

    def plain(a: tree.Params, b: tree.Params) -> torch.Tensor:
        x, y = (torch.cat([t["u"], t["v"]]) for t in (a, b))
        return (x @ y) ** 2 / ((x @ x) * (y @ y)).clamp(min=1e-12)

    each = {f: torch.func.grad(f, argnums=(0, 1)) for f in (plain, tree.cos2)}
    wanted, found = (torch.func.vmap(f)(a, b) for f in each.values())
    torch.testing.assert_close(found, wanted)
    alone = each[tree.cos2](tree.row(a, 1), tree.row(b, 1))
    torch.testing.assert_close(alone, tree.map(lambda x: x[1], wanted))


def test_any_tree_is_gone_through_as_pytorch_does() -> None:
    """What is not made of dicts, lists and records is left to it."""
    x = torch.ones(2)
    whole = {"b": Pair({"w": x}, x + 1), "a": [x, (None, "text", 3)], "none": {}}
    odd = {**whole, "ordered": OrderedDict(q=x + 2), "empty": (), "deep": [Pair({}, x)]}
    assert [id(v) for v in tree.leaves(odd)] == [id(v) for v in pytree.tree_leaves(odd)]

    def doubled(v: object) -> object:
        return 2 * v if isinstance(v, Tensor) else v

    got, want = tree.map(doubled, odd), pytree.tree_map(doubled, odd)
    assert pytree.tree_structure(got) == pytree.tree_structure(want)
    for a, b in zip(tree.leaves(got), tree.leaves(want), strict=True):
        assert torch.equal(a, b) if isinstance(a, Tensor) else a == b
    with pytest.raises(ValueError, match=r"(?i)key|match"):
        tree.map(torch.add, {"a": x}, {"b": x})
    with pytest.raises(ValueError, match=r"(?i)type|match|node"):
        tree.map(torch.add, pair(), {"a": x})
