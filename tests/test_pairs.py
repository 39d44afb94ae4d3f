"""Every pair of methods: refused with a reason in either order, or both have a hand in the result.

Seven small clients and a network of a few weights, so that the whole table can be tried. A part
that is left out must be missed; a part at a setting where it does nothing must leave the other's
result as it is.
"""

from collections.abc import Iterator
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from federations import Data, Named, Played, drafted, federation, state_of, walk
from torch import nn

from unalike import rng, tree
from unalike.algorithms.draft import Draft
from unalike.algorithms.table import METHODS
from unalike.errors import ConfigError
from unalike.federation.data import Rows
from unalike.models import MODELS
from unalike.network import Network
from unalike.parts.optim import Sgd
from unalike.parts.participation.clock import Clock, Rate
from unalike.parts.participation.schedule import Participation
from unalike.recipe import Recipe
from unalike.tasks import Autoencoding, MultiClass, Task
from unalike.tree import Params

CLIENTS, ROUNDS = 7, 2
CLOCK = Clock(Rate(10.0, 1.5), Rate(1e6), Rate(1e6))
SHAPE = (1, 2, 2)

# Settings at which a method does much in few rounds; those that are not here are as they come.
STRONG: dict[str, dict[str, Any]] = {
    "fedprox": {"mu": 2.0},
    "propfair_loss": {"baseline": 4.0},
    "propfair": {"baseline": 2.0},
    "fedaug": {"target": 0.001},
    "superfed_mm": {"start": 0.0},
    "superfed_lm": {"start": 0.0},
    "fedevg": {"per_class": 2},
    "apfl": {"adapt": "step"},
    "pfedme": {"lr": 0.05},
    "per_fedavg": {"alpha": 0.2, "adapt": 0},
    "feddyn": {"alpha": 0.5},
    "moon": {"mu": 5.0},
    "fedproto": {"strength": 5.0},
    "fedmix": {"share": 0.4},
    "astraea": {"clients": 3},
    "latent_disco": {"encoder": "given", "a": 0.02},
    "norm_clip": {"bound": "fixed", "norm": 0.02},
    "dp": {"clip": 0.02, "noise_multiplier": 0.1, "delta": 0.01},
    "local_dp": {"clip": 0.02, "noise_multiplier": 0.1, "delta": 0.01},
    "topk": {"share": 0.3},
    "random_mask": {"share": 0.5, "feedback": True},
    "stc": {"share": 0.3},
    "eight_bit": {"feedback": True},
    "phase_shift": {"phases": CLIENTS},
    "fedbuff": {"buffer": 4, "concurrency": 2},
    "tifl": {"tiers": 2},
    "afl": {"rate": 1.0},
    "fedavgm": {"momentum": 0.5},
    "trimmed_mean": {"trim": 0.2},
    "krum": {"select": 3},
}
# Settings at which a method is FedAvg if all clients have equally many examples.
NEUTRAL: dict[str, dict[str, Any]] = {
    "fedprox": {"mu": 0.0},
    "fedavgm": {"momentum": 0.0},
    "feddisco": {"a": 0.0, "b": 0.0},
    "latent_disco": {"encoder": "given", "a": 0.0},
    "afl": {"rate": 0.0},
    "term": {"tilt": 0.0},
    "qfedavg": {"q": 0.0},
    "propfair": {"baseline": 1e12},
    "fednova": {},
    "lg_fedavg": {"shared": ["1.", "4."]},
    "superfed_mm": {"start": 1.0, "mu": 0.0, "nu": 0.0, "at": 0.0},
    "superfed_lm": {"start": 1.0, "mu": 0.0, "nu": 0.0, "at": 0.0},
    "apfl": {"alpha": 0.0},
    "moon": {"mu": 0.0},
    "per_fedavg": {
        "alpha": 0.0,
        "gradients": "first_order",
        "minibatches": "same",
        "adapt": 0,
    },
    "phase_shift": {"phases": 1},
    "fedaug": {"target": 1.99},
    "astraea": {"clients": 1, "alpha": 0.0},
    "trimmed_mean": {"trim": 0.0},
    "krum": {"attackers": 0, "select": CLIENTS},
    "norm_clip": {"bound": "fixed", "norm": 1e30},
    "dp": {"clip": 1e30, "noise_multiplier": 0.0, "delta": 0.01},
    "local_dp": {"clip": 1e30, "noise_multiplier": 0.0, "delta": 0.01},
    "topk": {"share": 1.0},
    "random_mask": {"share": 1.0},
}
EXACT = {
    "moon",
    "apfl",
    "per_fedavg",
    "fedprox",
    "lg_fedavg",
    "phase_shift",
    "fedaug",
    "astraea",
    "fedavgm",
    "topk",
    "random_mask",
}  # to the last bit


# Methods that need somebody to leave out; beside them some of the clients take part, else all.
CHOOSES = {"by_size", "power_of_choice"}
ALL_OF_THEM, SOME = Participation(), Participation(number=5)

# Their networks, or their questions about features, are equal to nothing but themselves.
BY_IDENTITY = {"latent_disco", "fedevg", "fedcvae", "fedcgan", "moon", "fedproto", "fedmix"}


def _net(norm: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3))
    net.insert(2, norm)
    net.head = ("4.",)  # type: ignore[assignment]
    return net.double()


TASK = MultiClass(Network(_net(nn.Identity())))
NORMED = MultiClass(Network(_net(nn.BatchNorm1d(3)), track_statistics=False))
VAE = Autoencoding(Network(MODELS["vae"](hidden=[3], latent=2).build(SHAPE, 1).double()))
ENCODER = VAE.init(rng.key(3))
RAGGED = federation(SHAPE, [3 + i % 5 for i in range(CLIENTS)], dtype=torch.float64)
EQUAL = federation(SHAPE, [5] * CLIENTS, dtype=torch.float64)


def read(path: str) -> Params:
    """A trained autoencoder, as far as anybody can tell."""
    return ENCODER


def task(*names: str) -> Task:
    """A network that all of these methods can train."""
    return NORMED if "fedbn" in names else TASK


def among(*names: str) -> Participation:
    """How many clients all of these methods can live with."""
    return SOME if CHOOSES & set(names) else ALL_OF_THEM


def draft(
    *methods: Named,
    data: Data = RAGGED,
    on: Task | None = None,
    participation: Participation | None = None,
) -> Draft:
    names = [m[0] for m in methods]
    made = task(*names) if on is None else on
    parts = {
        "rounds": ROUNDS + ("finetune" in names),  # which needs one for itself
        "participation": among(*names) if participation is None else participation,
        "opt": Sgd(0.3),
        "read": read,
        "clock": CLOCK,
    }
    return drafted(made, data, *methods, **parts)


def recipes(*methods: Named) -> list[Recipe]:
    return [stage.recipe for stage in draft(*methods).program()]


def strong(name: str) -> Named:
    return name, STRONG.get(name, {})


def pooled(data: Data) -> Data:
    return Data(data.examples, Rows(data.rows.order, data.rows.start[[0, -1]]))


def run(*methods: Named, data: Data = RAGGED, **parts: Any) -> Played:
    """Some rounds, client by client: in one call the kernels differ with what is shared."""
    program = draft(*methods, data=data, **parts).program()
    whole = pooled(data) if any(m[0] == "pooled" for m in methods) else data
    return walk(program, whole, batch_size=5, engine="sequential", traced=False)


def numbers(played: Played) -> dict[str, np.ndarray]:
    """The shared leaves of the model, and the models that clients are judged by."""
    server, algorithm = played.server, played.loop.recipe.algorithm
    if isinstance(server.x, torch.Tensor):
        return {"synthetic": server.x.numpy()}
    down = algorithm.broadcast(server)
    clients = range(played.simulation.clients.n)
    judged = [algorithm.personal(down, state_of(played.simulation, i)) for i in clients]
    judged = [w for w in judged if w is not None]  # of a generator nobody is judged by it
    return {k: v.numpy() for k, v in tree.named({"shared": server.x, "judged": judged}).items()}


def apart(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> float:
    """The largest difference of a number that both have; infinite if they have none."""
    both = a.keys() & b.keys()
    return max((float(np.abs(a[k] - b[k]).max()) for k in both), default=np.inf)


@cache
def alone(name: str, on: Task, participation: Participation) -> dict[str, np.ndarray]:
    return numbers(run(strong(name), on=on, participation=participation))


def refusal(*methods: Named) -> str:
    try:
        draft(*methods).program()
    except ConfigError as error:
        return str(error)
    return ""


ALL = list(combinations(METHODS, 2))
PAIRS = [(a, b) for a, b in ALL if not refusal(strong(a), strong(b))]
REFUSED = [pair for pair in ALL if pair not in PAIRS]


@pytest.mark.parametrize("name", METHODS)
def test_no_method_is_refused_alone(name: str) -> None:
    """Or all pairs with it would be refused for these settings, and none of them tried."""
    assert not refusal(strong(name))


def test_the_table_is_large_enough() -> None:
    """If nearly all pairs were refused the tests below would say little."""
    assert len(PAIRS) > 900
    assert len(REFUSED) > 500


@pytest.mark.parametrize(("a", "b"), REFUSED)
def test_refused_in_either_order_in_one_sentence(a: str, b: str) -> None:
    for pair in ((a, b), (b, a)):
        said = refusal(*map(strong, pair))
        assert said.endswith(".")
        assert "\n" not in said


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_each_part_is_in_the_recipe(a: str, b: str) -> None:
    """A pair is neither of its parts, and the order is of no account."""
    both = recipes(strong(a), strong(b))
    for missing, left in ((a, b), (b, a)):
        if missing != "pooled":  # which may change nothing but whose the rows are
            same = recipes(strong(left)) == both
            assert same == (missing == "fedavg" and left not in BY_IDENTITY), missing
    if not BY_IDENTITY & {a, b}:
        assert both == recipes(strong(b), strong(a))


# Beside one of each sort in the default tier, beside all the others in the slow one.
OFTEN = {"scaffold", "fedadam", "feddisco", "aaggff_s", "superfed_mm", "lg_fedavg", "ditto"}
OFTEN |= {"phase_shift", "fedaug", "median", "topk"}


def _later(often: bool) -> list[Any]:
    return [] if often else [pytest.mark.slow]


@pytest.mark.parametrize(
    ("a", "b"), [pytest.param(*p, marks=_later(bool({*OFTEN, "pooled"} & {*p}))) for p in PAIRS]
)
def test_each_part_acts(a: str, b: str) -> None:
    """Whatever is left out of a pair, the result is another one."""
    both = numbers(run(strong(a), strong(b)))
    assert all(np.isfinite(x).all() for x in both.values())
    for missing, left in ((a, b), (b, a)):
        gap = apart(both, alone(left, task(a, b), among(a, b)))
        if missing == "fedavg":
            assert gap == 0
        else:
            assert gap > 1e-9, f"'{missing}' does nothing beside '{left}'"


def _idle() -> Iterator[Any]:
    for pair in PAIRS:
        for idle, beside in (pair, pair[::-1]):
            # In the last round of phase-shift all upload, with the work of one round or of several.
            if (idle, beside) == ("fednova", "phase_shift"):
                continue
            if idle in NEUTRAL and beside != "fedavg":
                yield pytest.param(idle, beside, marks=_later(beside in OFTEN))


@pytest.mark.parametrize(("idle", "beside"), list(_idle()))
def test_a_part_without_effect_leaves_the_other_as_it_is(idle: str, beside: str) -> None:
    """With equally many examples everywhere, so that a plain mean is FedAvg's."""
    if refusal((idle, NEUTRAL[idle]), strong(beside)):
        pytest.skip("refused at this setting, with a reason")
    same = {"on": task(idle, beside), "participation": among(idle, beside)}
    with_, without = (
        numbers(run(*m, strong(beside), data=EQUAL, **same)) for m in (((idle, NEUTRAL[idle]),), ())
    )
    assert apart(with_, without) <= (0 if idle in EXACT else 1e-9)
