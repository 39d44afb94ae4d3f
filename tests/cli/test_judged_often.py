"""What a run says in the end if it spent its time on evaluation."""

import pytest

from unalike.cli.outcome import judged_often


@pytest.mark.parametrize(
    ("training", "evaluation", "every", "said"),
    [
        (1.0, 0.2, 1, ""),  # a sixth
        (1.0, 3.0, 1, "evaluation took 75% of the time; evaluation.every = 12 would"),
        (1.0, 3.0, 12, ""),
        (1.0, 3.0, 5, "evaluation took 38% of the time; evaluation.every = 12 would"),
        (0.01, 0.03, 1, ""),  # over before one could wish for less
    ],
)
def test_what_would_make_it_a_fifth(
    training: float, evaluation: float, every: int, said: str
) -> None:
    judged = [evaluation if t % every == 0 else 0.0 for t in range(1, 61)]
    timing = [{"round": t, "seconds": training + e, "evaluation": e} for t, e in enumerate(judged)]
    found = judged_often(timing)
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_lines_of_an_earlier_version() -> None:
    assert judged_often([{"round": 1, "seconds": 100.0}]) == ""
