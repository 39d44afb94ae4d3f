"""What a site agrees to, and the noise that it adds: from a secret, which no one can subtract."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deployed import NAMES, RUN, Deployed

from unalike import tree
from unalike.algorithms.dp import CentralDp
from unalike.deploy.privacy.noise import Release, Source, hidden
from unalike.deploy.site.policy import Allowance, Policy
from unalike.deploy.wire.messages import Message, message
from unalike.errors import RunError, UnalikeError


def raw(**more: Any) -> dict[str, Any]:
    return {
        "rounds": 3,
        "seed": 3,
        "model": {"name": "mlp", "hidden": [8]},
        "method": {"name": "fedavg"},
        "local": {"epochs": 1, "batch_size": 16, "lr": 0.1},
        **more,
    }


LOCAL = [{"name": "local_dp", "clip": 0.5, "noise_multiplier": 2.0}]


def begun(config: dict[str, Any], policy: Policy, folder: Path) -> Message:
    """What a site of a policy says when a recipe begins."""
    site = Deployed(config, folder).site("north", policy)
    return site.answer(message("begin", RUN, 1, "coordinator", note={"stage": 0}))


@pytest.mark.parametrize(
    ("policy", "config", "says"),
    [
        (Policy(min_noise=1.0), raw(), r"noise multiplier of at least 1 .* the recipe has 0"),
        (Policy(min_noise=3.0), raw(plus=LOCAL), "the recipe has 2"),
        (Policy(min_noise=1.0), raw(plus=LOCAL, deploy={"noise": "seed"}), "which everybody knows"),
        (Policy(secure_aggregation=True), raw(), "requires secure aggregation"),
        (Policy(min_noise=2.0), raw(plus=LOCAL), ""),
    ],
)
def test_a_recipe_that_promises_too_little_is_refused(
    policy: Policy, config: dict[str, Any], says: str, tmp_path: Path
) -> None:
    told = begun(config, policy, tmp_path)
    assert told.kind == ("refusal" if says else "answer")
    assert re.search(says, told.note.get("why", ""))


def training(number: int, shift: float = 0.0) -> Message:
    note = {"round": number, "role": 0, "reply": True, "epochs": 1.0, "unused": -1}
    return message("train", RUN, 9, "coordinator", {"w": torch.zeros(3) + shift}, note)


def test_rounds_are_counted_by_what_was_asked(tmp_path: Path) -> None:
    allowance = Allowance(tmp_path / "trained.txt", 2)
    allowance.spend(training(40))
    allowance.spend(training(40))  # the same again is no other round
    allowance.spend(training(41))
    for again in (allowance, Allowance(tmp_path / "trained.txt", 2)):  # also after a restart
        again.spend(training(40))
        with pytest.raises(UnalikeError, match=r"allows 2 rounds \(max_rounds\)"):
            again.spend(training(40, shift=0.1))  # another model under an old number


def uploads(config: dict[str, Any], folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    """What each site sends in a first round."""
    far, sent = Deployed(config, folder), dict[str, dict[str, torch.Tensor]]()
    for name, site in far.exchange.sites.items():

        def answer(question: Message, own: Any = site.answer, name: str = name) -> Message:
            told: Message = own(question)
            if question.kind == "train":
                sent[name] = told.tensors
            return told

        site.answer = answer  # type: ignore[method-assign]
    far.course.advance(far.course.begin(), 0)
    return sent


def flat(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([x.reshape(-1) for _, x in sorted(tensors.items())])


def test_who_knows_the_seed_cannot_subtract_a_sites_noise(tmp_path: Path) -> None:
    known = uploads(raw(plus=LOCAL, deploy={"noise": "seed"}), tmp_path / "seed")
    quiet = [{**LOCAL[0], "noise_multiplier": 0.0}]
    clean = uploads(raw(plus=quiet, deploy={"noise": "seed"}), tmp_path / "clean")
    secret = uploads(raw(plus=LOCAL), tmp_path / "secret")
    first = {name: flat(secret[name]) - flat(clean[name]) for name in NAMES}
    for name, noise in first.items():
        assert float(noise.std()) == pytest.approx(1.0, rel=0.15)  # z C
        seeded = flat(known[name]) - flat(clean[name])
        assert abs(float(torch.corrcoef(torch.stack([noise, seeded]))[0, 1])) < 0.2
    one, two = list(first.values())[:2]
    assert abs(float(torch.corrcoef(torch.stack([one, two]))[0, 1])) < 0.2
    again = uploads(raw(plus=LOCAL), tmp_path / "secret")  # the same question at the same sites
    assert all(torch.equal(flat(again[name]), flat(secret[name])) for name in NAMES)
    assert (tmp_path / "secret" / "north" / "noise.key").stat().st_mode & 0o077 == 0


def test_a_coordinators_noise_is_its_own_too(tmp_path: Path) -> None:
    far = Deployed(raw(plus=[{"name": "dp"}]), tmp_path)
    recipe = hidden(far.course.program[0].recipe, Source(tmp_path / "noise.key"))
    (rule,) = recipe.filters
    assert isinstance(rule, Release)
    ups = {"w": torch.zeros(5, 4000)}
    (noise, weight), other = rule(ups, torch.ones(5), None), CentralDp()  # type: ignore[arg-type]
    assert weight.tolist() == [1.0]
    assert float(noise["w"].std()) == pytest.approx(other.deviation(5), rel=0.05)


def test_noise_is_normal_and_bound_to_what_it_hides(tmp_path: Path) -> None:
    (tmp_path / "noise.key").write_bytes(bytes(range(32)))  # the same draws each time
    source = Source(tmp_path / "noise.key")
    up = {"a": torch.zeros(100_001), "b": torch.zeros(())}
    x, again = (source.noisy(up, 1.0, "update")["a"].numpy() for _ in range(2))
    assert np.array_equal(x, again)
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        assert float((x**power).mean()) == pytest.approx(moment, abs=0.06)
    below = float((x < 1.0).mean())
    assert below == pytest.approx(0.5 * (1 + math.erf(1 / math.sqrt(2))), abs=0.006)
    moved = source.noisy({**up, "b": torch.ones(())}, 1.0, "update")["a"].numpy()
    other = Source(tmp_path / "other.key").noisy(up, 1.0, "update")["a"].numpy()
    for y in (moved, other, source.noisy(up, 1.0, "release")["a"].numpy()):
        assert abs(np.corrcoef(x, y)[0, 1]) < 0.02
    assert tree.leaves(source.noisy(up, 0.0, "update"))[0] is up["a"]
    (tmp_path / "noise.key").write_bytes(b"short")
    with pytest.raises(RunError, match="is damaged"):
        Source(tmp_path / "noise.key")
