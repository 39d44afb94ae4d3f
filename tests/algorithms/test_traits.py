"""Traits: what methods and topologies are, and whom they refuse."""

import re
from typing import Any

import pytest
from federations import composed, network_task

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import traits
from unalike.algorithms.table import METHODS
from unalike.parts.graphs import Random
from unalike.parts.topology import Clusters, Complete, Ring, Rotating, Star
from unalike.traits import Trait

TASK, DATA = network_task("normed")
BARE = Draft(TASK, 20, 3, (16,), 4)
GRAPHS = [Ring(), Complete(), Random(probability=1.0)]
CLIENT = {Trait.OWN_CLIENT, Trait.WHOLE_MODELS, Trait.OWN_OBJECTIVE}
OWN = {*CLIENT, Trait.OWN_SERVER}
PERSONAL = {*CLIENT, Trait.FEDAVG_SERVER, Trait.OWN_MODELS}
PLAIN = {Trait.OWN_CLIENT, Trait.WHOLE_MODELS, Trait.FEDAVG_SERVER, Trait.FEDAVG_OBJECTIVE}
FAIR = {Trait.SETS_WEIGHTS, Trait.WEIGHTS_CHANGE, Trait.WEIGHTS_FOLLOW_LOSSES}
EXPECTED: dict[str, set[Trait]] = {
    "fedavg": set(),
    "fedprox": {Trait.PULLS},
    "scaffold": {
        *(Trait.OWN_CLIENT, Trait.FEDAVG_SERVER, Trait.SPLITS_MODELS, Trait.FEDAVG_OBJECTIVE)
    },
    "fednova": {Trait.SCALES_WEIGHTS, Trait.STEP_IN_WEIGHTS},
    **{key: {Trait.STEPS_ON_SERVER} for key in ("fedavgm", "fedadam", "fedyogi", "fedadagrad")},
    **{key: {Trait.SETS_WEIGHTS} for key in ("fedep", "feddisco")},
    "latent_disco": {Trait.SETS_WEIGHTS, Trait.BEGINS_WITH_A_STAGE},
    **dict.fromkeys(("aaggff_s", "aaggff_d", "afl", "term", "propfair"), FAIR),
    "qfedavg": FAIR | {Trait.STEP_IN_WEIGHTS},
    "fedmgda": {Trait.SETS_WEIGHTS, Trait.WEIGHTS_CHANGE, Trait.STEP_IN_WEIGHTS},
    "propfair_loss": set(),
    "lg_fedavg": {Trait.KEEPS_LEAVES},
    **{key: {*PERSONAL, Trait.PULLS_ITSELF} for key in ("superfed_mm", "superfed_lm", "pfedme")},
    "apfl": {*PLAIN, Trait.OWN_MODELS},
    "per_fedavg": PERSONAL | {Trait.ENDS_WITH_A_STAGE},
    "feddyn": {*OWN, Trait.PULLS_ITSELF},
    "moon": PLAIN,
    "fedmix": {*CLIENT, Trait.FEDAVG_SERVER, Trait.BEGINS_WITH_A_STAGE},
    "fedproto": {*OWN, Trait.OWN_MODELS, Trait.SENDS_NO_MODEL},
    **{key: {Trait.KEEPS_LEAVES} for key in ("fedper", "fedrep", "fedbn")},
    "ditto": {Trait.OWN_MODELS},
    "finetune": {Trait.ENDS_WITH_A_STAGE},
    "phase_shift": {Trait.CHOOSES_COHORTS, Trait.SEVERAL_ROUNDS_IN_UPLOAD},
    **{key: {Trait.CHOOSES_COHORTS} for key in ("by_size", "power_of_choice", "tifl")},
    "fedbuff": {Trait.CHOOSES_COHORTS, Trait.SCALES_WEIGHTS, Trait.STEP_IN_WEIGHTS},
    "fedaug": {Trait.AUGMENTS},
    "astraea": {Trait.AUGMENTS, Trait.CHOOSES_COHORTS, Trait.BEGINS_WITH_A_STAGE},
    "fedevg": {*OWN, Trait.SENDS_NO_MODEL, Trait.MAKES_EXAMPLES},
    "fedcvae": {*OWN, Trait.SENDS_NO_MODEL, Trait.MAKES_EXAMPLES},
    "fedcgan": {*OWN, Trait.SENDS_NO_MODEL, Trait.MAKES_EXAMPLES},
    **{key: {Trait.FILTERS_UPDATES} for key in ("median", "trimmed_mean", "krum", "norm_clip")},
    "dp": {Trait.FILTERS_UPDATES, Trait.ALTERS_UPLOADS},
    "local_dp": {Trait.ALTERS_UPLOADS},
    **{key: {Trait.SENDS_SOME_ENTRIES} for key in ("topk", "random_mask")},
    "stc": {Trait.SENDS_SOME_ENTRIES, Trait.WRITES_FEW_BITS},
    **{key: {Trait.WRITES_FEW_BITS} for key in ("eight_bit", "sign")},
    "local_only": {Trait.KEEPS_LEAVES},
    "pooled": set(),
}


@pytest.mark.parametrize("name", METHODS)
def test_traits(name: str) -> None:
    """What a method says of itself, and what is seen in the draft."""
    method = METHODS[name]()
    assert traits(method, BARE, method.change(BARE)) == EXPECTED[name]


def test_traits_depend_on_settings() -> None:
    """A warm start is a stage; distances that clients report change from round to round."""
    warm = METHODS["lg_fedavg"](warm_start=2)
    assert Trait.BEGINS_WITH_A_STAGE in traits(warm, BARE, warm.change(BARE))
    every = METHODS["latent_disco"](refresh="every")
    found = traits(every, BARE, every.change(BARE))
    assert Trait.WEIGHTS_CHANGE in found
    assert Trait.BEGINS_WITH_A_STAGE not in found


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (Star(), set()),
        (Rotating(), {Trait.MOVING_SERVER}),
        (Clusters(2), {Trait.MANY_SERVERS, Trait.EDGE_SERVERS}),
        *((graph, {Trait.MANY_SERVERS, Trait.NO_SERVER}) for graph in GRAPHS),
    ],
)
def test_traits_of_topologies(topology: Any, expected: set[Trait]) -> None:
    assert topology.traits == expected


def test_nobody_refuses_itself_or_a_trait_that_nobody_has() -> None:
    """A refusal that can never be met is a mistake."""
    had = {t for found in EXPECTED.values() for t in found}
    had |= {Trait.ALTERS_DOWNLOADS}  # by a setting
    had |= {t for topology in (Rotating(), Clusters(2), Ring()) for t in topology.traits}
    for name, cls in METHODS.items():
        assert set(cls.refuses) <= had, name
        # These need an encoder, more clients, a delta, or participation below one.
        needy = {"latent_disco", "krum", "dp", "local_dp", "fedbuff"}
        needy |= {"by_size", "power_of_choice", "tifl"}
        if name not in needy:
            composed(TASK, DATA, name)


def test_no_method_names_another_in_what_it_refuses() -> None:
    """Reasons are about traits; a method that is written tomorrow is met as well."""
    names = "|".join(n for n in METHODS if n not in ("term", "dp", "median", "pooled"))
    for name, cls in METHODS.items():
        for why in cls.refuses.values():
            assert not re.search(rf"\b({names})\b", why), name
