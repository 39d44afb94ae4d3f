"""What clients do in a round and how long that takes, from the sections of a configuration."""

from unalike.parts.clock import Clock, Rate
from unalike.parts.optim import Adam, Optimizer, Sgd
from unalike.recipe import Decay
from unalike.run.configuration.sections import ClockSettings, Local


def optimizer(local: Local) -> Optimizer:
    """The clients' optimizer."""
    if local.optimizer == "sgd":
        return Sgd(local.lr, local.momentum, local.weight_decay, local.nesterov)
    return Adam(local.lr, weight_decay=local.weight_decay)


def decay(local: Local, rounds: int) -> Decay:
    """The learning rate's factor, round by round."""
    return Decay(local.decay, local.decay_rate, local.decay_every, rounds)


def clock(settings: ClockSettings) -> Clock | None:
    """The simulated clock, if there is one."""
    if settings.kind == "none":
        return None
    s, kind = settings, settings.distribution
    return Clock(
        Rate(s.speed, s.speed_spread, kind),
        Rate(s.down, s.network_spread, kind),
        Rate(s.up, s.network_spread, kind),
        s.latency,
        s.jitter,
        s.deadline,
        s.backbone,
    )
