"""What a method will use is known beforehand, to the byte and the sample."""

from typing import Any

import pytest

from unalike.algorithms.table import METHODS
from unalike.compare.budget import TOLERANCE, Forecast, Use, within
from unalike.compare.settings import Budget
from unalike.errors import ConfigError
from unalike.run.configuration.config import Config, parse
from unalike.run.experiment.build import Experiment, experiment

ROUNDS = 3
CLUSTERS = {"name": "clusters", "servers": 2, "period": 2}


def config(method: Any = "fedavg", **changes: Any) -> Config:
    raw: dict[str, Any] = {
        "rounds": ROUNDS,
        "partition": {"name": "dirichlet", "clients": 8, "min_size": 10},
        "model": {"name": "mlp", "hidden": [4]},
        "local": {"epochs": 1.3, "lr": 0.1},
        "method": method,
    }
    return parse({**raw, **changes})


def used(config: Config, rounds: int = ROUNDS) -> Use:
    """What a run really used."""
    made = experiment(config)
    progress, total = made.course.begin(), Use()
    for t in range(rounds):
        progress, report, before = made.course.advance(progress, t)
        total += (int(report.worked["gradients"]), report.traffic.total + before.total)
    return total


EVERYBODY = ("aaggff_s", "krum", "trimmed_mean")  # need all, or many, answers
# Needs an autoencoder; codes have a length of their own; losses are not known; a config of its own.
NOT_EXACT = ("latent_disco", "stc", "power_of_choice", "fedbuff")
CASES = [
    *((m, "star", 1.0 if m in EVERYBODY else 0.5) for m in METHODS if m not in NOT_EXACT),
    ("fedavg", "ring", 0.5),
    ("fedavg", "ring", 1.0),
    ("fedep", "ring", 0.5),
    ("lg_fedavg", CLUSTERS, 1.0),
    ("phase_shift", "star", 1.0),
    ({"name": "fedbuff", "buffer": 2, "concurrency": 3}, "star", 1.0),
]


@pytest.mark.parametrize(("method", "topology", "fraction"), CASES)
def test_a_forecast_is_the_ledger(method, topology, fraction):
    model = {"name": "mlp", "hidden": [4], "batch_norm": method == "fedbn"}
    if method == "per_fedavg":  # with several minibatches for a step the last ones may be left over
        method = {"name": method, "minibatches": "same"}
    made = config(method, topology=topology, participation={"fraction": fraction}, model=model)
    assert Forecast(experiment(made)).total(ROUNDS) == used(made)


def test_a_forecast_knows_who_is_late():
    clock = {"kind": "simulated", "speed": 100.0, "deadline": 3.0}
    made = config(participation={"fraction": 0.5, "extra": 0.5}, clock=clock)
    assert Forecast(experiment(made)).total(ROUNDS) == used(made)


@pytest.mark.parametrize("beside", [[], ["topk"]])
def test_a_forecast_knows_what_comes_too_late(beside):
    """Of answers that are too old a model went down and an update came up for nothing."""
    method = {"name": "fedbuff", "buffer": 1, "max_staleness": 0}
    rest = {"plus": [{"name": name} for name in beside], "rounds": 6}
    many, one = (config({**method, "concurrency": n}, **rest) for n in (6, 1))
    assert Forecast(experiment(many)).total(6) == used(many, 6)
    assert used(many, 6).bytes > used(one, 6).bytes, "somebody must be late for this to be a test"


def test_a_forecast_of_codes_is_close():
    made = config("stc")
    ahead, really = Forecast(experiment(made)).total(ROUNDS), used(made)
    assert ahead.samples == really.samples
    assert ahead.bytes == pytest.approx(really.bytes, rel=0.01)


def test_phase_shift_counts_the_collection_in_its_last_round():
    """(n+1)/(2n) + (n-1)/(2nR) of FedAvg's messages, n = 4 phases in R = 5 rounds."""
    forecast = {
        name: Forecast(experiment(config(settings, rounds=5))).total(5).bytes
        for name, settings in (
            ("fedavg", "fedavg"),
            ("phased", {"name": "phase_shift", "phases": 4}),
        )
    }
    expected = 5 / 8 + 3 / 40
    assert forecast["phased"] / forecast["fedavg"] == pytest.approx(expected, rel=0.01)


def test_equal_bytes_halve_scaffolds_rounds_and_stretch_lg_fedavgs():
    base, budget = config(rounds=8), Budget("bytes")
    assert within(config("scaffold", rounds=8), budget, base).rounds == 4
    amount = used(config(rounds=8), 8).bytes
    stretched = within(config("lg_fedavg", rounds=8), budget, base)
    assert stretched.rounds > 20
    total = Forecast(experiment(stretched)).total(stretched.rounds).bytes
    assert total <= amount * (1 + TOLERANCE)
    more = Forecast(experiment(stretched)).total(stretched.rounds + 1).bytes
    assert more > amount * (1 + TOLERANCE)


def test_a_few_bytes_more_do_not_cost_a_round():
    base = config(rounds=8)
    made = config("fedprox", rounds=8)
    assert Forecast(experiment(made)).total(8).bytes > Forecast(experiment(base)).total(8).bytes
    assert within(made, Budget("bytes"), base).rounds == 8


LONG = 400  # rounds, of which four are one per cent


@pytest.mark.parametrize("kind", ["bytes", "samples"])
@pytest.mark.parametrize("stated", [False, True])
def test_the_baseline_keeps_its_rounds_and_who_costs_as_much_has_the_same(kind, stated):
    """FedProx sends a few bytes more, which sum up to two thirds of a round.

    That is more than a stated amount may be exceeded by.
    """
    some = {"rounds": LONG, "participation": {"fraction": 0.5}}
    base = config(**some)
    amount = getattr(Forecast(experiment(base)).total(LONG), kind) if stated else None
    budget = Budget(kind, amount)
    assert within(base, budget, base).rounds == LONG
    fewer = LONG - 1 if stated and kind == "bytes" else LONG
    assert within(config("fedprox", **some), budget, base).rounds == fewer


class Constant(Forecast):
    """Every round uses as many bytes as the learning rate has thousandths."""

    def __init__(self, made: Experiment) -> None:
        self.course, self.cost = made.course, round(1000 * made.config.local.lr)

    def round(self, t: int, last: bool) -> Use:
        return Use(bytes=self.cost)


@pytest.mark.parametrize(
    ("cost", "stated", "measured"),
    [
        (1005, 100, 100),
        (1000, 100, 100),
        (998, 100, 100),
        (1015, 99, 100),  # 100 rounds would be 1.5 per cent too much
        (1030, 97, 98),
        (900, 111, 112),
    ],
)
def test_a_stated_amount_is_exceeded_by_half_a_round_at_most(monkeypatch, cost, stated, measured):
    """The baseline uses 1005 bytes a round: 100 rounds of 100,000 bytes, but for half a round."""
    monkeypatch.setattr("unalike.compare.budget.Forecast", Constant)
    base = config(rounds=100, local={"lr": 1.005})
    made = config(rounds=100, local={"lr": cost / 1000})
    assert within(made, Budget("bytes", 100_000.0), base).rounds == stated
    assert within(made, Budget("bytes"), base).rounds == measured


@pytest.mark.parametrize("stated", [False, True])
def test_a_budget_that_buys_too_few_rounds_is_named(stated):
    """Twice the epochs, so half the rounds, and all of them would be FedAvg's."""
    base = config(rounds=6)
    amount = float(Forecast(experiment(base)).total(6).samples) if stated else None
    method = {"name": "lg_fedavg", "warm_start": 3}
    made = config(method, rounds=6, local={"epochs": 2.6, "lr": 0.1})
    with pytest.raises(ConfigError) as error:
        within(made, Budget("samples", amount), base)
    assert str(error.value) == (
        "'compare.budget' buys too few rounds: method.warm_start of 'lg_fedavg' is 3 of 3 rounds, "
        "which leaves none for LG-FedAvg itself; raise "
        f"{'compare.budget.samples' if stated else 'rounds'} or change the method."
    )


def test_over_many_rounds_a_few_bytes_neither_cost_nor_buy_a_round():
    """Of FedAvg's 19904 bytes a round SCAFFOLD sends 1.997 times as much, phase-shift 0.751."""
    base, budget = config(rounds=LONG), Budget("bytes")
    amount = Forecast(experiment(base)).total(LONG).bytes
    for method, rounds in (("scaffold", LONG // 2), ("phase_shift", 532)):
        made = config(method, rounds=LONG)
        assert within(made, budget, base).rounds == rounds
        forecast = Forecast(experiment(made))
        assert forecast.total(rounds).bytes < amount + forecast.round(0, last=False).bytes / 2
        assert forecast.total(rounds + 1).bytes > amount + forecast.round(0, last=False).bytes / 2


def test_a_baseline_that_sends_nothing_sets_no_budget():
    with pytest.raises(ConfigError, match="the baseline uses no bytes, so it cannot set a budget"):
        within(config(), Budget("bytes"), config("local_only"))
    assert within(config(), Budget("bytes", 1.0), config("local_only")).rounds == 1


def test_phase_shift_runs_longer_on_equal_bytes():
    made = within(config("phase_shift", rounds=12), Budget("bytes"), config(rounds=12))
    # 3/4 R + 1/4 <= 12 with two phases, messages of one size.
    assert made.rounds == 15


def test_equal_samples_follow_the_local_epochs():
    budget = Budget("samples")
    base = config(rounds=8)
    twice = config(rounds=8, local={"epochs": 2.6, "lr": 0.1})
    assert within(twice, budget, base).rounds == 4
    assert within(base, budget, base).rounds == 8


def test_a_given_amount_holds_for_all():
    amount = used(config(rounds=5), 5).bytes
    assert within(config(), Budget("bytes", amount), config()).rounds == 5
    assert within(config("scaffold"), Budget("bytes", amount), config()).rounds == 2


def test_the_least_is_one_round_and_the_most_is_bounded():
    assert within(config(), Budget("bytes", 1.0), config()).rounds == 1
    assert within(config(), Budget("bytes", 1e15, longest=4), config()).rounds == 4 * ROUNDS


def test_who_sends_nothing_keeps_the_files_rounds():
    assert within(config("local_only"), Budget("bytes"), config()).rounds == ROUNDS


def test_equal_rounds_change_nothing():
    made = config("scaffold")
    assert within(made, Budget("rounds"), config()) is made


@pytest.mark.parametrize("warm_start", [1, 2, 4])
def test_messages_that_change_on_the_way(warm_start):
    """FedAvg's, then the private part to everybody once, then the head's."""
    warm = config(
        {"name": "lg_fedavg", "warm_start": warm_start},
        rounds=5,
        participation={"fraction": 0.5},
    )
    assert Forecast(experiment(warm)).total(5) == used(warm, 5)


@pytest.mark.parametrize("method", ["lg_fedavg", "ditto"])
def test_what_is_shared_is_sent_once_more_before_fine_tuning(method):
    """To everybody; the layers that stay are not."""
    plus = [{"name": "finetune", "rounds": 2}]
    tuned = config(method, rounds=5, participation={"fraction": 0.5}, plus=plus)
    assert Forecast(experiment(tuned)).total(5) == used(tuned, 5)


def test_a_warm_start_buys_fewer_rounds_than_a_cold_one():
    """Of 310 numbers 50 are the head's, and 8 bytes of counts go up.

    FedAvg: 8 (1240 + 1248) = 19904 bytes a round, 159232 in 8 rounds, 160824 with the tolerance.
    Cold: a round is 8 (200 + 208) = 3264, which fits 49 times. After 4 rounds of FedAvg and
    8 x 1040 bytes for everybody's private part, 72888 are left: 22 rounds more.
    """
    base, budget = config(rounds=8), Budget("bytes")
    for warm_start, rounds in ((0, 49), (4, 26)):
        made = config({"name": "lg_fedavg", "warm_start": warm_start}, rounds=8)
        assert within(made, budget, base).rounds == rounds
