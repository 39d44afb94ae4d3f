"""Servers hear their neighbours: the same as a product with the matrix of weights."""

from typing import Any

import pytest
import torch
from federations import composed, federation, network_task, play

from unalike import tree
from unalike.engine.graph import combine as summing
from unalike.engine.graph.combine import _by_columns, _by_rank, combine
from unalike.parts.topology import Ring


def graph(n: int, degree: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random edges, their weights, and the matrix they stand for; server 2 hears nobody."""
    g = torch.Generator().manual_seed(degree)
    matrix = torch.eye(n, dtype=torch.float64)
    edges, weights = [], []
    for j in range(n):
        if j == 2:
            continue
        heard = torch.randperm(n, generator=g)[:degree].sort().values
        w = torch.rand(degree, generator=g, dtype=torch.float64)
        matrix[j] = 0
        matrix[j, heard] = w
        edges += [[j, int(i)] for i in heard]
        weights.append(w)
    return torch.tensor(edges), torch.cat(weights), matrix


@pytest.mark.parametrize("degree", [1, 3, 12])
def test_a_matrix_product(degree: int) -> None:
    edges, weights, matrix = graph(12, degree)
    x = {"w": torch.rand(12, 3, 2, dtype=torch.float64), "b": torch.rand(12, dtype=torch.float64)}
    given = {k: v.clone() for k, v in x.items()}
    for name, v in combine(given, edges, weights).items():
        torch.testing.assert_close(v, torch.tensordot(matrix, x[name], dims=1))


def test_the_ways_agree() -> None:
    edges, weights, matrix = graph(9, 2)
    v = torch.rand(9, 5, dtype=torch.float64)
    for way in (_by_columns, _by_rank):
        torch.testing.assert_close(way(v.clone(), edges, weights), matrix @ v)


def test_more_columns_than_are_summed_at_a_time() -> None:
    edges, weights, matrix = graph(9, 2)
    for v in (torch.rand(9, 50, 61).double(), torch.rand(50, 61, 9).double().permute(2, 0, 1)):
        torch.testing.assert_close(
            _by_columns(v.clone(), edges, weights), torch.tensordot(matrix, v, dims=1)
        )


@pytest.mark.parametrize(
    "method", ["scaffold", "fedadam", "fedproto", "lg_fedavg", "superfed_mm", "aaggff_s", "fedep"]
)
def test_methods_do_not_tell_the_ways_apart(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few links models are summed where they are, with many as a matrix product."""
    task, _ = network_task("dense", torch.float64)
    data = federation(sizes=[3 + i % 4 for i in range(14)], dtype=torch.float64)

    def run(dense: int) -> dict[str, Any]:
        monkeypatch.setattr(summing, "DENSE", dense)
        played = play(composed(task, data, method, topology=Ring()), data, 3)
        return tree.named(played.states[-1].stack)

    few, many = run(0), run(1000)
    for name, v in few.items():
        torch.testing.assert_close(v, many[name])
