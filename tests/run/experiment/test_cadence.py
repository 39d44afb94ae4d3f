"""How often a run is evaluated if that is left to it: by counts of rows, never by a clock."""

from pathlib import Path
from typing import Any

import pytest

from unalike.errors import ConfigError
from unalike.run.configuration.config import parse
from unalike.run.execute import Interrupted, Silent, resume, start
from unalike.run.experiment import cadence as module
from unalike.run.experiment.build import experiment
from unalike.run.experiment.cadence import Cadence, Work, as_set, cadence, spaced, within
from unalike.run.experiment.live import Experiment
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


LONG = 1_000_000  # rounds, so that a quarter of a second does not matter


@pytest.mark.parametrize(
    ("work", "every"),
    [
        # products, in millions: 4 * (1.4 * 0.164 * 100 + 110) beside 60 + 3 * 0.11 * 400
        (Work(400, 100, 54_000), 3),  # 532 beside 192
        (Work(700, 300, 199_210, 10), 3),  # 1,320 beside 596
        (Work(700, 300, 199_210, 10, compiled=False), 2),  # 1,320 beside 864
        (Work(70_000, 30_000, 199_210, 10), 1),  # calls are few: 52,746 beside 53,654
        (Work(70_000, 30_000, 7_850, 10), 2),  # 20,598 beside 13,469
        (Work(4_201, 27_990, 199_210, 100), 17),  # 52,869 beside 3,276
        (Work(4_201, 27_990, 199_210, 100, compiled=False), 11),
        (Work(0, 50, 54_000, 2), 9),  # less than a row a round: 526 beside 60
    ],
)
def test_a_fifth_of_both(work: Work, every: int) -> None:
    assert work.every(LONG) == every


def test_more_is_due_for_more_and_less_for_less() -> None:
    base = Work(4_000, 4_000, 50_000, 20)
    for dearer in (
        base._replace(trained=2_000),
        base._replace(tested=8_000),
        base._replace(clients=400),
        base._replace(weights=5_000),  # what is not products weighs more
    ):
        assert dearer.every(LONG) > base.every(LONG)
    assert base._replace(compiled=False).every(LONG) < base.every(LONG)


def test_a_quarter_of_a_second_is_given() -> None:
    small = Work(100, 1_000, 54_000)  # 340 million products an evaluation: 29 of them
    assert [small.every(rounds) for rounds in (10, 29, 30, 145, LONG)] == [1, 1, 2, 5, 15]
    again = small._replace(dense=False, tested=100)  # 3,988 million: two
    assert [again.every(rounds) for rounds in (2, 8, 12, LONG)] == [1, 4, 6, 6]


@pytest.mark.parametrize("every", [1, 2, 3, 7, 16, 18, 40, 500])
def test_two_or_more_and_no_more_than_are_paid_for(every: int) -> None:
    for rounds in range(1, 300):
        found = within(every, rounds)
        judged = -(-rounds // found)
        assert judged >= min(rounds, 2)
        assert judged == min(rounds, 2) or judged * every <= 1.05 * rounds


@pytest.mark.parametrize(
    ("every", "rounds", "found"),
    [(9, 1000, 9), (9, 41, 11), (16, 41, 21), (9, 10, 5), (9, 8, 4), (5, 1, 1), (16, 100, 17)],
)
def test_evenly_spread(every: int, rounds: int, found: int) -> None:
    assert within(every, rounds) == found


def test_counted_by_hand() -> None:
    made = built()
    sizes = {k: int(made.federation.sizes(k)[:20].sum()) for k in range(3)}
    assert sum(sizes.values()) == 1797
    assert made.cadence.every == 1  # takes less than a quarter of a second in all
    long = built({"rounds": 2_000})
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
    """A fifth for products; what else an evaluation costs is more beside a small model."""
    long = {"rounds": 5_000}  # so that a quarter of a second is nothing
    everybody = {"participation": {"fraction": 1.0}, **long}
    assert built(everybody).cadence.every == 6
    large = {"model": {"name": "mlp", "hidden": [800, 800]}}
    assert built(everybody, large).cadence.every == 2
    pooled = {"method": {"name": "pooled"}}
    assert built(pooled, long).cadence.every == 6  # all rows train, whoever takes part


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
    assert spaced(auto, 30).evaluation.every == 20  # of 40
    assert spaced(auto, 0) is auto
    assert spaced(own, 5) is own


def test_the_run_says_so_and_a_resumed_one_does_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FREE", 0)
    whole = start(parse({**FEW, "run": {"folder": str(tmp_path / "whole")}}))
    judged = [r["round"] for r in read_lines(whole / "rounds.jsonl") if r["metrics"]]
    assert judged == [12, 23]
    facts = read_json(whole / "skew.json")
    assert facts["evaluated_every"] == 12
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
