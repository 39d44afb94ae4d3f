"""Secure aggregation: the mean of the plain run, and nothing else for the coordinator to see."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deployed import NAMES, Deployed
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike import tree
from unalike.deploy.privacy import masks
from unalike.deploy.privacy.masked_sums import refuse_single
from unalike.deploy.privacy.masked_updates import MaskedUpdates, Proof, Proposal, told
from unalike.deploy.privacy.masks import Deal, Secrets
from unalike.deploy.security.certificates import credentials, issue, make_authority
from unalike.deploy.site.policy import Policy
from unalike.deploy.wire.messages import Message, MessageError, message
from unalike.errors import ConfigError

SLOW = ("fedep", "feddyn", "fedadam", "local_dp", "fedevg", "superfed_mm")
LINEAR = [
    *("fedavg", "scaffold", "aaggff_s"),
    *(pytest.param(m, marks=pytest.mark.slow) for m in SLOW),
]


def raw(method: str, secure: bool) -> dict[str, Any]:
    return {
        "rounds": 2,
        "seed": 3,
        "model": {"name": "mlp", "hidden": [8]},
        "method": {"name": method},
        "local": {"epochs": 1, "batch_size": 16, "lr": 0.1},
        "deploy": {"secure_aggregation": secure, "noise": "seed"},
    }


def deal(secrets: dict[str, Secrets], weights: list[float], steps: tuple[int, ...]) -> Deal:
    keys = tuple(secrets[n].public for n in secrets)
    return Deal("run", 0, 1, tuple(secrets), tuple(weights), steps, keys)


@given(st.integers(3, 6), st.integers(0, 2**31), st.floats(-6, 6))
@settings(max_examples=20, deadline=None)
def test_the_sum_is_that_of_exact_arithmetic(n: int, seed: int, size: float) -> None:
    """Within the stated error, half a step for each site, whatever the size of numbers."""
    draw = np.random.default_rng(seed)
    ups = [{"a": torch.from_numpy(10**size * draw.normal(size=40)).float()} for _ in range(n)]
    weights = draw.dirichlet(np.ones(n)).tolist()
    secrets = {f"site{k}": Secrets() for k in range(n)}
    steps = masks.steps_of(weights, [masks.exponents(up) for up in ups])
    made = deal(secrets, weights, steps)
    told_ = {
        name: own.masked(masks.whole(ups[k], weights[k], steps), made, name)
        for k, (name, own) in enumerate(secrets.items())
    }
    own = {name: s.own(made) for name, s in secrets.items()}
    found = masks.opened(told_, own, made, {"a": ups[0]["a"].double()})["a"].numpy()
    pairs = list(zip(weights, ups, strict=True))
    exact = [math.fsum(w * float(u["a"][i]) for w, u in pairs) for i in range(40)]
    assert np.abs(found - exact).max() <= n / 2 * 2.0 ** steps[0]
    largest = sum(w * float(u["a"].abs().max()) for w, u in zip(weights, ups, strict=True))
    assert n / 2 * 2.0 ** steps[0] <= n * 2.0**-29 * largest


def test_what_travels_is_noise() -> None:
    """The masked zeros of one site are uniform, and so are all sums but the whole one."""
    secrets = {name: Secrets() for name in ("a", "b", "c")}
    made = deal(secrets, [0.2, 0.3, 0.5], (0,))
    zeros = np.zeros(1 << 16, np.uint32)
    told_ = {name: s.masked(zeros, made, name) for name, s in secrets.items()}
    own = {name: s.own(made) for name, s in secrets.items()}
    partial = told_["a"] + told_["b"]
    opened_alone = told_["a"].copy()
    masks.add_stream(opened_alone, own["a"], minus=True)
    whole = told_["a"] + told_["b"] + told_["c"]  # before sites have opened it
    for seen in (*told_.values(), partial, opened_alone, whole):
        assert _chi_square(seen) < 410  # 255 degrees of freedom: exceeded by chance once in 10^9
    like = {"x": torch.zeros(len(zeros))}
    assert not masks.opened(told_, own, made, like)["x"].any()


def _chi_square(numbers: np.ndarray) -> float:
    """Of all bytes, against the uniform distribution."""
    counts = np.bincount(numbers.view(np.uint8), minlength=256)
    wanted = counts.sum() / 256
    return float(((counts - wanted) ** 2 / wanted).sum())


def test_sites_that_were_told_different_weights_do_not_cancel() -> None:
    secrets = {name: Secrets() for name in ("a", "b", "c")}
    honest, other = (deal(secrets, w, (0,)) for w in ([0.2, 0.3, 0.5], [1.0, 1e-9, 1e-9]))
    zeros = np.zeros(1000, np.uint32)
    told_ = {n: s.masked(zeros, other if n == "a" else honest, n) for n, s in secrets.items()}
    own = {n: s.own(other if n == "a" else honest) for n, s in secrets.items()}
    found = masks.opened(told_, own, honest, {"x": torch.zeros(1000)})["x"]
    assert float(found.abs().median()) > 2**28


@pytest.mark.parametrize("method", LINEAR)
def test_the_run_is_the_plain_one(method: str, tmp_path: Path) -> None:
    plain = Deployed(raw(method, False), tmp_path / "plain")
    sealed = Deployed(raw(method, True), tmp_path / "sealed")
    seen: list[Message] = []
    ask = sealed.exchange.ask

    def listening(questions: Any, seconds: float) -> Any:
        for name, m in ask(questions, seconds):
            seen.append(m)
            yield name, m

    sealed.exchange.ask = listening  # type: ignore[method-assign]
    refuse_single(sealed.course.loop.recipe, sealed.course.loop, sealed.course.w)
    a, b = plain.course.begin(), sealed.course.begin()
    for t in range(2):
        a, one, _ = plain.course.advance(a, t)
        b, two, _ = sealed.course.advance(b, t)
        assert torch.allclose(one.weights, two.weights)
        assert one.traffic == two.traffic
    assert not sealed.heard
    for x, y in zip(tree.leaves(a.state.stack), tree.leaves(b.state.stack), strict=True):
        assert torch.allclose(x, y, atol=1e-6), method
    vectors = [m.tensors["['masked']"] for m in seen if "['masked']" in m.tensors]
    assert len(vectors) == 2 * len(NAMES)
    assert all(_chi_square(v.numpy()) < 500 for v in vectors)
    small = [x for m in seen for k, x in m.tensors.items() if "masked" not in k]
    assert all(x.numel() <= 64 for x in small)  # seeds and answers of surveys


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"plus": ["median"]}, "looks at every single update"),
        ({"plus": ["krum"]}, "looks at every single update"),
        ({"plus": ["topk"]}, "do not add up"),
        ({"method": {"name": "fedmgda"}}, "depend on the updates themselves"),
        ({"plus": [{"name": "phase_shift", "phases": 5}]}, "only 1 sites answer"),
        (
            {"plus": [{"name": "phase_shift", "phases": 5, "eval_model": "virtual_mean"}]},
            "in transit",
        ),
        ({"participation": {"fraction": 0.4}}, "only 2 sites answer"),
    ],
)
def test_what_needs_single_updates_is_refused(
    changed: dict[str, Any], why: str, tmp_path: Path
) -> None:
    made = Deployed(raw("fedavg", True) | changed, tmp_path)
    with pytest.raises(ConfigError, match=why):
        refuse_single(made.course.loop.recipe, made.course.loop, made.course.w)


def test_a_site_that_vanishes_before_the_sum_is_left_out(tmp_path: Path) -> None:
    """Its state goes back, and the mean is that of the others."""
    sealed = Deployed(raw("fedavg", True), tmp_path / "sealed")
    others = Deployed(raw("fedavg", False), tmp_path / "others")
    ask = sealed.exchange.ask

    def losing(questions: Any, seconds: float) -> Any:
        for name, m in ask(questions, seconds):
            lost = name == "west" and next(iter(questions.values())).kind == "mask"
            yield name, "no answer within 1 seconds" if lost else m

    sealed.exchange.ask = losing  # type: ignore[method-assign]
    del others.exchange.sites["west"]
    a, b = sealed.course.begin(), others.course.begin()
    a, one, _ = sealed.course.advance(a, 0)
    b, two, _ = others.course.advance(b, 0)
    assert one.ids.tolist() == two.ids.tolist()
    (why,) = one.rejected.values()
    assert why == "no part in the sum of all updates"
    for x, y in zip(tree.leaves(a.state.stack), tree.leaves(b.state.stack), strict=True):
        assert torch.allclose(x, y, atol=1e-6)


def test_a_site_that_vanishes_while_a_sum_is_opened_costs_the_round(tmp_path: Path) -> None:
    sealed = Deployed(raw("fedavg", True), tmp_path)
    ask = sealed.exchange.ask

    def losing(questions: Any, seconds: float) -> Any:
        for name, m in ask(questions, seconds):
            lost = name == "west" and next(iter(questions.values())).kind == "unmask"
            yield name, "no answer within 1 seconds" if lost else m

    sealed.exchange.ask = losing  # type: ignore[method-assign]
    a = sealed.course.begin()
    after, one, _ = sealed.course.advance(a, 0)
    assert one.skipped == "0 usable answers, 3 needed"
    for x, y in zip(tree.leaves(a.state.stack), tree.leaves(after.state.stack), strict=True):
        assert torch.equal(x, y)
    sealed.exchange.ask = ask  # type: ignore[method-assign]
    _, two, _ = sealed.course.advance(after, 1)
    assert not two.skipped


class TestSealing:
    """One site's refusals."""

    @pytest.fixture
    def sites(self, tmp_path: Path) -> dict[str, MaskedUpdates]:
        make_authority(tmp_path)
        for name in ("a", "b", "c", "d"):
            issue(tmp_path, name)
        made = {
            n: MaskedUpdates(n, "run", tmp_path / n, credentials(tmp_path, n))
            for n in ("a", "b", "c", "d")
        }
        for name, site in made.items():
            (tmp_path / name).mkdir()
            site.hold(0, {"x": torch.ones(3)})
        return made

    def ask(self, sites: dict[str, MaskedUpdates], names: str = "abc", **changed: Any) -> Message:
        proofs = [Proof.model_validate(sites[n].introduce()) for n in names]
        given: dict[str, Any] = {
            "round": 0,
            "attempt": 1,
            "members": list(names),
            "weights": [1 / len(names)] * len(names),
            "steps": [-20],
            "proofs": proofs,
        }
        return message(
            "mask", "run", 1, "coordinator", {"proposal": told(Proposal(**given | changed))}
        )

    def test_takes_part(self, sites: dict[str, MaskedUpdates]) -> None:
        assert sites["a"].masked(self.ask(sites))["masked"].dtype == torch.int32

    @pytest.mark.parametrize(
        ("changed", "why"),
        [
            ({"round": 4}, "holds no update of round 5"),
            ({"weights": [1.0, 0.0, 0.0]}, "fewer than 3 sites"),
            ({"weights": [0.5, -0.5, 1.0]}, "not numbers of 0 or more"),
            ({"members": ["b", "c", "d"]}, "without this site"),
            ({"members": ["a", "a", "b"]}, "of members of a sum is malformed"),
            ({"steps": [-20, 3]}, "do not match the recipe's tensors"),
            ({"steps": [-60]}, "larger than agreed"),
        ],
    )
    def test_refuses(
        self, sites: dict[str, MaskedUpdates], changed: dict[str, Any], why: str
    ) -> None:
        with pytest.raises(MessageError, match=why):
            sites["a"].masked(self.ask(sites, **changed))

    def test_refuses_a_key_that_is_not_signed_by_its_site(
        self, sites: dict[str, MaskedUpdates]
    ) -> None:
        stranger = Proof.model_validate(sites["d"].introduce())
        proofs = [Proof.model_validate(sites[n].introduce()) for n in "ab"]
        with pytest.raises(MessageError, match="site 'c' is not signed by it"):
            sites["a"].masked(self.ask(sites, proofs=[*proofs, stranger]))

    def test_opens_one_sum_of_a_round(self, sites: dict[str, MaskedUpdates]) -> None:
        def opened(attempt: int) -> Message:
            return message("unmask", "run", 2, "coordinator", note={"round": 0, "attempt": attempt})

        a = sites["a"]
        with pytest.raises(MessageError, match="no part in the sum"):
            a.opened(opened(1))
        a.masked(self.ask(sites, "abcd"))
        a.opened(opened(1))
        a.masked(self.ask(sites, "abcd", attempt=2))
        a.opened(opened(2))  # the same sum again, after a coordinator was killed
        a.masked(self.ask(sites, "abc", attempt=3))
        with pytest.raises(MessageError, match="has already unmasked another sum of round 1"):
            a.opened(opened(3))


def test_a_policy_may_insist_on_it(tmp_path: Path) -> None:
    made = Deployed(raw("fedavg", False), tmp_path)
    made.exchange.sites["west"] = made.site("west", Policy(secure_aggregation=True))
    made.course.advance(made.course.begin(), 0)
    assert [site for site, why in made.heard if "requires secure aggregation" in why] == ["west"]
