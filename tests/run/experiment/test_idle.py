"""Settings that cannot act in a run of so many rounds or clients are refused, or said."""

from typing import Any

import pytest

from unalike.errors import ConfigError, RunWarning
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment
from unalike.run.experiment.live import Experiment


def made(rounds: int = 5, **sections: Any) -> Experiment:
    raw: dict[str, Any] = {
        "rounds": rounds,
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 10},
        "model": {"name": "mlp", "hidden": [4]},
    }
    return experiment(parse({**raw, **sections}))


def clusters(period: int, servers: int = 2) -> dict[str, Any]:
    return {"topology": {"name": "clusters", "servers": servers, "period": period}}


def random(redraw: int) -> dict[str, Any]:
    return {"topology": {"name": "random", "redraw": redraw}}


def decay(every: int, rate: float = 0.9, kind: str = "exponential") -> dict[str, Any]:
    falls = {"decay_rate": rate, "decay_every": every} if kind == "exponential" else {}
    return {"local": {"decay": kind, **falls}}


def extra(share: float, fraction: float) -> dict[str, Any]:
    asked = {"fraction": fraction, "extra": share}
    return {"participation": asked, "clock": {"kind": "simulated"}}


def candidates(times: float, fraction: float) -> dict[str, Any]:
    method = {"name": "power_of_choice", "candidates": times}
    return {"method": method, "participation": {"fraction": fraction}}


def measured(**settings: Any) -> dict[str, Any]:
    return {"method": {"name": "latent_disco", **settings}, "model": {"name": "vae"}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "extra": (
        extra(0.5, 1.0),
        "participation.extra has nobody to invite, as all 10 clients take part anyway; lower "
        "participation.fraction or leave extra out.",
    ),
    "candidates": (
        candidates(1.2, 0.2),
        "candidates = 1.2 of 'power_of_choice' makes 2 candidates for 2 places, so losses would "
        "decide nothing; raise it, or set it to 1 for sampling by size.",
    ),
    "warmup": (
        measured(refresh="after_warmup", warmup=5),
        "method.warmup of 'latent_disco' is 5 of 5 rounds, which leaves none with weights by "
        "distance; lower it or raise rounds.",
    ),
    "every": (
        measured(refresh="every", every=5),
        "method.every of 'latent_disco' is 5 of 5 rounds, so distances would be measured once; "
        'lower it, raise rounds, or set method.refresh = "after_warmup" with warmup = 0.',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_not_act(case: str) -> None:
    sections, why = REFUSED[case]
    with pytest.raises(ConfigError) as error:
        made(**sections)
    assert str(error.value) == why


ACCEPTED: dict[str, dict[str, Any]] = {
    "the last round": clusters(5),
    "one server is a star": clusters(6, servers=1),
    "drawn again once": random(4),
    "a graph that stays": random(0),
    "one fall": decay(4),
    "a rate that stays on purpose": decay(9, rate=1.0),
    "another decay": decay(0, kind="cosine"),
    "one more client": extra(0.01, 0.9),
    "sampling by size": candidates(1.0, 0.2),
    "one candidate more": candidates(1.5, 0.2),
    "measured after a warm-up": measured(refresh="after_warmup", warmup=4),
    "measured twice": measured(refresh="every", every=4),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_limits_and_what_acts_once(case: str) -> None:
    made(**ACCEPTED[case])


SAID: dict[str, tuple[dict[str, Any], str]] = {
    "period": (
        clusters(6),
        "topology.period is 6 but this run has only 5 rounds, so edge servers never hear one "
        "another.",
    ),
    "redraw": (
        random(5),
        "topology.redraw is 5 but this run has only 5 rounds, so no other graph is drawn.",
    ),
    "decay": (
        decay(5),
        "local.decay_every is 5 but this run has only 5 rounds, so the learning rate never falls.",
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_what_a_longer_run_would_show_is_said(case: str) -> None:
    """And not refused: a file may be tried for some of its rounds."""
    sections, what = SAID[case]
    with pytest.warns(RunWarning) as told:
        made(**sections)
    assert what in [str(one.message) for one in told]


def test_the_rounds_of_all_stages_count() -> None:
    """An encoder is trained for as many rounds before, in which servers exchange models as well."""
    method = {"method": {"name": "latent_disco"}, "model": {"name": "vae"}}
    assert made(**method, **clusters(6)).course.rounds == 10
    with pytest.warns(RunWarning, match=r"topology\.period is 11 but this run has only 10 rounds"):
        made(**method, **clusters(11))


@pytest.mark.parametrize(
    "shortened",
    [clusters(5), random(1), decay(4), measured(refresh="after_warmup", warmup=1)],
)
def test_one_round_is_a_look(shortened: dict[str, Any]) -> None:
    """Nothing is refused, and nothing said."""
    made(rounds=1, **shortened)


def test_stragglers_that_do_all_of_their_work() -> None:
    made(faults={"straggle": 0.0, "least_work": 0.5, "kind": "huge"})  # a control run
    with pytest.raises(ConfigError, match="least_work = 1 lets stragglers do all of their work"):
        made(faults={"straggle": 0.5, "least_work": 1.0})
