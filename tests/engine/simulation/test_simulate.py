"""The engine changes how clients are computed, never what they compute."""

import numpy as np
import pytest
import torch
from federations import (
    Data,
    composed,
    conv,
    distance,
    federation,
    kept_by,
    network_task,
    play,
    same,
    sampled,
    state_of,
)

from unalike import tree
from unalike.network import Network
from unalike.parts.mixing.questions import LabelCounts, Size
from unalike.tasks import MultiClass

HALF = sampled(0.5, 1.5)


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "superfed_mm", "fedaug", "aaggff_d"])
def test_two_workers_compute_what_one_computes(name: str) -> None:
    """Bit for bit: modules are not shared between threads, and answers keep their order."""
    task, data = network_task("conv", tracked=name != "superfed_mm")
    recipe = composed(task, data, name, **sampled(1.0))
    one, two = (play(recipe, data, 2, engine="sequential", workers=w) for w in (1, 2))
    assert same(one.states[-1], two.states[-1])
    assert same(kept_by(one.simulation), kept_by(two.simulation))
    assert torch.equal(one.rounds[-1].weights, two.rounds[-1].weights)


def test_many_threads_on_one_network() -> None:
    """Twenty clients on four threads, many times: a torn parameter would show."""
    task = MultiClass(Network(conv()))
    data = federation(sizes=[6] * 20)
    recipe = composed(task, data, "fedavg")
    runs = [play(recipe, data, 2, engine="sequential", workers=4).x for _ in range(3)]
    alone = play(recipe, data, 2, engine="sequential").x
    assert all(same(alone, r) for r in runs)


@pytest.mark.parametrize("name", ["fedavg", "aaggff_d", "superfed_mm", "phase_shift"])
def test_the_size_of_chunks_does_not_matter(name: str) -> None:
    """One client in a call, two, or all."""
    task, data = network_task("conv", torch.float64, tracked=name != "superfed_mm")
    recipe = composed(task, data, name, **sampled(1.0))
    runs = [play(recipe, data, 2, chunk=c, batch_size=12) for c in (1, 2, 64)]
    for other in runs[1:]:
        assert distance(runs[0].states[-1].servers, other.states[-1].servers) < 1e-9
        assert torch.equal(runs[0].rounds[-1].ids, other.rounds[-1].ids)


def test_chunks_save_padding() -> None:
    """Clients of like size share a call."""
    task, _ = network_task("dense")
    data = federation(sizes=[2] * 60 + [200])
    worked = play(composed(task, data, "fedavg"), data, 1, batch_size=2).rounds[0].worked
    assert worked["samples"] == 320
    assert worked["padding"] < 0.2


def test_answers_come_in_the_order_of_the_plan() -> None:
    """Whatever the order they were computed in."""
    task, _ = network_task("dense")
    data = federation(sizes=(40, 5, 30, 9))
    played = play(composed(task, data, "fedavg"), data, 1)
    assert played.rounds[0].ids.tolist() == [0, 1, 2, 3]
    assert torch.allclose(played.rounds[0].weights, torch.tensor([40, 5, 30, 9]) / 84)


def test_running_statistics_are_averaged_like_weights() -> None:
    """By size, whatever the number of steps behind them."""
    task, data = network_task("conv")
    shared = play(composed(task, data, "fedavg"), data, 1)
    alone = play(composed(task, data, "local_only"), data, 1)
    n = torch.from_numpy(data.rows.sizes).float()
    each = tree.stack([state_of(alone.simulation, i) for i in range(6)])
    mean = tree.mean(n / n.sum(), each)
    assert task.network.buffers
    for name in (*task.network.buffers, *task.network.weights):
        assert torch.allclose(shared.x[name], mean[name], atol=1e-5)


def test_weights_that_do_not_sum_to_one_leave_statistics_alone() -> None:
    """FedNova moves weights further than the mean; a mean of variances stays a mean."""
    task, data = network_task("conv")
    nova = play(composed(task, data, "fednova"), data, 1)
    alone = play(composed(task, data, "local_only"), data, 1).simulation
    p = nova.rounds[0].weights
    assert float(p.sum()) > 1.1
    mean = tree.mean(p / p.sum(), tree.stack([state_of(alone, i) for i in range(6)]))
    for name in task.network.buffers:
        assert torch.allclose(nova.x[name], mean[name], atol=1e-6)


def test_a_survey_asks_for_training_labels_only() -> None:
    """One row per client, in order."""
    task, data = network_task("dense")
    simulation = play(composed(task, data, "fedavg"), data, 0).simulation
    found = simulation.survey((Size(), LabelCounts()))
    assert found["size"][:, 0].tolist() == data.rows.sizes.tolist()
    for i in range(6):
        want = np.bincount(data.examples.strata[data.rows.of(i)], minlength=3)
        assert found["label_counts"][i].tolist() == want.tolist()


def test_what_a_client_keeps_is_its_own() -> None:
    """A copy: a cohort's stacked states would keep the whole cohort alive."""
    task, data = network_task("dense")
    played = play(composed(task, data, ("superfed_mm", {"start": 0.0}), **HALF), data, 1)
    for kept in kept_by(played.simulation).values():
        for leaf in tree.leaves(kept):
            assert leaf.untyped_storage().nbytes() == leaf.numel() * leaf.element_size()


def test_a_client_starts_with_the_same_state_whenever_it_first_comes() -> None:
    """It depends on the seed and the client, not on the round."""
    task, data = network_task("dense")
    recipe = composed(task, data, ("superfed_mm", {"start": 1.0}), **HALF)
    early = play(recipe, data, 0).simulation
    late = play(recipe, data, 3).simulation
    assert all(same(state_of(early, i), state_of(late, i)) for i in range(6))


def test_an_unequal_federation_of_one_example_clients() -> None:
    """The smallest clients there can be."""
    task, _ = network_task("dense")
    data: Data = federation(sizes=(1, 1, 1, 50))
    a, b = (
        play(composed(task, data, "fedavg"), data, 3, engine=e).x
        for e in ("sequential", "vectorized")
    )
    assert distance(a, b) < 1e-5
