"""FedEvg: what travels, the client, the judge, and what is refused."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from energies import linear_task, made
from federations import composed, distance, federation, kept_by, network_task, play, same
from torch import Tensor, nn

from unalike import rng, tree
from unalike.algorithms.fedevg import FedEvg
from unalike.engine.simulation.simulate import Simulation
from unalike.errors import ConfigError
from unalike.federation.data import TEST
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.energy import Energy
from unalike.parts.langevin import Langevin, Up
from unalike.parts.optim import Sgd
from unalike.parts.schedule import Plan
from unalike.parts.synthetic import Synthetic
from unalike.recipe import Recipe
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.tasks import Binary, MultiClass


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
