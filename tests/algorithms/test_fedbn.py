"""FedBN: normalisation layers are everybody's own, everything else is FedAvg."""

from typing import Any

import pytest
import torch
from federations import Named, Played, composed, network_task, play, same, sampled, state_of

from unalike import tree
from unalike.algorithms.buffers import LocalBuffers
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import compose
from unalike.algorithms.table import METHODS
from unalike.errors import ConfigError

NORM = {"1.weight", "1.bias", "1.running_mean", "1.running_var"}


def run(*methods: Named, rounds: int = 3, **parts: Any) -> Played:
    task, data = network_task("conv")
    recipe = composed(task, data, *methods, **{**sampled(0.5, 1.5), **parts})
    return play(recipe, data, rounds, engine="sequential", batch_size=16, traced=False)


def test_scale_shift_and_statistics_stay() -> None:
    played = run("fedbn")
    assert set(played.x) == {"0.weight", "0.bias", "6.weight", "6.bias"}
    for mine in played.kept[-1].values():
        assert set(mine) == NORM
    size = tree.size_bytes(played.x)
    assert played.rounds[0].traffic.up == 3 * (size + 8)
    assert played.rounds[0].traffic.down == 3 * size


def test_the_first_round_is_fedavgs() -> None:
    """All begin alike: the shared leaves are the same bit for bit, the others are not averaged."""
    one, other = run("fedbn", rounds=1), run("fedavg", rounds=1)
    assert all(torch.equal(one.x[k], other.x[k]) for k in one.x)
    own = [one.kept[0][int(i)] for i in one.rounds[0].ids]
    _, data = network_task("conv")
    sizes = torch.tensor([float(len(data.rows.of(int(i)))) for i in one.rounds[0].ids])
    p = sizes / sizes.sum()
    for k in NORM:
        assert not torch.equal(own[0][k], own[1][k])
        mean = sum(share * o[k] for share, o in zip(p, own, strict=True))
        torch.testing.assert_close(mean, other.x[k])
    two, other = run("fedbn"), run("fedavg")
    assert not all(torch.equal(two.x[k], other.x[k]) for k in two.x)


def test_private_statistics_are_a_part_of_it() -> None:
    """Beside run.buffers = 'local' it is the same."""
    task, data = network_task("conv")
    draft = Draft(task, data.n_clients, 3, (1, 4, 4), 3)
    plain = compose(draft, [("fedbn", METHODS["fedbn"]())], "star")
    both = [("fedbn", METHODS["fedbn"]()), ("buffers", LocalBuffers())]
    for order in (both, both[::-1]):
        assert compose(draft, order, "star") == plain


def test_absent_clients_keep_theirs() -> None:
    played = run("fedbn")
    present = set(played.rounds[2].ids.tolist())
    for i, mine in played.kept[1].items():
        assert same(mine, state_of(played.simulation, i)) == (i not in present)


def test_networks_without_such_layers() -> None:
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match="the model has none; choose a model that has them"):
        composed(task, data, "fedbn")


@pytest.mark.parametrize("other", ["lg_fedavg", "local_only"])
def test_where_they_are_private_already(other: str) -> None:
    task, data = network_task("conv")
    for pair in (("fedbn", other), (other, "fedbn")):
        with pytest.raises(ConfigError, match="has nothing to do"):
            composed(task, data, *pair)
