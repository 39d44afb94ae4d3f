"""Server optimizers: two increments of a two-dimensional model, with the state kept in between."""

import pytest
import torch
from federations import Handmade, cohort, composed, network_task, play
from unalike.parts.server_optim import ServerAdagrad, ServerAdam, ServerYogi

from unalike import rng
from unalike.algorithms.fedavg import FedAvg, Up
from unalike.parts.optim import Sgd

FIRST, SECOND = (0.3, -0.02), (0.1, 0.05)

# b1 = 0.9, b2 = 0.999, tau = 1e-4, server rate 0.01
INCREMENTS = {
    "adam": (
        ServerAdam(0.01, 0.9, 0.999, 1e-4),
        (0.031291, -0.02701591),
        (0.036648, 0.017721),
    ),
    "yogi": (
        ServerYogi(0.01, 0.9, 0.999, 1e-4),
        (0.031291, -0.02701562),
        (0.036632, 0.017720),
    ),
    "adagrad": (ServerAdagrad(0.01, tau=1e-4), (0.009997, -0.009950), (0.003161, 0.009268)),
}


def increments(server_opt: object, *deltas: tuple[float, float]) -> list[list[float]]:
    """How the server's model moves when the clients' mean difference is so and so."""
    algorithm = FedAvg(Handmade(), server_opt=server_opt)
    state = algorithm.server_init({"w": torch.zeros(2, dtype=torch.float64)}, rng.key(0))
    moved = []
    for delta in deltas:
        one = torch.tensor([delta, delta], dtype=torch.float64)  # two clients that agree
        before = state.x["w"]
        p = torch.tensor([0.25, 0.75])
        state = algorithm.server(state, Up({"w": one}), p, cohort([1, 3]))
        moved.append((state.x["w"] - before).tolist())
    return moved


@pytest.mark.parametrize("name", INCREMENTS)
def test_two_increments(name: str) -> None:
    """m_0 = 0, v_0 = tau^2, no bias correction."""
    server_opt, first, second = INCREMENTS[name]
    got = increments(server_opt, FIRST, SECOND)
    assert got[0] == pytest.approx(first, abs=1e-6)
    assert got[1] == pytest.approx(second, abs=1e-6)


def test_yogi_and_adam_differ_in_the_eighth_digit() -> None:
    """So their second moments are not the same formula."""
    assert increments(INCREMENTS["adam"][0], FIRST)[0][1] == pytest.approx(-0.02701591, abs=5e-9)
    assert increments(INCREMENTS["yogi"][0], FIRST)[0][1] == pytest.approx(-0.02701562, abs=5e-9)


@pytest.mark.parametrize(
    ("name", "fingerprint"), [("adam", (0.022200, -0.020005)), ("adagrad", (0.007069, -0.007046))]
)
def test_known_mistakes_give_other_numbers(name: str, fingerprint: tuple[float, float]) -> None:
    """The released program updates v twice in one step."""
    got = increments(INCREMENTS[name][0], FIRST)[0]
    assert abs(got[0] - fingerprint[0]) > 1e-3


def test_yogi_by_hand_over_many_rounds() -> None:
    """v moves by (1 - b2) g^2 towards g^2, never past it for long."""
    opt, m, v, x = ServerYogi(0.1, 0.9, 0.9, 1e-3), 0.0, 1e-6, 0.0
    deltas = [(0.5 * (-0.9) ** t, 0.0) for t in range(200)]
    got = sum(step[0] for step in increments(opt, *deltas))
    for d, _ in deltas:
        m = 0.9 * m + 0.1 * d
        v -= 0.1 * d * d * ((v > d * d) - (v < d * d))
        x += 0.1 * m / (v**0.5 + 1e-3)
    assert got == pytest.approx(x, rel=1e-6)


def test_fedavgm_is_heavy_ball_momentum() -> None:
    """m = 0.5 m + d: increments d1, then 0.5 d1 + d2."""
    got = increments(Sgd(1.0, 0.5), FIRST, SECOND)
    assert got[0] == pytest.approx(FIRST)
    assert got[1] == pytest.approx([0.5 * a + b for a, b in zip(FIRST, SECOND, strict=True)])


def test_buffers_are_averaged_whatever_the_optimizer() -> None:
    """BatchNorm statistics must not be scaled by an adaptive step."""
    task, data = network_task("conv")
    plain, adaptive = (
        play(composed(task, data, name), data, 1).x for name in ("fedavg", "fedadam")
    )
    for name in task.network.buffers:
        assert torch.equal(plain[name], adaptive[name])
    assert not torch.equal(plain["0.weight"], adaptive["0.weight"])


def test_settings_reach_the_optimizer() -> None:
    """By name, as a file would give them."""
    task, data = network_task("dense")
    made = composed(task, data, ("fedyogi", {"lr": 0.3, "b1": 0.1, "b2": 0.2, "tau": 0.4}))
    assert made.algorithm.server_opt == ServerYogi(0.3, 0.1, 0.2, 0.4)
    made = composed(task, data, ("fedadagrad", {"lr": 0.3, "tau": 0.4}))
    assert made.algorithm.server_opt == ServerAdagrad(0.3, 0.0, tau=0.4)
