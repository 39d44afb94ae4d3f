"""How often a run is evaluated if that is left to it: by counts of rows, never by a clock."""

from pathlib import Path
from typing import Any

import pytest

from unalike.errors import ConfigError
from unalike.run.configuration.config import parse
from unalike.run.execute import Interrupted, Silent, resume, start
from unalike.run.experiment.build import Experiment, experiment
from unalike.run.experiment.cadence import Cadence, Work, as_set, cadence, spaced, within
from unalike.run.folder.records import read_json, read_lines
from unalike.tasks.classification import Classification

FEW: dict[str, Any] = {  # two of twenty clients: a round trains 126 rows, an evaluation tests 540
    "rounds": 23,
    "data": {"name": "digits"},
    "partition": {"name": "iid", "clients": 20},
    "model": {"name": "mlp", "hidden": [8]},
    "participation": {"number": 2},
}
ALL = {**FEW, "participation": {"fraction": 1.0}}


def built(*changes: dict[str, Any]) -> Experiment:
    """The experiment of ``FEW`` with some tables replaced."""
    raw = dict(FEW)
    for change in changes:
        raw |= change
    return experiment(parse(raw))


@pytest.mark.parametrize(
    ("trained", "tested", "weights", "every"),
    [
        (400, 100, 54_000, 1),  # a row costs 1.4 * 164 / 110 = 2.09 passes: 209 beside 1,200
        (700, 300, 199_210, 1),  # everybody on an ordinary split: 509 beside 2,100 is 19.5 %
        (700, 300, 7_850, 2),  # the same of a small model: 775 beside 2,100 would be 27 %
        (4_201, 27_990, 199_210, 16),
        (4_201, 27_990, 7_850, 23),
        (100, 7_500, 54_000, 209),  # 15,655 passes beside 62,700
        (0, 50, 54_000, 418),  # less than a row a round
    ],
)
def test_a_fifth_of_both(trained: float, tested: float, weights: int, every: int) -> None:
    work = Work(trained, tested, weights)
    assert work.every == every
    spent = tested * work.cost / max(3 * trained, 1)  # in rounds
    assert spent / (spent + every) <= 0.2 + 1e-9
    assert every == 1 or spent / (spent + every - 1) > 0.2


def test_small_models_pay_for_what_is_not_products() -> None:
    costs = [Work(1, 1, weights).cost for weights in (0, 8_000, 50_000, 200_000, 10**9)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == pytest.approx(2.75)
    assert costs[-1] == pytest.approx(1.4, rel=1e-3)


def test_five_or_more_and_no_more_than_are_paid_for() -> None:
    for rounds in range(1, 300):
        for every in (1, 2, 3, 7, 16, 18, 40, 500):
            found = within(every, rounds)
            judged = -(-rounds // found)
            assert judged >= min(rounds, 5)
            if found > every:
                assert -(-rounds // every) > 1.1 * rounds / every
            if rounds // every > 5 and found >= every:
                assert judged <= 1.1 * rounds / every


@pytest.mark.parametrize(
    ("every", "rounds", "found"),
    [(9, 1000, 9), (9, 41, 9), (16, 41, 9), (9, 10, 2), (9, 9, 2), (9, 8, 1), (16, 100, 17)],
)
def test_never_fewer_than_five(every: int, rounds: int, found: int) -> None:
    assert within(every, rounds) == found
    assert -(-rounds // found) >= min(rounds, 5)


def test_counted_by_hand() -> None:
    made = built()
    sizes = {k: int(made.federation.sizes(k)[:20].sum()) for k in range(3)}
    assert sum(sizes.values()) == 1797
    assert made.cadence.every == 5  # 16 would leave 23 rounds with two evaluations
    assert made.cadence.why == (
        "an evaluation tests 540 rows and a round trains 126; a run has 5 evaluations or more"
    )
    long = built({"rounds": 100})
    assert long.cadence == Cadence(17, "an evaluation tests 540 rows and a round trains 126")


@pytest.mark.parametrize(
    ("change", "tested"),
    [
        ({}, 540),  # common rows are those of the clients, tested by the same model
        ({"evaluation": {"train": True}}, 1797),
        ({"evaluation": {"clients": 10}}, 270),
        ({"method": {"name": "superfed_mm"}}, 540 + 360),  # the shared model, beside their own
        ({"method": {"name": "superfed_mm"}, "evaluation": {"line": 3}}, 4 * 540 + 360),
        ({"method": {"name": "lg_fedavg"}}, 540 + 20 * 360),  # an ensemble of twenty
        ({"method": {"name": "lg_fedavg"}, "evaluation": {"ensemble": "weights"}}, 540 + 360),
        ({"topology": {"name": "clusters", "servers": 4}}, 540 + 4 * 360),
    ],
)
def test_models_are_counted(change: dict[str, Any], tested: int) -> None:
    made = built({"participation": {"fraction": 1.0}, "local": {"epochs": 0.01}}, change)
    said = f"an evaluation tests {tested:,} rows"
    assert made.cadence.why.startswith(said), made.cadence.why


def test_everybody_on_ordinary_splits() -> None:
    """A fifth for products; what else a tested row costs is more for a small model."""
    assert experiment(parse(ALL)).cadence.every == 2
    large = {"model": {"name": "mlp", "hidden": [400, 400]}, "participation": {"fraction": 1.0}}
    assert built(large).cadence.every == 1
    pooled = {"method": {"name": "pooled"}}
    assert built(pooled).cadence.every == 2  # all rows train, whoever takes part


def test_a_number_stays() -> None:
    made = built({"evaluation": {"every": 1}})
    assert made.cadence == Cadence(1, "as set")
    assert cadence(parse({"evaluation": {"every": 7}}), Work(1, 1000), 8) == Cadence(7, "as set")
    assert as_set(parse({"evaluation": {"every": 3}})).every == 3
    assert as_set(parse({})).every == 1  # sites judge, and nobody here counts their rows


@pytest.mark.parametrize("wrong", [0, "often", True, 1.5])
def test_what_it_may_be(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r'must be a whole number >= 1 or "auto", got'):
        parse({"evaluation": {"every": wrong}})


def test_compared_runs_share_one() -> None:
    auto, own = parse({"rounds": 40}), parse({"rounds": 40, "evaluation": {"every": 3}})
    assert spaced(auto, 5).evaluation.every == 5
    assert spaced(auto, 30).evaluation.every == 8  # of 40
    assert spaced(auto, 0) is auto
    assert spaced(own, 5) is own


def test_the_run_says_so_and_a_resumed_one_does_the_same(tmp_path: Path) -> None:
    whole = start(parse({**FEW, "run": {"folder": str(tmp_path / "whole")}}))
    judged = [r["round"] for r in read_lines(whole / "rounds.jsonl") if r["metrics"]]
    assert judged == [5, 10, 15, 20, 23]
    facts = read_json(whole / "skew.json")
    assert facts["evaluated_every"] == 5
    assert "tests 540 rows" in facts["evaluated_because"]
    assert read_json(whole / "config.json")["evaluation"]["every"] == "auto"

    class Stopping(Silent):
        """Asks to stop in the middle of the rounds between two evaluations."""

        def round(self, record: dict[str, Any]) -> None:
            """As Ctrl-C does."""
            import signal

            if record["round"] == 10:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        start(parse({**FEW, "run": {"folder": str(tmp_path / "cut")}}), Stopping())
    cut = resume(tmp_path / "cut")
    for name in ("rounds.jsonl", "clients.jsonl", "model.safetensors", "summary.json"):
        assert (whole / name).read_bytes() == (cut / name).read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"evaluation": {"train": True}},
        {"split": {"new_clients": 3}},
        {"method": {"name": "superfed_mm"}},
        {"method": {"name": "lg_fedavg"}},
        {"method": {"name": "local_only"}},
        {"method": {"name": "fedproto"}},
        {"method": {"name": "ditto"}},
        {"method": {"name": "pooled"}},
        {"topology": {"name": "clusters", "servers": 4}},
        {"topology": {"name": "ring"}, "method": {"name": "superfed_mm"}},
    ],
)
def test_what_is_counted_goes_through_models(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of an evaluation, counted where they are computed."""
    everybody = {"participation": {"fraction": 1.0}, "local": {"epochs": 0.01}}
    made = built(everybody, {"engine": {"kind": "sequential"}}, change)
    with made.simulation.lone():
        progress, *_ = made.course.advance(made.course.begin(), 0)
    seen, real = [], Classification.outputs

    def outputs(self: Any, w: Any, x: Any, *more: Any) -> Any:
        seen.append(len(x))
        return real(self, w, x, *more)

    monkeypatch.setattr(Classification, "outputs", outputs)
    made.evaluator(progress.state)
    assert f"an evaluation tests {sum(seen):,} rows" in made.cadence.why


def test_an_evaluation_goes_without_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have the cores; helpers of the main thread would be waited for within operations."""
    import torch

    from unalike.run.rounds import rounds

    made = built({"rounds": 2}, {"engine": {"kind": "sequential", "workers": 2}})
    seen, real = list[int](), Classification.measure

    def measure(self: Any, *args: Any) -> Any:
        seen.append(torch.get_num_threads())
        return real(self, *args)

    monkeypatch.setattr(Classification, "measure", measure)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert [step.judged is not None for step in rounds(made)] == [True, True]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {1}
