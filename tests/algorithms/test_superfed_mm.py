"""SuPerFed-MM on a model of two weights: <w, x> fitted to y by 1/2 (<w, x> - y)^2.

x = (1, 2), y = 1.5; w_f = (1, -0.5), w_l = (0.2, 0.8), x = (0.9, -0.4), lambda = 0.3, mu = 0.01,
nu = 2.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from federations import (
    Handmade,
    Linear,
    composed,
    distance,
    kept_by,
    network_task,
    play,
    same,
    sampled,
    state_of,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unalike import rng, tree
from unalike.algorithm import Ctx
from unalike.algorithms.fedavg import Down, FedAvg, Up
from unalike.algorithms.superfed import Ends, SuPerFed
from unalike.batches import Batch, Batches
from unalike.cohort import Cohort
from unalike.parts.descent import Descent, Given, Step, begin
from unalike.parts.optim import Adam, Optimizer, Sgd
from unalike.recipe import Recipe
from unalike.tree import Params
from unalike.uploads import Stacked


def vector(*values: float) -> dict[str, Tensor]:
    """A model of two weights."""
    return {"w": torch.tensor(values, dtype=torch.float64)}


W_F, W_L, X = vector(1.0, -0.5), vector(0.2, 0.8), vector(0.9, -0.4)


class FromHere:
    """Local data that puts the two ends where the oracle has them, then takes one step."""

    def fold(self, step: Callable[..., Any], carry: Any, given: Any) -> Any:
        """One step from (w_f, w_l)."""
        row = torch.tensor([[1.0, 2.0, 1.5]], dtype=torch.float64)
        batch = Batch(row, torch.zeros(1), torch.ones(1, dtype=torch.bool), rng.key(0))
        return step(carry._replace(theta=Ends(W_F, W_L)), batch, given)


def step(
    monkeypatch: pytest.MonkeyPatch, opt: Sgd, round_: int = 5, **settings: Any
) -> tuple[list[float], list[float]]:
    """Where both ends are after one step in a round; mixing starts in round 2."""
    fixed = torch.tensor([0.3])
    monkeypatch.setattr("unalike.algorithms.superfed.rng.uniform", lambda key, n: fixed)
    method = SuPerFed(FedAvg(Linear(), opt), start=2, **{"mu": 0.01, "nu": 2.0, **settings})
    one = torch.tensor(1.0)
    ctx = Ctx(torch.tensor(round_), rng.key(0), one, torch.tensor(0), one > 0, one)
    up, _, kept = method.client(Down(X, ()), W_L, FromHere(), ctx)
    return (up.delta["w"] + X["w"]).tolist(), kept["w"].tolist()


def gradient(new: list[float], old: dict[str, Tensor]) -> list[float]:
    """What a plain step of rate 1 subtracted."""
    return (old["w"] - torch.tensor(new)).tolist()


def test_gradients_of_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """One backward pass through the mixed model, the pull and the angle."""
    f, l = step(monkeypatch, Sgd(1.0))
    assert gradient(f, W_F) == pytest.approx((-1.009824, -2.022647), abs=2e-6)
    assert gradient(l, W_L) == pytest.approx((-1.284540, -0.326865), abs=2e-6)


def test_step_with_momentum_and_weight_decay(monkeypatch: pytest.MonkeyPatch) -> None:
    """One optimizer for both ends."""
    f, l = step(monkeypatch, Sgd(0.01, 0.9, 1e-4))
    assert f == pytest.approx((1.010097, -0.479773), abs=1e-6)
    assert l == pytest.approx((0.212845, 0.803268), abs=1e-6)


@pytest.mark.parametrize(
    ("mixing", "value"),
    [
        (1.0, 0.4608 + 0.0001 + 2 * 0.047059),  # at (0.76, -0.11), 0.02 from x, cos = -0.216930
        (0.0, 1.125 + 0.0001),  # at w_f, and no angle
    ],
)
def test_value(monkeypatch: pytest.MonkeyPatch, mixing: float, value: float) -> None:
    """Loss, pull and angle."""
    fixed = torch.tensor([0.3], dtype=torch.float64)
    monkeypatch.setattr("unalike.algorithms.superfed.rng.uniform", lambda key, n: fixed)
    row = torch.tensor([[1.0, 2.0, 1.5]], dtype=torch.float64)
    batch = Batch(row, torch.zeros(1), torch.ones(1, dtype=torch.bool), rng.key(0))
    method = SuPerFed(FedAvg(Linear(), Sgd(1.0)), mu=0.01, nu=2.0)
    found, _ = method.objective(Ends(W_F, W_L), {}, batch, (X, torch.tensor(mixing)))
    assert float(found) == pytest.approx(value, abs=1e-6)


def test_before_the_start_only_the_federated_end_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """lambda = 0 and no angle; weight decay does not touch the frozen end either."""
    f, l = step(monkeypatch, Sgd(1.0), round_=1)
    assert gradient(f, W_F) == pytest.approx((-1.499, -3.001), abs=2e-6)
    assert l == W_L["w"].tolist()
    _, l = step(monkeypatch, Sgd(1.0, 0.9, 0.1), round_=1)
    assert l == W_L["w"].tolist()


def test_the_pull_has_the_factor_one_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """mu ||w_f - x||^2 without it would give (-1.008824, -2.023647)."""
    f, _ = step(monkeypatch, Sgd(1.0))
    assert gradient(f, W_F) != pytest.approx((-1.008824, -2.023647), abs=1e-4)


def test_the_pull_of_the_authors_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """mu ||w_f - x||; their 1e-6 in every product of the cosine is not here, hence five digits."""
    f, l = step(monkeypatch, Sgd(1.0), pull="lengths")
    assert gradient(f, W_F) == pytest.approx((-1.003748, -2.028712), abs=1e-5)
    assert gradient(l, W_L) == pytest.approx((-1.284529, -0.326865), abs=2e-5)


def test_engines_agree_on_the_lengths() -> None:
    """On a network of which every leaf has a gradient."""
    task, data = network_task("dense", torch.float64)
    made = composed(task, data, ("superfed_mm", {"start": 0.0, "pull": "lengths", "mu": 0.5}))
    one, many = (play(made, data, 3, engine=e) for e in ("sequential", "vectorized"))
    other = play(composed(task, data, ("superfed_mm", {"start": 0.0, "mu": 0.5})), data, 3)
    assert distance(one.x, many.x) < 1e-9
    assert distance(one.x, other.x) > 1e-4


def test_lengths_of_leaves_are_summed_and_nothing_has_no_slope() -> None:
    """3-4-5, and a leaf that has not moved."""
    a = {k: torch.tensor(v, requires_grad=True) for k, v in {"a": [3.0, 4.0], "b": [0.0]}.items()}
    found = tree.norms(a)
    by_a, by_b = torch.autograd.grad(found, list(a.values()))
    assert float(found.detach()) == 5.0
    assert by_a.tolist() == pytest.approx([0.6, 0.8])
    assert by_b.tolist() == [0.0]


def slopes(a: list[float], b: list[float]) -> tuple[float, Tensor, Tensor]:
    """cos^2 of two vectors and its gradient for each."""
    f, l = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (a, b))
    value = tree.cos2({"w": f}, {"w": l})
    return (float(value.detach()), *torch.autograd.grad(value, (f, l)))


def test_cosine() -> None:
    """And its gradients."""
    value, by_f, by_l = slopes([1.0, -0.5], [0.2, 0.8])
    assert value == pytest.approx(0.047059, abs=1e-6)
    assert by_f.tolist() == pytest.approx((-0.169412, -0.338824), abs=1e-6)
    assert by_l.tolist() == pytest.approx((-0.498270, 0.124567), abs=1e-6)


numbers = st.lists(st.floats(-3, 3, allow_subnormal=False), min_size=3, max_size=3).filter(
    lambda v: sum(x * x for x in v) > 1e-4
)


@given(numbers, numbers)
def test_the_angle_does_not_depend_on_the_lengths(a: list[float], b: list[float]) -> None:
    """So its gradient is at right angles to either end."""
    _, by_f, by_l = slopes(a, b)
    assert float(torch.tensor(a, dtype=torch.float64) @ by_f) == pytest.approx(0, abs=1e-9)
    assert float(torch.tensor(b, dtype=torch.float64) @ by_l) == pytest.approx(0, abs=1e-9)


def test_right_angles_are_a_resting_point_and_so_are_equal_ends() -> None:
    """Hence the local end must not start as a copy of the federated one."""
    for b in ([0.0, 2.0], [3.0, 0.0]):
        _, by_f, by_l = slopes([1.0, 0.0], b)
        assert max(*by_f.abs(), *by_l.abs()) < 1e-15


def test_a_zero_end_has_a_finite_angle() -> None:
    """A freshly zeroed model must not make the loss undefined."""
    _, by_f, by_l = slopes([0.0, 0.0], [1.0, 0.0])
    assert torch.isfinite(by_f).all()
    assert torch.isfinite(by_l).all()


def test_aggregation_by_size() -> None:
    """n = 30, 10, 60."""
    method = SuPerFed(FedAvg(Handmade()))
    state = method.server_init(vector(0.0, 0.0), rng.key(0))
    ends = torch.tensor([[1, -0.5], [0.4, 0.2], [0.7, -0.1]], dtype=torch.float64)
    n = torch.tensor([30.0, 10, 60])
    cohort = Cohort(0, torch.arange(3), {"examples": n}, {}, torch.arange(3), rng.key(0))
    new = method.server(state, Stacked(Up({"w": ends})), n / n.sum(), cohort)
    assert new.x["w"].tolist() == pytest.approx((0.76, -0.19), abs=1e-6)


def test_every_client_starts_with_a_model_of_its_own() -> None:
    """Independent of the global one and of each other, the same in every run."""
    task, data = network_task("dense")
    recipe = composed(task, data, "superfed_mm")
    a, b = (play(recipe, data, 1).simulation for _ in range(2))
    fresh = play(recipe, data, 0).simulation
    locals_ = [state_of(fresh, i)["features.1.weight"] for i in range(6)]
    start = task.init(rng.key(7))["features.1.weight"]
    for i, one in enumerate(locals_):
        assert not any(torch.equal(one, other) for other in (*locals_[:i], start))
        cosine = float((one * start).sum() / one.norm() / start.norm())
        assert abs(cosine) < 0.5
    assert same(kept_by(a), kept_by(b))


def test_the_local_end_never_leaves_and_absent_clients_keep_theirs() -> None:
    """The payload is one model each way."""
    task, data = network_task("still")
    recipe = composed(task, data, ("superfed_mm", {"start": 0.0}), **sampled(0.5))
    played = play(recipe, data, 3)
    size = tree.size_bytes(task.init(rng.key(7)))
    assert played.rounds[0].traffic.down == 3 * size
    assert played.rounds[0].traffic.up == 3 * (size + 8)
    for t in (1, 2):
        present = set(played.rounds[t].ids.tolist())
        for i, kept in played.kept[t - 1].items():
            assert same(kept, played.kept[t][i]) == (i not in present)


@pytest.mark.parametrize(("share", "rounds", "first"), [(0.4, 5, 2), (0.29, 100, 29), (1.0, 4, 4)])
def test_start_is_a_share_of_the_rounds(share: float, rounds: int, first: int) -> None:
    """floor(L T), safe from binary fractions."""
    task, data = network_task("dense")
    recipe = composed(task, data, ("superfed_mm", {"start": share}), rounds=rounds)
    assert recipe.algorithm.start == first


def test_judged_at_a_point_of_the_line() -> None:
    """0 is the shared model, 1 the client's own."""
    task, data = network_task("still")
    for point in (0.0, 0.25, 1.0):
        recipe = Recipe(SuPerFed(FedAvg(task, Sgd(0.05)), at=point))
        played = play(recipe, data, 1)
        down, mine = (
            tree.row(played.loop.downs(played.states[-1]), 0),
            state_of(played.simulation, 2),
        )
        judged = recipe.algorithm.personal(down, mine)
        x, buffers = task.split(down.x)
        want = {k: (1 - point) * x[k] + point * mine[k] for k in x}
        assert distance({**want, **buffers}, judged) < 1e-6


def test_weights_by_loss_see_the_received_model() -> None:
    """Not the point of the line that the client is judged by, half of which never was sent."""
    task, data = network_task("dense")
    recipe = composed(task, data, "superfed_mm", "term", **sampled(1.0))
    played = play(recipe, data, 1)
    x, y = data.examples.x, data.examples.y
    rows = [data.rows.of(i) for i in range(data.n_clients)]
    w = played.states[0].servers[0].x
    F = torch.stack([task.per_example(task.logits(w, x[r]), y[r]).mean() for r in rows]).double()
    sizes = torch.tensor([float(len(r)) for r in rows])
    tilt = recipe.mixing.tilt  # type: ignore[attr-defined]
    want = sizes * torch.exp(tilt * F)
    assert torch.allclose(played.rounds[0].weights.double(), want / want.sum(), atol=1e-6)


def test_mixing_moves_the_local_end() -> None:
    """From the start round on, and not before."""
    task, data = network_task("dense")
    played = play(composed(task, data, ("superfed_mm", {"start": 0.5})), data, 4)
    fresh = play(played.simulation.recipe, data, 0).simulation
    assert same(played.kept[1], {i: state_of(fresh, i) for i in range(6)})
    assert not same(played.kept[2], played.kept[1])


class Freezing(SuPerFed):
    """Puts the local end back after every single step while nothing is mixed."""

    def client(
        self, down: Down, mine: Any, data: Batches, ctx: Ctx, start: Params | None = None
    ) -> Any:
        """The long way."""
        x, buffers = self.task.split(down.x)
        mixing = (ctx.round >= self.start).float()
        step = Step(self.objective, self.base.opt)

        def frozen(at: Descent, batch: Batch, given: Given) -> Descent:
            new = step(at, batch, given)
            l = tree.where(mixing > 0, new.theta.l, at.theta.l)
            return new._replace(theta=Ends(new.theta.f, l))

        ends = Ends(x, mine)
        first = Descent(ends, buffers, begin(self.base.opt, ends))
        end = data.fold(frozen, first, Given(ctx.rate, (), (x, mixing)))
        return Up(tree.sub({**end.theta.f, **end.buffers}, down.x)), {}, end.theta.l


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
@pytest.mark.parametrize("opt", [Sgd(0.05, 0.9, 0.1, nesterov=True), Adam(0.01, weight_decay=0.1)])
def test_discarding_the_local_end_is_freezing_it(opt: Optimizer, engine: Any) -> None:
    """Bit for bit, before and after mixing begins: weight decay on it moves nothing else."""
    task, data = network_task("conv")
    one, two = (
        play(Recipe(kind(FedAvg(task, opt), start=2)), data, 3, engine=engine)
        for kind in (SuPerFed, Freezing)
    )
    assert same(one.states[-1].servers, two.states[-1].servers)
    for a, b in zip(one.kept, two.kept, strict=True):
        assert same(a, b)
