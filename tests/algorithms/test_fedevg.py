"""FedEvg: the server's Langevin step on the clients' energies, its step size, and the client."""

import math
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from federations import cohort, composed, distance, federation, kept_by, network_task, play, same
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from unalike import rng, tree
from unalike.algorithms.fedevg import FedEvg
from unalike.engine.simulate import Simulation
from unalike.errors import ConfigError
from unalike.federation.data import TEST
from unalike.gradient import gradient
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts import langevin
from unalike.parts.energy import Energy
from unalike.parts.langevin import Langevin, Up, cosine_step
from unalike.parts.optim import Sgd
from unalike.parts.schedule import Plan
from unalike.parts.synthetic import Synthetic
from unalike.recipe import Recipe
from unalike.run.build import experiment
from unalike.run.config import parse
from unalike.tasks import Binary, MultiClass, Task
from unalike.uploads import Stacked, Summed

# One synthetic example (0.4, 0.7) of the second class, two linear clients, sizes 0.6 : 0.4.
POINT = Synthetic(torch.tensor([[0.4, 0.7]], dtype=torch.float64), torch.tensor([1]))
CLIENTS = [
    ([[0.5, -1.0], [1.0, 0.25]], [0.1, -0.2]),
    ([[-0.3, 0.8], [-0.6, 0.4]], [0.0, -0.25]),
]
SIZES = torch.tensor([0.6, 0.4], dtype=torch.float64)


def linear_task(features: int = 2, classes: int = 2) -> Task:
    """Logits that are a linear function of the features."""
    return MultiClass(Network(nn.Linear(features, classes).double()))


def method(beta: float = 0.1, **settings: object) -> FedEvg:
    """A server with a constant step size."""
    settings = {"step_first": beta, "step_last": beta, "noise": 0.0, **settings}
    return made(linear_task(), 2, 10, **settings)


def made(
    task: MultiClass, classes: int, rounds: int, shape: tuple[int, ...] = (2,), **settings: Any
) -> FedEvg:
    """The method with some settings of either half."""

    def taken(record: type) -> dict[str, Any]:
        return {f.name: settings.pop(f.name) for f in fields(record) if f.name in settings}

    energy, walk = Energy(task, **taken(Energy)), Langevin(rounds, **taken(Langevin))
    return FedEvg(task, energy, walk, shape, classes, **settings)


def sent(evg: FedEvg) -> Up:
    """What the two clients' models say about the example."""
    slopes, says = [], []
    for weight, b in CLIENTS:
        w = {"weight": torch.tensor(weight).double(), "bias": torch.tensor(b).double()}
        slope, _ = gradient(lambda x, w=w: (evg.energy(w, x, POINT.y).sum(), ()), POINT.x)
        says.append(torch.exp(torch.sign(-evg.energy(w, POINT.x, POINT.y))))
        slopes.append(slope * says[-1][:, None])
    return Up(torch.stack(slopes), torch.stack(says))


def moved(evg: FedEvg, ups: Up, p: Tensor = SIZES) -> list[float]:
    """The synthetic example after a round."""
    return evg.server(POINT, Stacked(ups), p, cohort([6, 4])).x[0].tolist()


def test_energy_is_the_negative_logit_of_the_label() -> None:
    """And its gradient, and the signed factors."""
    ups = sent(method())
    slopes = (ups.gradient / ups.weight[..., None])[:, 0].tolist()
    assert slopes == [pytest.approx([-1, -0.25]), pytest.approx([0.6, -0.4])]
    assert ups.weight[:, 0].tolist() == pytest.approx([math.e, 1 / math.e])


def test_server_step() -> None:
    """Gradient (-0.867589, -0.262414): neither the true mixture's nor the plain average's."""
    evg = method(0.1)
    assert moved(evg, sent(evg)) == pytest.approx((0.486759, 0.726241), abs=1e-6)
    assert moved(evg, sent(evg)) != pytest.approx((0.456669, 0.729062), abs=1e-3)  # of densities


def densities(evg: FedEvg) -> Up:
    """What the same clients send for a mixture of densities: slopes, and logits of the label."""
    signed = sent(evg)
    slopes = signed.gradient / signed.weight[..., None]
    return Up(slopes, torch.tensor([[0.375], [-0.21]], dtype=torch.float64))


def test_server_step_on_the_mixture_of_densities() -> None:
    """Factors (1.454991, 0.810584), gradient (-0.566688, -0.290623): that of -log sum p exp(-E)."""
    evg = method(0.1, mixture="density")
    assert moved(evg, densities(evg)) == pytest.approx((0.456669, 0.729062), abs=1e-6)
    assert moved(evg, densities(evg), 7 * SIZES) == pytest.approx((0.456669, 0.729062), abs=1e-6)


def test_energies_without_bounds_do_not_overflow() -> None:
    """exp(5000) is no number; the client that is so sure decides alone."""
    evg = method(0.1, mixture="density")
    ups = densities(evg)
    for dtype in (torch.float32, torch.float64):
        sure = Up(ups.gradient.to(dtype), torch.tensor([[5000.0], [-5000.0]], dtype=dtype))
        assert moved(evg, sure) == pytest.approx((0.5, 0.725), abs=1e-6)


def test_equal_energies_give_the_plain_average() -> None:
    """Both mixtures: gradient (-0.36, -0.31)."""
    slopes, one = densities(method()).gradient, torch.ones(2, 1, dtype=torch.float64)
    for mixture in ("signed", "density"):
        got = moved(method(0.1, mixture=mixture), Up(slopes, one))
        assert got == pytest.approx((0.436, 0.731), abs=1e-9)


def test_clients_send_what_the_mixture_needs() -> None:
    """Slope and -E as they are, where the signed mixture has both times a factor."""
    task = linear_task(2, 3)
    signed, density = (
        one_client(made(task, 3, 4, opt=Sgd(0.5), per_class=4, mixture=m))
        for m in ("signed", "density")
    )
    assert torch.allclose(density.gradient * signed.weight[:, None], signed.gradient)
    assert torch.allclose(torch.exp(torch.sign(density.weight)), signed.weight)
    assert len(density.weight.unique()) > 3


SWITCHES: list[dict[str, Any]] = [
    {"mixture": "density"},
    {"energy": "marginal"},
    {"chain_start": "data"},
    {"chain_start": "noise"},
    {"ce_on": "updated"},
    {"judge": "own"},
]


@pytest.mark.parametrize("switch", SWITCHES, ids=str)
def test_switches_on_both_engines(switch: dict[str, Any]) -> None:
    """The same set and the same kept models, also from short batches; and not the default's."""
    settings = {"per_class": 4, "step_first": 1.0, "mixture": "signed"}
    task, data = network_task("dense")

    def after(engine: Any, **more: Any) -> Any:
        recipe = composed(task, data, ("fedevg", {**settings, **more}))
        return play(recipe, data, 2, engine=engine)

    one, other = (after(engine, **switch) for engine in ("sequential", "vectorized"))
    assert distance(one.server.x, other.server.x) < 1e-4
    kept = [kept_by(played.simulation) for played in (one, other)]
    assert all(distance(kept[0][i], kept[1][i]) < 1e-3 for i in kept[0] if kept[0][i])
    changed = distance(one.server.x, after("sequential").server.x)
    assert (changed > 1e-6) == (switch != {"judge": "own"})


def test_a_batch_that_no_chain_updates_is_refused() -> None:
    raw = {"method": {"name": "fedevg", "chain_start": "data", "ce_on": "updated"}}
    with pytest.raises(ConfigError, match='ce_on belongs to chain_start = "persistent"'):
        parse({**raw, "data": {"name": "digits"}})


@pytest.mark.parametrize(
    ("beta", "expected"),
    [(0.1, (0.491759, 0.716241)), (0.01, (0.413676, 0.692624)), (10.0, (9.080890, 3.314135))],
)
def test_server_step_with_noise(
    beta: float, expected: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.01 times (0.5, -1)."""
    evg = method(beta, noise=0.01, clip_pixels=False)
    ups = sent(evg)
    noise = torch.tensor([[0.5, -1.0]], dtype=torch.float64)
    monkeypatch.setattr(langevin.rng, "normal", lambda key, *shape: noise)
    assert moved(evg, ups) == pytest.approx(expected, abs=5e-6)


def test_sums_that_are_made_as_answers_come_are_enough() -> None:
    """Everything in an upload is linear for the server."""
    evg, u = method(1.0, clip_pixels=False), torch.tensor([3.0, 2.0], dtype=torch.float64)
    ups = sent(evg)
    summed = Summed(tree.mean(u, ups), u)
    got = evg.server(POINT, summed, u / 5, cohort([6, 4])).x[0].tolist()
    assert got == pytest.approx(moved(evg, ups, u / 5), abs=1e-12)


def test_pixels_are_clipped() -> None:
    """A step of size 10 leaves the unit square at once."""
    assert moved(method(10.0), sent(method())) == [1.0, 1.0]


def test_a_logit_of_exactly_zero_counts_once() -> None:
    """sign 0, factor 1: gradient (-0.684880, -0.279543)."""
    evg = method(1.0, clip_pixels=False)
    both, says = sent(evg), torch.tensor([[math.e], [1.0]], dtype=torch.float64)
    undecided = Up(both.gradient / both.weight[..., None] * says[..., None], says)
    x = moved(evg, undecided)
    assert (0.4 - x[0], 0.7 - x[1]) == pytest.approx((-0.684880, -0.279543), abs=1e-6)


def uploads(simulation: Simulation, plan: Plan, down: Synthetic) -> Up:
    """What all clients send in round 0, stacked."""
    home = torch.zeros(len(plan.ids), dtype=torch.long)
    (part,) = simulation.train(0, plan, tree.map(lambda x: x[None], down), home)
    return part.wire  # type: ignore[no-any-return]


def test_factors_depend_on_the_sign_of_the_logit_alone() -> None:
    """e, 1 and 1/e."""
    task = linear_task(2, 3)
    evg = made(task, 3, 4, opt=Sgd(0.0), per_class=1)
    data, start = federation((2,), (8,), dtype=torch.float64), {"w": torch.zeros(1).double()}
    simulation = play(Recipe(evg), data, 0, start).simulation
    plan = Recipe(evg).schedule.plan(0, range(1), 1, rng.key(0))
    key = rng.client(rng.stream(0, "noise"), 0, torch.tensor(0))
    weight = task.init(rng.fold_in(key, 7))["weight"]  # biases start at zero
    x = torch.stack([100 * weight[0], 0 * weight[1], -0.001 * weight[2]])
    down = Synthetic(x, torch.arange(3))
    ups = uploads(simulation, plan, down)
    assert ups.weight[0].tolist() == pytest.approx([math.e, 1.0, 1 / math.e])


T500 = {
    0: (9.999127, 9.999213),
    1: (9.998933, 9.999038),
    50: (9.989326, 9.990383),
    125: (9.973442, 9.976074),
    250: (9.936951, 9.943199),
    375: (9.848809, 9.863792),
    450: (9.607477, 9.646376),
    490: (8.102398, 8.290449),
    497: (4.450072, 5.000065),
    498: (2.507524, 3.250022),
    499: (0.010000, 1.000000),
}
T10 = {0: 9.721206, 1: 9.245819, 2: 8.757284, 5: 6.904264, 7: 4.635388, 8: 2.569145, 9: 0.01}


def test_step_sizes() -> None:
    """Almost constant, then a collapse; not a half cosine."""
    for t, (to_hundredth, to_one) in T500.items():
        assert cosine_step(t, 500, 10, 0.01) == pytest.approx(to_hundredth, abs=1e-6)
        assert cosine_step(t, 500, 10, 1) == pytest.approx(to_one, abs=1e-6)
    for t, beta in T10.items():
        assert cosine_step(t, 10, 10, 0.01) == pytest.approx(beta, abs=1e-6)
    assert cosine_step(250, 500, 10, 0.01) != pytest.approx(4.989276, abs=1)


@given(st.integers(1, 400))
def test_the_last_step_is_exact(rounds: int) -> None:
    """Also for a single round; and the sizes only fall."""
    sizes = [cosine_step(t, rounds, 10, 0.01) for t in range(rounds)]
    assert sizes[-1] == pytest.approx(0.01, abs=1e-12)
    assert all(a >= b for a, b in pairwise(sizes))


def test_identical_clients_give_their_own_gradient() -> None:
    """And scaling all sizes changes nothing."""
    evg = method(1.0, clip_pixels=False)
    one = sent(evg)
    twice = tree.map(lambda v: v[:1].expand(2, *v.shape[1:]), one)
    assert moved(evg, twice) == pytest.approx([0.4 + 1.0, 0.7 + 0.25])
    assert moved(evg, one, 7 * SIZES) == pytest.approx(moved(evg, one))


@pytest.mark.parametrize(
    ("shape", "classes", "floats"),
    [
        ((1, 32, 32), 10, 102_400),  # MNIST
        ((3, 32, 32), 10, 307_200),  # CIFAR-10
        ((1, 64, 64), 11, 450_560),  # OrganCMNIST
        ((3, 64, 64), 7, 860_160),  # DermaMNIST
    ],
)
def test_what_travels_on_published_data(shape: tuple[int, ...], classes: int, floats: int) -> None:
    """Ten examples of each class down, their slopes and one number each up, and no weight."""
    evg = FedEvg(
        linear_task(2, classes), Energy(linear_task(2, classes)), Langevin(4), shape, classes
    )
    server = evg.server_init({"weight": torch.zeros(1)}, rng.key(0))
    up = evg.upload_like(evg.broadcast(server))
    assert server.x.numel() == floats
    assert sum(leaf.numel() for leaf in tree.leaves(up)) == floats + 10 * classes


def test_labels_are_balanced_and_never_change() -> None:
    """And what travels is M (D + 1) numbers up, M D and the labels down."""
    task, data = network_task("dense")
    recipe = composed(task, data, ("fedevg", {"per_class": 4}))
    played = play(recipe, data, 2)
    first, last = played.states[0].servers[0], played.server
    assert torch.equal(first.y, last.y)
    assert torch.bincount(last.y).tolist() == [4, 4, 4]
    assert played.rounds[0].traffic.up == 6 * (12 * (16 + 1) * 4 + 8)
    assert played.rounds[0].traffic.down == 6 * 12 * (16 * 4 + 8)
    assert float(last.x.min()) >= 0
    assert float(last.x.max()) <= 1
    assert abs(float(first.x.mean())) < 0.3
    assert float(first.x.std()) == pytest.approx(1, abs=0.3)
    assert all(kept == () for kept in kept_by(played.simulation).values())


def test_a_client_that_does_not_learn_reports_its_fresh_model() -> None:
    """Rate 0: the upload is sign and clipped slope of the model drawn from its key."""
    data = federation((2,), (8,), dtype=torch.float64)
    evg = made(linear_task(2, 3), 3, 4, opt=Sgd(0.0), per_class=2, clip_gradient=0.2)
    played = play(Recipe(evg), data, 0, {"w": torch.zeros(1, dtype=torch.float64)})
    start = played.states[0].servers[0]
    plan = Recipe(evg).schedule.plan(0, range(1), 1, rng.key(0))
    ups = uploads(played.simulation, plan, start)
    key = rng.client(rng.stream(0, "noise"), 0, torch.tensor(0))
    w = evg.energy.task.init(rng.fold_in(key, 7))
    want = (-w["weight"][start.y]).clamp(-0.2, 0.2)
    logit = (start.x @ w["weight"].T + w["bias"]).gather(1, start.y[:, None])[:, 0]
    assert torch.allclose(ups.weight[0], torch.exp(torch.sign(logit)))
    assert torch.allclose(ups.gradient[0], want * ups.weight[0][:, None])


def one_client(evg: FedEvg, batch_size: int = 8) -> Up:
    """A single client's upload in round 0."""
    data = federation((2,), (8,), dtype=torch.float64)
    played = play(Recipe(evg), data, 0, {"w": torch.zeros(1).double()}, batch_size=batch_size)
    plan = Recipe(evg).schedule.plan(0, range(1), 1, rng.key(0))
    return tree.row(uploads(played.simulation, plan, played.states[0].servers[0]), 0)


@pytest.mark.parametrize("chain", [0, 2])
def test_the_local_objective_by_hand(chain: int) -> None:
    """One step of rate 1 on all data: energies of real and refined, two cross-entropies.

    The refined examples went down their energy, by clipped slopes, before the step; the second
    cross-entropy is that of the downloaded ones.
    """
    task = linear_task(2, 3)
    settings = {"chain": chain, "chain_step": 0.5, "chain_noise": 0.0, "synthetic_ce": 0.5}
    evg = made(task, 3, 4, opt=Sgd(1.0), per_class=4, clip_pixels=False, **settings)
    data = federation((2,), (8,), dtype=torch.float64)
    root = rng.fold_in(rng.stream(0, "server"), 0)
    synthetic = evg.server_init({"w": torch.zeros(1).double()}, root)
    key = rng.client(rng.stream(0, "noise"), 0, torch.tensor(0))
    start = {k: v.clone().requires_grad_() for k, v in task.init(rng.fold_in(key, 7)).items()}
    step_key = rng.fold_in(rng.fold_in(key, -1), 0)
    chosen = rng.permutation(rng.fold_in(step_key, 2), 12)[:8]
    x, y = data.examples.x, data.examples.y
    old, label = synthetic.x[chosen], synthetic.y[chosen]
    refined = old + chain * 0.5 * start["weight"].detach()[label].clamp(-3, 3)

    def logits(v: Tensor) -> Tensor:
        return v @ start["weight"].T + start["bias"]

    loss = -logits(x).gather(1, y[:, None]).mean()
    loss = loss + logits(refined).gather(1, label[:, None]).mean()
    loss = loss + nn.functional.cross_entropy(logits(x), y)
    loss = loss + 0.5 * nn.functional.cross_entropy(logits(old), label)
    slope = torch.autograd.grad(loss, start["weight"])[0]
    want = -(start["weight"].detach() - slope)[synthetic.y]
    up = one_client(evg)
    assert torch.allclose(up.gradient / up.weight[:, None], want.clamp(-3, 3), atol=1e-6)


def test_the_chain_refines_towards_lower_energy() -> None:
    """gamma = sigma = 0 is no chain at all; a real one changes the upload."""
    task = linear_task(2, 3)

    def up(**settings: object) -> Up:
        evg = made(task, 3, 4, opt=Sgd(0.5), per_class=4, **settings)
        return one_client(evg, batch_size=3)

    still = up(chain=3, chain_step=0.0, chain_noise=0.0)
    assert same(still, up(chain=0))
    assert distance(still, up(chain=1, chain_step=1.0, chain_noise=0.0)) > 1e-3


def test_the_judge_learns_the_synthetic_set() -> None:
    """A fresh classifier for evaluation, the same every time it is asked for."""
    task = linear_task(2, 2)
    x = torch.tensor([[0.0, 20.0], [2.0, 18.0], [20.0, 0.0], [18.0, 4.0]], dtype=torch.float64)
    y = torch.tensor([0, 0, 1, 1])

    def loss(epochs: int) -> float:
        w = made(task, 2, 4, judge_epochs=epochs).model(Synthetic(x, y), rng.key(3))
        assert w is not None
        return float(nn.functional.cross_entropy(task.logits(w, x), y))

    assert loss(200) < 0.8 * loss(1)
    assert loss(20) == loss(20)


def test_the_judge_has_no_spectral_norm() -> None:
    """Clients divide by it, the classifier of the synthetic set does not, and is judged without."""
    raw = {
        "rounds": 1,
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 3},
        "model": {"name": "resnet10", "width": 4, "spectral": True},
        "local": {"epochs": 0.1, "batch_size": 16},
        "method": {"name": "fedevg", "per_class": 2, "judge_epochs": 30},
    }
    made = experiment(parse(raw))
    evg = made.recipe.algorithm
    assert isinstance(evg, FedEvg)
    assert "SpectralLinear" in evg.energy.task.network.layers
    assert "SpectralLinear" not in evg.task.network.layers
    state, _ = made.loop.advance(made.loop.begin(made.w), 0)
    w = evg.model(state.servers[0], made.evaluator.key)
    assert w is not None
    examples, rows = made.federation.examples, made.federation.rows(TEST).order
    x, y = examples.x[rows], examples.y[rows]
    ordinary = MODELS["resnet10"](width=4).build((1, 8, 8), 10)
    ordinary.load_state_dict(w)
    with torch.no_grad():
        want = nn.functional.cross_entropy(ordinary.eval()(x), y)
        normed = nn.functional.cross_entropy(evg.energy.task.logits(w, x), y)
    found = made.evaluator(state).spread["global"]["loss"]["mean"]
    assert found == pytest.approx(float(want), rel=1e-5)
    assert found != pytest.approx(float(normed), rel=1e-2)


def nudged(kinked: bool, size: float) -> Tensor:
    """The synthetic set after round 1 of 2, from data that were moved by a relative ``size``."""
    act, pool = (nn.ReLU, nn.MaxPool2d) if kinked else (nn.SiLU, nn.AvgPool2d)
    layers = [nn.Conv2d(1, 16, 5, padding=1, bias=False), act(), pool(2), nn.Flatten()]
    for inputs, outputs in ((144, 64), (64, 64)):
        layers += [nn.Linear(inputs, outputs, bias=False), act()]
    task = MultiClass(Network(nn.Sequential(*layers, nn.Linear(64, 3, bias=False)).double()))
    data = federation((1, 8, 8), (160, 160), dtype=torch.float64)
    x = data.examples.x
    x = x * (1 + size * rng.normal(rng.key(9), *x.shape).double())
    moved = data._replace(examples=replace(data.examples, x=x))
    recipe, start = Recipe(made(task, 3, 2, (1, 8, 8))), {"w": torch.zeros(1).double()}
    return play(recipe, moved, 1, start, batch_size=4, engine="sequential").server.x


@pytest.mark.parametrize("equal", [False, True])
def test_kinks_of_the_network_amplify_what_a_smooth_one_does_not(
    equal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hundreds, and not because of the signs: also where every client counts alike."""
    if equal:
        monkeypatch.setattr(torch, "sign", torch.zeros_like)
    far = {k: distance(nudged(k, 0.0), nudged(k, 1e-4)) / 1e-4 for k in (True, False)}
    assert far[True] > 100
    assert far[False] < 1


def test_precision_follows_the_synthetic_set() -> None:
    """A network in single precision, everything else in double: the client computes in double."""
    task = MultiClass(Network(nn.Linear(2, 3)))
    up = one_client(made(task, 3, 4, opt=Sgd(0.5), per_class=4))
    assert up.gradient.dtype == up.weight.dtype == torch.float64


def test_losses_of_a_received_model_do_not_exist() -> None:
    """So weights that need them are refused before the run."""
    task, data = network_task("dense")
    with pytest.raises(ConfigError, match="sends no model whose loss"):
        composed(task, data, "fedevg", "aaggff_d")


def test_a_binary_task_is_refused() -> None:
    """There is one logit and no class to draw."""
    task = Binary(Network(nn.Linear(2, 1)))
    with pytest.raises(ConfigError, match="needs a multi-class task, this one is a binary task"):
        composed(task, federation((2,)), "fedevg")


def test_features_beyond_the_clipping_are_refused():
    raw = {"method": {"name": "fedevg"}, "data": {"name": "digits", "normalise": True}}
    with pytest.raises(ConfigError, match=r"fedevg.*\[0, 1\].*clip_pixels"):
        experiment(parse(raw))
    experiment(parse({**raw, "method": {"name": "fedevg", "clip_pixels": False}}))


def test_the_last_step_is_the_last_value():
    assert cosine_step(499, 500, 10.0, 0.01) == 0.01
