"""Randomness in named streams: changing one thing moves nothing else."""

from itertools import chain
from typing import Any

import pytest
import torch
from federations import (
    Data,
    Named,
    composed,
    conv,
    federation,
    kept_by,
    network_task,
    play,
    same,
    sampled,
)
from torch import Tensor, nn

from unalike import rng
from unalike.algorithms.table import METHODS
from unalike.batches import Batches
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.schedule import Participation, Sampled
from unalike.tasks import MultiClass, Task

HALF = sampled(0.5)


class Diary(Batches):
    """Minibatches that write down which rows were seen."""

    pages: list[list[int]] = []  # one diary for all

    def batch(self, t: int) -> Any:
        """As always, but on record."""
        made = super().batch(t)
        if self.extent.rows and self.transform is None:
            Diary.pages.append(self.draw.row[t][: self.extent.rows[t]].tolist())
        return made


def history(
    monkeypatch: pytest.MonkeyPatch, task: Task, data: Data, *methods: Named, **options: Any
) -> tuple[list[list[int]], list[list[int]]]:
    """(cohorts, rows of all minibatches in order) of a run, client by client."""
    parts = {**HALF, **options.pop("parts", {})}
    monkeypatch.setattr("unalike.engine.client.round.Batches", Diary)
    Diary.pages = []
    played = play(composed(task, data, *methods, **parts), data, 2, engine="sequential", **options)
    assert Diary.pages, "nobody kept the diary"
    return [r.ids.tolist() for r in played.rounds], list(Diary.pages)


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> tuple[list[list[int]], list[list[int]]]:
    """FedAvg's cohorts and minibatches."""
    return history(monkeypatch, *network_task("dense"), "fedavg")


LIKE_FEDAVG = ["fedprox", "scaffold", "superfed_mm", "fedadam", "lg_fedavg", "fednova", "fedep"]


@pytest.mark.parametrize("name", LIKE_FEDAVG)
def test_the_method_changes_neither_cohorts_nor_minibatches(
    name: str, base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So methods are compared on the same luck."""
    assert history(monkeypatch, *network_task("dense"), name) == base


# One client, a queue, an autoencoder, everybody: these cannot have the plan of the others.
OWN_PLAN = {"pooled", "phase_shift", "latent_disco", "aaggff_s"}
OWN_PLAN |= {"by_size", "power_of_choice", "tifl", "fedbuff"}  # and those that choose clients


@pytest.mark.parametrize("name", sorted(METHODS.keys() - OWN_PLAN))
def test_no_method_changes_cohorts(name: str) -> None:
    """The plan is made before the method is asked."""
    task, data = network_task("normed")
    settings: Any = {
        "trimmed_mean": {"trim": 0.34},
        "krum": {"attackers": 0},
        "dp": {"delta": 0.01},
        "local_dp": {"delta": 0.01},
    }.get(name, {})
    recipe = composed(task, data, (name, settings), **HALF)
    want = Sampled(Participation(0.5))
    key = rng.stream(0, "cohort")
    for t in range(5):
        assert torch.equal(
            recipe.schedule.plan(t, range(5), 6, key).ids, want.plan(t, range(5), 6, key).ids
        )


def test_the_model_changes_no_minibatch(base: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout draws from a stream of its own."""
    data = network_task("dense")[1]
    for module in (conv(), nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 3))):
        assert history(monkeypatch, MultiClass(Network(module)), data, "fedavg") == base


def test_the_learning_rate_and_the_server_change_no_minibatch(
    base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the past enters a draw."""
    parts = {"opt": Sgd(0.7, 0.9)}
    assert history(monkeypatch, *network_task("dense"), "fedyogi", parts=parts) == base


def test_the_batch_size_changes_neither_cohort_nor_order(
    base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows in the same order, cut elsewhere."""
    cohorts, batches = history(monkeypatch, *network_task("dense"), "fedavg", batch_size=3)
    assert cohorts == base[0]
    assert batches != base[1]
    assert list(chain(*batches)) == list(chain(*base[1]))


def test_the_number_of_epochs_changes_no_cohort_and_no_first_pass(
    base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More work goes on where less had stopped."""
    cohorts, batches = history(
        monkeypatch, *network_task("dense"), "fedavg", parts=sampled(0.5, 2.0)
    )
    assert cohorts == base[0]
    first = base[1][0]
    assert batches[0] == first
    assert sum(len(b) for b in batches) == 2 * sum(len(b) for b in base[1])


def test_the_seed_changes_all_of_it(base: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cohorts and minibatches."""
    cohorts, batches = history(monkeypatch, *network_task("dense"), "fedavg", seed=1)
    assert cohorts != base[0]
    assert batches != base[1]


def test_every_round_has_an_order_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows, differently shuffled."""
    task, data = network_task("dense")
    _, batches = history(monkeypatch, task, data, "fedavg", parts=sampled(1.0))
    first, second = batches[: len(batches) // 2], batches[len(batches) // 2 :]
    assert first != second
    assert sorted(chain(*first)) == sorted(chain(*second)) == list(range(120))


def test_a_client_draws_the_same_in_another_cohort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody in round 0: those of the half see what they saw in the half."""
    task, data = network_task("dense")
    _, half = history(monkeypatch, task, data, "fedavg")
    _, everybody = history(monkeypatch, task, data, "fedavg", parts=sampled(1.0))
    ids = (
        composed(task, data, "fedavg", **HALF)
        .schedule.plan(0, range(2), 6, rng.stream(0, "cohort"))
        .ids
    )
    steps = sum(-(-len(data.rows.of(int(i))) // 8) for i in ids)
    for batch in half[:steps]:
        assert batch in everybody


def test_cohorts_are_fair_and_fresh() -> None:
    """Over many rounds everybody comes equally often, and rounds do not repeat."""
    schedule, key = Sampled(Participation(0.3)), rng.stream(5, "cohort")
    plans = [schedule.plan(t, range(10**6), 10, key).ids for t in range(2000)]
    counts = torch.bincount(torch.cat(plans))
    assert counts.min() > 520
    assert counts.max() < 680
    assert len({tuple(p.tolist()) for p in plans}) == 120  # all of 10 choose 3


def noise_of(task: Task, x: Tensor, key: Tensor) -> Tensor:
    """Which entries dropout kept."""
    out, _ = task.network.train(task.network.given(), x, key, torch.ones(len(x), dtype=torch.bool))
    return out


def test_dropout_layers_draw_apart() -> None:
    """Two layers in one step, one layer in two steps, two rows of one batch."""
    net = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    task = MultiClass(Network(net))
    x = torch.ones(4, 5000)
    kept = noise_of(task, x, rng.key(0)) != 0
    assert float(kept.float().mean()) == pytest.approx(0.25, abs=0.02)
    again = noise_of(task, x, rng.key(1)) != 0
    assert float((kept == again).float().mean()) == pytest.approx(0.25**2 + 0.75**2, abs=0.02)
    assert not torch.equal(kept[0], kept[1])


def test_dropout_never_meets_a_methods_own_draws() -> None:
    """A third dropout layer and SuPerFed's lambda come from different keys."""
    key = rng.fold_in(rng.key(3), -1)  # any step's key
    own = {int(rng.fold_in(key, i)) for i in range(50)}
    layers = {int(rng.fold_in(rng.fold_in(key, 0), i)) for i in range(50)}
    assert not own & layers


def test_global_generators_are_left_alone() -> None:
    """Neither read nor advanced."""
    task, data = network_task("conv")
    torch.manual_seed(1)
    before = torch.get_rng_state()
    recipe = composed(task, data, ("fedaug", {"target": 0.1}), **HALF)
    first = play(recipe, data, 1).x
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert same(first, play(recipe, data, 1).x)


def test_a_run_can_be_repeated() -> None:
    """All of it, bit for bit, on either engine."""
    task, data = network_task("conv", tracked=False)
    recipe = composed(task, data, ("superfed_mm", {"start": 0.0}), **HALF)
    for engine in ("sequential", "vectorized"):
        a, b = (play(recipe, data, 2, engine=engine) for _ in range(2))
        assert same(a.states[-1], b.states[-1])
        assert same(kept_by(a.simulation), kept_by(b.simulation))


def test_federations_differ_only_where_they_should() -> None:
    """The helper itself: sizes and labels as asked for."""
    data = federation(sizes=(3, 4))
    assert data.rows.sizes.tolist() == [3, 4]
    assert int(data.examples.y.max()) < 3
